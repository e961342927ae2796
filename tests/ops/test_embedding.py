"""`embedding`: its gradient against plain loops, and `sum_rows`, which adds what readings of one id give back."""

import numpy as np
import pytest

from tinyattn import ops

LEADS = [(), (3,), (2, 3)]


@pytest.mark.parametrize("lead", LEADS, ids=str)
def test_embedding_backward(lead, rng):
    ids, E = rng.integers(0, 3, (*lead, 40)), rng.standard_normal((4, 5))  # ids that occur often and never
    dy, dE = rng.standard_normal((*lead, 40, 5)), np.zeros(E.shape)
    for place in np.ndindex(ids.shape):
        dE[ids[place]] += dy[place]
    np.testing.assert_allclose(ops.embedding_backward(dy, ids, E), dE, rtol=0, atol=1e-12)


def test_ids_below_0_are_those_from_the_end_in_both_directions(rng):
    """Gradients are whole numbers: their sum is the same in every order."""
    ids, E, dy = np.array([-1, 4, -5, 4]), rng.standard_normal((5, 2)), rng.integers(-9, 9, (4, 2)).astype(float)
    assert np.array_equal(ops.embedding(ids, E), ops.embedding(ids % 5, E))
    assert np.array_equal(ops.embedding_backward(dy, ids, E), ops.embedding_backward(dy, ids % 5, E))


@pytest.mark.host  # a device adds into the whole table: test_embedding_backward
@pytest.mark.parametrize("repeats", [1, 3, 8, 16, 17, 60, 256, 300])
def test_sum_rows(repeats, rng):
    """Ids that occur a few times are added in rounds, frequent ones run by run: both, and a mixture."""
    once = np.arange(12, 40)
    ids = rng.permutation(np.concatenate([np.repeat([7, 2, 9], repeats), [4, 4, 1], np.repeat(5, 30), once]))
    values = rng.standard_normal((len(ids), 3))
    found = ops.sum_rows(ids, values, np.zeros((40, 3)))
    assert sorted(found.ids.tolist()) == [1, 2, 4, 5, 7, 9, *once]
    for i, total in zip(found.ids, found.values, strict=True):
        np.testing.assert_allclose(total, sum(values[j] for j in range(len(ids)) if ids[j] == i), rtol=0, atol=1e-12)


@pytest.mark.host
def test_sum_rows_names_what_does_not_fit(rng):
    with pytest.raises(TypeError, match="sum_rows: ids has dtype float64, expected integers"):
        ops.sum_rows(np.zeros(3), rng.standard_normal((3, 2)), np.zeros((4, 2)))


@pytest.mark.host
def test_sum_rows_of_a_table_that_16_bits_cannot_number(rng):
    """Two ids that differ by 2¹⁶, in turns: they are not one id."""
    ids, values = np.array([5, 5 + (1 << 16)] * 3), rng.standard_normal((6, 2))
    found = ops.sum_rows(ids, values, np.zeros(((1 << 16) + 10, 2)))
    assert sorted(found.ids.tolist()) == [5, 5 + (1 << 16)]
    for i, total in zip(found.ids, found.values, strict=True):
        np.testing.assert_allclose(total, values[ids == i].sum(axis=0), rtol=0, atol=1e-15)
