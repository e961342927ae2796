"""Batches of histories against plain loops: every position, every negative, every slice, every epoch."""

import math

import numpy as np
import pytest

from tinyattn.data import Batch, ClozeSampler, Interactions, Sampler, Seen, cut, pad, rows_of_step, steps_of
from tinyattn.data.slices import SLICE_COST


def histories(seed, users=9, items=8, longest=7):
    """Sequences with repeats, some of one item or none that a model could learn from."""
    rng = np.random.default_rng(seed)
    lengths = [1, 2, *rng.integers(1, longest + 1, users - 2).tolist()]
    return Interactions.from_sequences(
        [list(range(1, items + 1)), *(rng.integers(1, items, n).tolist() for n in lengths)]
    )


def sets_of(data):
    return [set(data.sequence(u).tolist()) for u in range(data.n_users)]


@pytest.mark.parametrize("maxlen", [1, 2, 3, 20])
def test_inputs_and_targets_are_the_newest_items_one_place_apart(maxlen):
    """maxlen inputs, where the history has maxlen + 1 items: the oldest of these is an input and no target."""
    data = histories(maxlen)
    sampler = Sampler(data, maxlen, 4, 3, negatives=False)
    users = [sampler.batch(step).users.tolist() for step in range(2 * sampler.steps)]
    first, second = sum(users[: sampler.steps], []), sum(users[sampler.steps :], [])  # noqa: RUF017
    assert sorted(first) == sorted(second) == (np.flatnonzero(data.lengths >= 2) + 1).tolist()
    assert first != second
    for step in range(sampler.steps):
        batch = sampler.batch(step)
        assert batch.negatives is None
        assert batch.shared is None
        assert batch.rows is batch.users
        for row, user in enumerate(batch.users.tolist()):
            history = data.sequence(user - 1).tolist()
            n = min(len(history) - 1, maxlen)
            filling = [0] * (batch.ids.shape[1] - n)
            assert batch.ids[row].tolist() == history[-1 - n : -1] + filling
            assert batch.targets[row].tolist() == history[-n:] + filling
            assert batch.weight[row].tolist() == [1.0] * n + filling
            assert batch.slots[row].tolist() == [*range(maxlen - n, maxlen), *[maxlen - 1] * len(filling)]
        assert batch.weight.dtype == np.float32
        assert batch.ids.shape[1] == max(np.sum(batch.ids != 0, axis=1))
        assert batch.total == np.sum(batch.targets != 0)


@pytest.mark.parametrize("n", [1, 3, 4, 7, 8, 9, 23])
@pytest.mark.parametrize("size", [1, 4, 5])
def test_an_epoch_has_every_row_once_in_an_order_of_its_own(n, size):
    steps = steps_of(n, size)
    assert steps == max(1, n // size)
    orders = []
    for epoch in range(3):
        parts = [rows_of_step(n, steps, 5, epoch * steps + i) for i in range(steps)]
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        assert len(parts[0]) >= min(size, n)
        orders.append(np.concatenate(parts).tolist())
        assert sorted(orders[-1]) == list(range(n))
    if n > 6:
        assert orders[0] != orders[1] != orders[2] != orders[0]
        assert rows_of_step(n, 1, 6, 0).tolist() != rows_of_step(n, 1, 5, 0).tolist()
    assert rows_of_step(n, 1, 5, 2).tolist() == orders[2]
    names = np.arange(n) * 10 + 7
    assert rows_of_step(names, steps, 5, 0).tolist() == (rows_of_step(n, steps, 5, 0) * 10 + 7).tolist()


def test_the_order_of_an_epoch_is_uniform():
    first = np.bincount([rows_of_step(4, 1, 0, epoch)[0] for epoch in range(400)], minlength=4)
    assert np.all(np.abs(first - 100) < 5 * math.sqrt(75))


def test_every_unseen_item_is_drawn_at_every_place_and_no_other():
    data = Interactions.from_sequences([[1, 2, 2], [3, 4, 5, 6], [6], [1, 3]])
    had, sampler = sets_of(data), Sampler(data, 5, 3, 0, negatives=True)
    drawn = {}
    for step in range(250):
        batch = sampler.batch(step)
        assert (batch.negatives == 0).tolist() == (batch.targets == 0).tolist()
        for row, user in enumerate(batch.users.tolist()):
            for place in np.flatnonzero(batch.targets[row]).tolist():
                drawn.setdefault((user, place), set()).add(int(batch.negatives[row, place]))
    assert set(drawn) == {(1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (4, 0)}
    assert all(items == set(range(1, 7)) - had[user - 1] for (user, _), items in drawn.items())
    batches = [
        Sampler(data, 5, 3, seed, True).batch(step).negatives.tolist() for seed, step in ((0, 0), (0, 1), (1, 0))
    ]
    assert batches[0] != batches[1] != batches[2] != batches[0]
    assert sampler.batch(0).negatives.tolist() == batches[0]


@pytest.mark.parametrize(
    ("shared", "in_batch", "taken"), [(4, 0.0, 0), (3, 0.5, 2), (5, 0.5, 2), (6, 0.3, 2), (3, 1.0, 3)]
)
def test_so_many_negatives_are_shared_and_the_last_come_from_the_batch(shared, in_batch, taken):
    """round(in_batch · shared) are targets of the batch; each user's row has its own draws, all of them new to it."""
    data = Interactions.from_sequences([[1, 2, 3], [4, 5, 6], [7, 8], [9, 10], *[[i] for i in range(11, 40)]])
    sampler, had = Sampler(data, 5, 4, 0, True, shared, in_batch), sets_of(data)
    outside, rows = 0, set()
    for step in range(12):
        batch = sampler.batch(step)
        assert batch.negatives is None
        assert batch.shared.shape == (4, 1, shared)
        targets = set(batch.targets.ravel().tolist())
        for user, row in zip(batch.users.tolist(), batch.shared[:, 0].tolist(), strict=True):
            assert not set(row) & had[user - 1]
            assert min(row) > 0
            assert set(row[shared - taken :]) <= targets
            outside += sum(item not in targets for item in row[: shared - taken])
            rows.add(tuple(row))
    assert len(rows) > 40 or taken > 1
    assert outside >= 0.7 * 48 * (shared - taken)


def test_where_one_user_has_had_all_targets_the_catalogue_is_drawn_from_beside_them():
    """Targets 2, 2 and 3, of which user 1 has had all, and items 1 to 6: 2 comes three times as often as 5."""
    data = Interactions.from_sequences([[1, 3, 2], [4, 2], [5, 3], *[[6]] * 3])
    drawn = []
    for step in range(30):
        batch = Sampler(data, 1, 3, 0, True, 40, 1.0).batch(step)
        assert sorted(batch.targets.ravel().tolist()) == [2, 2, 3]
        drawn.append(batch.shared[batch.users == 3].ravel())  # who has had 3 and 5
    counts = np.bincount(np.concatenate(drawn), minlength=7)
    assert counts[[0, 3, 5]].tolist() == [0, 0, 0]
    for item, weight in {1: 1, 2: 3, 4: 1, 6: 1}.items():
        p = weight / 6
        assert abs(counts[item] - 1200 * p) < 5 * math.sqrt(1200 * p * (1 - p))


def test_negatives_and_holes_are_the_seeds():
    """Of one user's batches, whose order no seed changes."""
    data = Interactions.from_sequences([[1, 2, 3, 4, 5, 6, 7, 8], *[[i] for i in range(9, 60)]])
    for make in (
        lambda seed: Sampler(data, 9, 1, seed, True).batch(3).negatives,
        lambda seed: Sampler(data, 9, 1, seed, True, 5).batch(3).shared,
        lambda seed: ClozeSampler(data, 9, 1, seed, False, rho=0.5, mask_last=0.0).batch(3).ids,
    ):
        assert make(1).tolist() == make(1).tolist()
        assert make(1).tolist() != make(2).tolist()


def test_a_batch_is_cut_without_losing_a_number():
    """Each row stands in one slice, which is as wide as its longest row; asked positions have a width of their own."""
    rng, n_users, width = np.random.default_rng(0), 12, 9
    lengths = rng.integers(1, width + 1, n_users)
    real = np.arange(width) < lengths[:, None]
    ids = np.where(real, rng.integers(1, 50, real.shape), 0)
    batch = Batch(ids, ids + 100, np.arange(n_users) + 5, ids * 2, ids * 3, (np.arange(n_users) + 7)[:, None, None],
                  real.astype(np.float32), times=ids * 60.0)  # fmt: skip
    slices = batch.slices(15)
    assert sorted(np.concatenate([part.users for part in slices]).tolist()) == batch.users.tolist()
    for part in slices:
        rows = part.users - 5
        longest = lengths[rows].max()
        assert part.target_positions is None
        for name in ("ids", "slots", "targets", "negatives", "weight", "times"):
            np.testing.assert_array_equal(getattr(part, name), getattr(batch, name)[rows, :longest])
        np.testing.assert_array_equal(part.shared[:, 0, 0], rows + 7)
    asked = np.where(np.arange(5) < (lengths[:, None] + 1) // 2, 1, 0)
    cloze = batch._replace(targets=asked, negatives=asked * 2, weight=asked * 1.0, shared=None,
                           target_positions=asked * 3)  # fmt: skip
    for part in cloze.slices(15):
        rows = part.users - 5
        most = (int(lengths[rows].max()) + 1) // 2
        assert part.ids.shape == part.slots.shape == part.times.shape == (len(rows), lengths[rows].max())
        for x in (part.targets, part.target_positions, part.weight, part.negatives):
            assert x.shape == (len(rows), most)
    doubled = batch.map(lambda x: x * 2)
    assert doubled.target_positions is None
    np.testing.assert_array_equal(doubled.slots, batch.slots * 2)
    there = batch.to(np)
    for mine, theirs in zip(there, batch, strict=True):
        assert (mine is None) == (theirs is None)
        assert theirs is None or np.array_equal(mine, theirs)


@pytest.mark.parametrize("seed", range(12))
def test_slices_are_the_fewest_and_are_cut_again_where_that_saves_padding(seed):
    """A slice begins with the row at which another share of all tokens begins, and none could be cut with profit."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, (5, 400)[seed % 2], rng.integers(1, 40))
    tokens = int(rng.integers(1, lengths.sum() + 5))
    slices = cut(lengths, tokens)
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])  # stable: equal rows keep their order
    assert np.concatenate(slices).tolist() == order
    count, total = math.ceil(lengths.sum() / tokens), int(lengths.sum())
    begins, before = {0}, 0
    for place, row in enumerate(order):
        if place and before * count // total != (before - lengths[order[place - 1]]) * count // total:
            begins.add(place)
        before += int(lengths[row])
    ends = np.cumsum([len(part) for part in slices])[:-1].tolist()
    assert begins - {0} <= set(ends)
    for part in slices:
        for at in range(1, len(part)):
            assert (lengths[part[0]] - lengths[part[at]]) * (len(part) - at) <= SLICE_COST
    if seed % 2 == 0:
        assert begins - {0} == set(ends)  # short rows: nothing to save


@pytest.mark.parametrize(("longer", "parts"), [(250, 1), (251, 2), (400, 2)])
def test_a_cut_has_to_save_more_than_a_slice_costs(longer, parts):
    assert len(cut(np.array([1, longer + 1]), 10**6)) == parts
    assert len(cut(np.array([1, longer + 1, longer + 1]), 10**6)) == parts
    assert len(cut(np.array([1, longer // 2 + 1, 1]), 10**6)) == 1 + (longer > 251)  # two rows of padding each


def test_the_best_place_is_cut_first():
    assert [part.tolist() for part in cut(np.array([1, 1000, 1, 990, 500]), 10**6)] == [[1, 3], [4], [0, 2]]
    assert [part.tolist() for part in cut(np.array([1, 300, 290, 1]), 10**6)] == [[1, 2], [0, 3]]


def test_ids_beyond_the_catalogue_are_refused_and_the_last_ones_are_not():
    assert pad([np.array([3, 1])], 2, n_items=3).ids.tolist() == [[3, 1]]
    assert pad([np.array([7])], 2, np.array([4])).users.tolist() == [4]
    assert pad([np.array([7]), np.array([7])], 2).users.tolist() == [0, 0]
    for history, says in (
        ([3, 4], "item number 4 in a history, expected 1 to 3"),
        ([0, 1], "item number 0"),
        ([-1], "-1"),
    ):
        with pytest.raises(ValueError, match=says):
            pad([np.array([1]), np.array(history)], 5, n_items=3)
    with pytest.raises(ValueError, match=r"item number 0 in a history, expected 1, 2, 3, \.\.\. \(0 is padding\)"):
        pad([np.array([5, 0])], 5)
    assert pad([np.array([0, 5, 6])], 2).ids.tolist() == [[5, 6]]  # what is not read is not looked at
    with pytest.raises(ValueError, match="a history is empty"):
        pad([np.array([1]), np.array([], int)], 5)


@pytest.mark.parametrize("seed", range(3))
def test_what_users_have_had_is_what_plain_sets_say(seed):
    data = histories(seed)
    had, seen, rng = sets_of(data), Seen(data), np.random.default_rng(seed)
    assert seen.counts.tolist() == [len(items) for items in had]
    users, items = np.arange(data.n_users)[:, None], np.arange(data.n_items + 1)
    expected = [[item in mine for item in items.tolist()] for mine in had]
    assert seen.has(users, items).tolist() == expected
    assert seen.has(users[-1:, 0], np.array([data.n_items])).tolist() == [data.n_items in had[-1]]
    for size in (1, 2, 3, data.n_items):
        some = rng.permutation(data.n_items)[:size] + 1
        for people in ([0], [1, 2], list(range(1, data.n_users))):
            expected = any(set(some.tolist()) <= had[u] for u in people)
            assert seen.any_without(np.array(people), some) == expected
    free = np.array([u for u in range(data.n_users) if len(had[u]) < data.n_items])
    drawn = seen.draw_unseen(rng, np.repeat(free, 60)).reshape(len(free), 60)
    for u, row in zip(free.tolist(), drawn.tolist(), strict=True):
        assert set(row) <= set(range(1, data.n_items + 1)) - had[u]
    assert drawn.dtype == np.int64
    late = Seen(Interactions.from_sequences([[1, 2], [], [2], []]))
    assert late.counts.tolist() == [2, 0, 1, 0]  # also of who comes last, with nothing
    assert not late.has(np.array([1, 3]), np.array([1, 2])).any()
    only = seen.draw_unseen(rng, np.full(5, 1), lambda n: rng.choice(sorted(had[1] | {8}), n))
    assert only.tolist() == [8] * 5


CLOZE = Interactions.from_sequences([np.arange(1, n + 1) for n in range(1, 14)])


@pytest.mark.parametrize("rho", [0.01, 0.15, 0.4, 0.9, 1.0])
def test_of_every_history_a_rounded_share_is_hidden_and_at_least_one(rho):
    batch = ClozeSampler(CLOZE, 10, 50, 0, False, rho=rho, mask_last=0.0).batch(3)
    counts = {}
    for user, row, target in zip(batch.users.tolist(), batch.ids, batch.targets, strict=True):
        n = min(user, 10)
        assert np.count_nonzero(row) == n
        counts[n] = np.count_nonzero(row == CLOZE.n_items + 1)
        assert np.count_nonzero(target) == counts[n]
        assert counts[n] == max(1, round(rho * n))
    assert sorted(counts) == list(range(2, 11))
    assert batch.target_positions.shape[1] == max(counts.values())


def test_every_position_is_hidden_as_often_as_any_other_and_rows_differ():
    data = Interactions.from_sequences([np.arange(1, 7)] * 40)
    sampler = ClozeSampler(data, 6, 40, 0, False, rho=1 / 3, mask_last=0.0)
    hidden = np.concatenate([sampler.batch(step).ids == 7 for step in range(20)])
    assert np.all(np.abs(hidden.sum(axis=0) - 800 / 3) < 5 * math.sqrt(800 * 2 / 9))
    assert len(set(map(tuple, hidden[:40].tolist()))) > 8
    both = hidden[:, 0] & hidden[:, 1]
    assert abs(both.mean() - 1 / 15) < 5 * math.sqrt(1 / 15 / 800)  # any two, as often as any other two


def test_a_cloze_batch_has_the_newest_items_and_the_seeds_own_holes():
    data = histories(1)
    sampler = ClozeSampler(data, 3, 4, 0, False, rho=0.5, mask_last=0.5)
    batch = sampler.batch(1)
    for row, user in enumerate(batch.users.tolist()):
        history = data.sequence(user - 1)[-3:].tolist()
        n = len(history)
        asked = dict(zip(batch.target_positions[row].tolist(), batch.targets[row].tolist(), strict=True))
        whole = [asked.get(place) or int(batch.ids[row, place]) for place in range(n)]
        assert whole == history
        assert batch.slots[row, :n].tolist() == list(range(3 - n, 3))
    other = ClozeSampler(data, 3, 4, 1, False, rho=0.5, mask_last=0.5)
    assert sampler.steps == other.steps == len([n for n in data.lengths if n > 1]) // 4
    everyone = [s.batch(i).users.tolist() for s in (sampler, other) for i in range(s.steps)]
    assert sorted(np.concatenate([np.array(u) for u in everyone[: sampler.steps]]).tolist()) == sorted(
        np.flatnonzero(data.lengths > 1) + 1
    )
    assert everyone[: sampler.steps] != everyone[sampler.steps :]


@pytest.mark.parametrize("kind", ["plain", "shared", "cloze", "timed"])
def test_a_batch_is_padded_on_to_one_of_few_lengths(kind):
    """Nothing is lost or counted twice; the targets of cloze batches have other places, of weight 0."""
    some = Interactions.from_sequences([np.arange(1, 2 + n % 8) for n in range(30)] + [[9]])
    if kind == "timed":
        history = np.arange(12)
        data = Interactions.from_columns(np.repeat([1, 2, 3], 4), history + 1, 1e9 + history)
        sampler = Sampler(data, 6, 3, 0, negatives=True, timed=True)
    elif kind == "cloze":
        sampler = ClozeSampler(some, 6, 2, 0, True, rho=0.4, mask_last=0.3)
    else:
        sampler = Sampler(some, 6, 2, 0, True, 3 * (kind == "shared"))
    lengths = set()
    for step in range(sampler.steps):
        batch = sampler.batch(step)
        longer, (B, n) = batch.padded(), batch.ids.shape
        assert longer.ids.shape == (B, {1: 1, 2: 2, 3: 4, 4: 4}.get(n, 6))
        assert longer.slots[:, n:].tolist() == [[5] * (longer.ids.shape[1] - n)] * B
        for name, x, y in zip(batch._fields, batch, longer, strict=True):
            assert (x is None) == (y is None)
            if x is not None and name in ("users", "shared"):
                assert y is x
            elif x is not None:
                assert y.dtype == x.dtype
                assert y[:, : x.shape[1]].tolist() == x.tolist()
                assert name in ("slots", "target_positions") or not np.any(y[:, x.shape[1] :])
        if kind == "cloze":
            assert longer.targets.shape == longer.target_positions.shape == longer.weight.shape
            assert longer.targets.shape[1] in (4, longer.ids.shape[1])
            assert all(len({*row}) == len(row) for row in longer.target_positions.tolist())
            assert longer.target_positions.max() < longer.ids.shape[1]
        lengths.add(n)
    assert len(lengths) > 2 or kind == "timed"
