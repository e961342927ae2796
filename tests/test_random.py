"""Random numbers by key: every place of a mask is drawn on its own."""

import numpy as np
import pytest

from tests.devices import DEVICES, MISSING, On
from tinyattn.backend import to_numpy
from tinyattn.random import MaskKeys, PairMask, keep_mask, pair_mask


@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 8), (6, 5, 7, 8)])
def test_no_two_rows_of_a_mask_agree_beyond_chance(shape):
    """Neighbours along any axis, and along any two at once, as one step up and one down."""
    mask = keep_mask(MaskKeys(np.random.default_rng(0), np.arange(shape[0])), (*shape[:-1], 400), 0.5)
    steps = [np.eye(mask.ndim, dtype=int)[axis] * sign for axis in range(mask.ndim) for sign in (1, -1)]
    for step in [a + b for a in steps for b in steps if (a + b).any()]:
        moved = tuple(slice(max(s, 0), size + min(s, 0)) for s, size in zip(step, mask.shape, strict=True))
        there = tuple(slice(max(-s, 0), size + min(-s, 0)) for s, size in zip(step, mask.shape, strict=True))
        assert 0.4 < np.mean(mask[moved] == mask[there]) < 0.6, step


def test_more_axes_than_there_are_keys_for_are_refused():
    with pytest.raises(ValueError, match="has 5 axes, expected at most 4"):
        keep_mask(np.random.default_rng(0), (2, 2, 2, 2, 2), 0.5)


@pytest.mark.parametrize("where", [name for name in DEVICES if name not in MISSING])
@pytest.mark.parametrize(("lead", "rows"), [((), None), ((2,), None), ((3, 2), None), ((3, 2), [5, 0, 9])])
def test_any_part_of_a_pair_mask_is_what_the_whole_mask_keeps(lead, rows, where):
    n, m, xp = 11, 13, On(where).xp
    rng, again = np.random.default_rng(7), np.random.default_rng(7)
    if rows is not None:
        rng, again = MaskKeys(rng, xp.asarray(rows)), MaskKeys(again, xp.asarray(rows))
    like = xp.zeros(1)
    whole = to_numpy(keep_mask(rng, (*(1,) * (2 - len(lead)), *lead, n, m), 0.3, like)).reshape(*lead, n, m)
    mask = pair_mask(again, 0.3)
    for some, seen in ((slice(0, n), slice(0, m)), (slice(2, 7), slice(5, 6)), (slice(3, 3), slice(1, 12))):
        assert np.array_equal(to_numpy(mask.tile(lead, some, seen, like)), whole[..., some, seen])
        for at in np.ndindex(lead):
            assert np.array_equal(to_numpy(mask.tile(lead, some, seen, like, at)), whole[at][some, seen])
    i, j = np.array([[0, 10, 3], [4, 4, 1]]), np.array([[12, 0], [5, 7]])
    parts = to_numpy(mask.pairs(lead, xp.asarray(i), xp.asarray(j), like))
    assert np.array_equal(parts, whole[..., i[:, :, None], j[:, None, :]])


def test_a_pair_mask_knows_its_axes_and_its_rate():
    with pytest.raises(ValueError, match="there are 3"):
        pair_mask(np.random.default_rng(0), 0.5).tile((2, 2, 2), slice(0, 1), slice(0, 1), np.zeros(1))
    with pytest.raises(ValueError, match="rows of 1 sequences; there are 2"):
        PairMask(1, 0.5, np.array([3])).tile((2, 2), slice(0, 1), slice(0, 1), np.zeros(1))
    with pytest.raises(ValueError, match="rate is 1"):
        pair_mask(np.random.default_rng(0), 1.0)
