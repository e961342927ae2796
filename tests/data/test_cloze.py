"""Cloze batches: which items are hidden, which are targets, and which stay."""

import numpy as np
import pytest

from tests.models.worlds import uneven
from tinyattn.data import ClozeSampler, Seen

DATA = uneven(users=40, items=12, longest=9)
MASK = DATA.n_items + 1


def sampler(rho=0.4, mask_last=0.3, data=DATA, maxlen=6):
    return ClozeSampler(data, maxlen, data.n_users, 0, True, rho=rho, mask_last=mask_last)


def original(batch, row):
    return DATA.sequence(batch.users[row] - 1)[-6:]


@pytest.mark.parametrize("step", [0, 1, 5])
def test_hidden_items_are_the_targets_and_all_others_are_as_they_were(step):
    batch = sampler().batch(step)
    for row in range(len(batch.ids)):
        items, n = original(batch, row), np.count_nonzero(batch.targets[row])
        hidden, filling = batch.target_positions[row, :n], batch.target_positions[row, n:]
        assert n in (1, max(1, round(0.4 * len(items))))
        assert len(set(batch.target_positions[row])) == batch.target_positions.shape[1]  # each position is asked once
        np.testing.assert_array_equal(batch.targets[row, :n], items[hidden])
        assert not batch.targets[row, n:].any()
        assert np.all(batch.ids[row, filling] != MASK)
        expected = items.copy()
        expected[hidden] = MASK
        np.testing.assert_array_equal(batch.ids[row, : len(items)], expected)
        assert not batch.ids[row, len(items) :].any()
    np.testing.assert_array_equal(batch.weight, batch.targets != 0)
    seen = Seen(DATA)
    had = [set(DATA.sequence(u - 1)) for u in batch.users]
    assert seen.counts.any()
    for row, column in np.argwhere(batch.targets):
        assert batch.negatives[row, column] not in had[row]


def test_a_batch_is_a_function_of_the_step():
    for mine, theirs in zip(sampler().batch(3), sampler().batch(3), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    first, second = (sampler(mask_last=0).batch(step) for step in (0, 1))
    order = np.argsort(second.users)[np.argsort(np.argsort(first.users))]
    np.testing.assert_array_equal(second.users[order], first.users)
    assert np.any((second.ids[order] == MASK) != (first.ids == MASK))  # other items are hidden


def test_a_share_of_the_rows_hides_the_last_item_alone():
    for share, low, high in ((0, 0, 0), (1, 1, 1), (0.3, 0.2, 0.4)):
        alone = []
        for step in range(20):
            batch = sampler(rho=0.6, mask_last=share).batch(step)
            lengths = np.sum(batch.ids != 0, axis=1)
            long = lengths >= 4
            last = batch.ids[np.arange(len(lengths)), lengths - 1] == MASK
            alone += (last & (np.sum(batch.ids == MASK, axis=1) == 1))[long].tolist()
        assert low <= np.mean(alone) <= high
