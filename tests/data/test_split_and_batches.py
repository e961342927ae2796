from dataclasses import replace

import numpy as np
import pytest

from tests.models.worlds import TINY, uneven
from tinyattn.data import Interactions, Sampler, SeriesWorld, Vocabulary, by_time, distinct, leave_one_out, pad


def test_leave_one_out_by_hand():
    split = leave_one_out(Interactions.from_sequences([[1, 2, 3, 4], [5, 6], [7, 8, 9]]))
    assert [split.train.sequence(u).tolist() for u in range(3)] == [[1, 2], [5, 6], [7]]
    assert split.valid.tolist() == [3, 0, 8]
    assert split.test.tolist() == [4, 0, 9]
    assert split.evaluated.tolist() == [0, 2]
    assert [h.tolist() for h in split.histories(np.array([0]), "valid")] == [[1, 2]]
    assert [h.tolist() for h in split.histories(np.array([0]), "test")] == [[1, 2, 3]]
    assert split.train.n_items == 9  # the catalogue is that of the whole data


def test_nobody_with_three_interactions():
    with pytest.raises(ValueError, match="none of the 2 users has 3 interactions"):
        leave_one_out(Interactions.from_sequences([[1, 2], [3]]))


def test_padding_stands_right_and_the_last_item_at_the_last_slot():
    batch = pad([np.array([5, 6]), np.array([1, 2, 3, 4, 7])], maxlen=4)
    assert batch.ids.tolist() == [[5, 6, 0, 0], [2, 3, 4, 7]]
    assert batch.slots[0, :2].tolist() == [2, 3]
    assert batch.slots[1].tolist() == [0, 1, 2, 3]
    assert batch.slots.max() == 3


@pytest.mark.parametrize("negatives", [True, False])
def test_an_epoch_is_every_user_once(negatives):
    data = leave_one_out(TINY.generate()).train
    sampler = Sampler(data, maxlen=5, batch_size=16, seed=3, negatives=negatives)
    assert sampler.steps == 60 // 16
    batches = [sampler.batch(step) for step in range(2 * sampler.steps)]
    for epoch in (batches[: sampler.steps], batches[sampler.steps :]):
        users = np.concatenate([b.users for b in epoch])
        assert sorted(users.tolist()) == list(range(1, 61))
        assert max(len(b.users) for b in epoch) - min(len(b.users) for b in epoch) <= 1
    assert batches[0].users.tolist() != batches[sampler.steps].users.tolist()
    again = sampler.batch(1)
    for mine, theirs in zip(again, batches[1], strict=True):
        np.testing.assert_array_equal(mine, theirs)  # a step's batch depends on the step alone


def test_targets_follow_and_negatives_were_never_had():
    data = uneven(users=9, items=12)
    batch = Sampler(data, maxlen=4, batch_size=9, seed=0, negatives=True).batch(0)
    for row, user in enumerate(batch.users):
        history = data.sequence(user - 1).tolist()
        n = int(batch.weight[row].sum())
        assert batch.ids[row, :n].tolist() == history[-n - 1 : -1]
        assert batch.targets[row, :n].tolist() == history[-n:]
        assert not set(batch.negatives[row, :n]) & set(history)
        assert not batch.negatives[row, n:].any()
        assert not batch.targets[row, n:].any()
    assert set(batch.users) == set(np.flatnonzero(data.lengths >= 2) + 1)


def test_negatives_are_uniform_over_unseen_items():
    data = Interactions.from_sequences([[1, 2, 3], [4, 5, 6, 7]])
    sampler = Sampler(data, maxlen=5, batch_size=2, seed=0, negatives=True)
    drawn = [sampler.batch(step) for step in range(3000)]
    first = np.concatenate([b.negatives[b.users == 1].ravel() for b in drawn])
    counts = np.bincount(first[first > 0], minlength=8)
    assert counts[:4].tolist() == [0] * 4  # padding, and what user 1 has had
    expected = counts.sum() / 4
    assert np.all(np.abs(counts[4:] - expected) < 5 * np.sqrt(expected))


def unseen_of(data, user):
    return set(range(1, data.n_items + 1)) - set(data.sequence(user - 1).tolist())


@pytest.mark.parametrize("in_batch", [1.0, 0.25])
def test_negatives_from_the_batch_are_what_others_had_next(in_batch):
    data = Interactions.from_sequences([[1, 2, 3], [2, 4, 5], [6, 1, 4], [7, 8], [9]])
    batch = Sampler(data, 5, 4, 0, True, shared=80, in_batch=in_batch).batch(2)
    n = round(80 * in_batch)
    for user, row in zip(batch.users, batch.shared[:, 0], strict=True):
        others = set(batch.targets[batch.users != user].ravel()) - {0}
        assert set(row[80 - n :]) == others & unseen_of(data, user)  # the other lanes' targets, less what this one had
        if n < 80:
            assert set(row[: 80 - n]) == unseen_of(data, user)
    again = Sampler(data, 5, 4, 0, True, 80, in_batch).batch(2)
    np.testing.assert_array_equal(again.shared, batch.shared)


def test_negatives_from_the_batch_are_as_popular_as_its_targets():
    data = Interactions.from_sequences([[1, 2], *[[3, 4]] * 3, [3, 5]])
    drawn = [Sampler(data, 5, 5, 0, True, 100, 1.0).batch(step) for step in range(20)]
    row = np.concatenate([b.shared[b.users == 1].ravel() for b in drawn])
    assert set(row) == {4, 5}
    assert abs(np.mean(row == 4) - 3 / 4) < 5 * np.sqrt(3 / 16 / len(row))


def test_where_a_batch_has_nothing_new_for_a_user_the_catalogue_has():
    data = Interactions.from_sequences([[1, 2, 3], [3, 2, 1], [1, 2], [4, 5]])
    sampler = Sampler(data, 5, 2, 0, True, 50, 1.0)
    for step in range(12):
        batch = sampler.batch(step)
        for user, row in zip(batch.users, batch.shared[:, 0], strict=True):
            assert set(row) <= unseen_of(data, user)


@pytest.mark.parametrize("in_batch", [0.0, 0.5])
def test_negatives_by_popularity(in_batch):
    """In proportion to counts to the power, over what the user never had; nobody's item counts as had once."""
    data = leave_one_out(Interactions.from_sequences([[1, 2], *[[3, 4, 3, 6]] * 8, [3, 5, 5, 5]])).train
    counts = {i: max(np.sum(data.flat == i), 1) for i in range(1, data.n_items + 1)}
    power = 0.5
    drawn = [Sampler(data, 5, 10, 0, True, 200, in_batch, popularity_power=power).batch(step) for step in range(30)]
    row = np.concatenate([b.shared[b.users == 1, 0, : 200 - round(200 * in_batch)].ravel() for b in drawn])
    weights = {i: counts[i] ** power for i in unseen_of(data, 1)}
    assert set(row) == set(weights)
    for i, weight in weights.items():
        chance = weight / sum(weights.values())
        assert abs(np.mean(row == i) - chance) < 5 * np.sqrt(chance * (1 - chance) / len(row))


def test_a_batch_of_one_user_has_no_others_to_take_negatives_from():
    data = Interactions.from_sequences([[1, 2, 3], [2, 4, 5]])
    for alone, size, n in ((data, 1, 2), (Interactions.from_sequences([[1, 2, 3], [4]]), 8, 1)):
        says = f"a batch of one user has no other .* in_batch is 0.5, batch_size {size}, and {n} have two"
        with pytest.raises(ValueError, match=says):
            Sampler(alone, 5, size, 0, True, 4, in_batch=0.5)
    Sampler(data, 5, 1, 0, True, 4)
    Sampler(data, 5, 2, 0, True, 4, in_batch=0.5)


def test_what_cannot_be_trained_on_is_said():
    with pytest.raises(ValueError, match=r"user 3 has had all 3 items: .* ce where the model has it"):
        Sampler(Interactions.from_sequences([[1], [1, 2], [1, 2, 3]]), 5, 2, 0, negatives=True)
    Sampler(Interactions.from_sequences([[1, 2], [1, 2, 3]]), 5, 2, 0, negatives=False)
    with pytest.raises(ValueError, match="no user has two training interactions"):
        Sampler(Interactions.from_sequences([[1], [2]]), 5, 2, 0, negatives=False)


def test_vocabulary():
    integers, strings = Vocabulary(np.array([3, 7, 12])), Vocabulary(np.array(["a", "b"]), "user")
    assert integers.numbers(["12", 3]).tolist() == [3, 1]
    assert integers.decode(np.array([[1, 3]])).tolist() == [[3, 12]]
    assert integers.numbers([]).tolist() == []
    for bad in (8, "x", 2**70, 3.5, None, "1_2", "07", "٣"):
        with pytest.raises(ValueError, match=r"unknown item id .*: the 3 known ids are 3, 7, 12$"):
            integers.numbers([3, bad])
    with pytest.raises(ValueError, match=r"the 1,000 known ids are 0, 1, 2, \.\.\.$"):
        Vocabulary(np.arange(1000)).numbers([1000])
    assert [Vocabulary(np.array([0])).numbers_or_zero(np.array([n]))[0] for n in (-1, 0, 1)] == [0, 1, 0]
    assert integers.numbers_or_zero(np.array(["12", "012", "x", "3"])).tolist() == [3, 0, 0, 1]
    assert Vocabulary(np.array(["12", "x"])).numbers_or_zero(np.array([3, 12])).tolist() == [0, 1]
    with pytest.raises(ValueError, match="unknown user id c: the 2 known ids are a, b"):
        strings.numbers(["a", "c"])


class TestWorld:
    def test_the_same_settings_give_the_same_data(self):
        assert TINY.generate().fingerprint() == TINY.generate().fingerprint()
        other = SeriesWorld(series=4, episodes=4, users=60, most_open=2, shortest=4, longest=9, seed=1)
        assert other.generate().fingerprint() != TINY.generate().fingerprint()

    def test_everyone_sees_each_series_in_order_and_never_twice(self):
        data = TINY.generate()
        for u in range(data.n_users):
            seen = data.sequence(u) - 1
            assert len(set(seen.tolist())) == len(seen)
            for series in range(4):
                episodes = [i % 4 for i in seen if i // 4 == series]
                assert episodes == list(range(len(episodes)))

    def test_the_truth_is_a_distribution_and_is_what_happens(self):
        """Over many people, what came next came as often as the truth had said: a calibration test, five sigma."""
        world = SeriesWorld(series=5, episodes=4, users=20_000, most_open=2, shortest=6, longest=6, seed=3)
        data = world.generate()
        histories = [data.sequence(u)[:5] for u in range(data.n_users)]
        following = np.array([data.sequence(u)[5] for u in range(data.n_users)])
        truth = world.next_item(histories)
        np.testing.assert_allclose(truth.sum(axis=1), 1, atol=1e-12)
        assert not truth[:, 0].any()
        given = truth[np.arange(len(following)), following]
        assert np.all(given > 0)
        for low, high in ((0.0, 0.1), (0.1, 0.3), (0.3, 0.45), (0.45, 0.7), (0.7, 1.01)):
            place = (truth > low) & (truth <= high) if low else (truth > 0) & (truth <= high)
            expected = truth[place].sum()
            spread = np.sqrt((truth[place] * (1 - truth[place])).sum())
            happened = place[np.arange(len(following)), following].sum()
            assert abs(happened - expected) <= 5 * spread + 1e-9

    def test_the_best_ranking_is_no_worse_than_any_other(self, rng):
        from tinyattn.evaluation import full_ranking

        split = leave_one_out(TINY.generate())
        best = full_ranking(lambda h, u: TINY.best_ranking(h), split, truth=TINY.next_item)["ndcg@10"]
        for _ in range(5):
            noisy = full_ranking(lambda h, u: TINY.next_item(h) + 0.05 * rng.random((len(h), TINY.n_items + 1)), split,
                                 truth=TINY.next_item)["ndcg@10"]  # fmt: skip
            assert noisy <= best + 1e-12

    def test_what_cannot_be_generated_is_refused(self):
        with pytest.raises(ValueError, match="longest < 16"):
            SeriesWorld(series=4, episodes=4, longest=16)


def timed(rows):
    users, items, times = (np.array(column) for column in zip(*rows, strict=True))
    return Interactions.from_columns(users, items, times)


def test_a_split_by_time_by_hand():
    """The moment is time 7: users 1 and 4 have both sides, user 2 nothing later, user 3 one earlier, user 5 none."""
    rows = [(1, 10, 1), (1, 11, 4), (1, 12, 9), (1, 13, 10), (2, 11, 2), (2, 12, 7), (3, 13, 3), (3, 14, 8)]
    rows += [(4, 15, 5), (4, 10, 6), (4, 16, 8)]
    data = timed([*rows, (5, 17, 9)])
    split = by_time(data, share=7 / 12)
    ids = lambda numbers: [0 if n == 0 else data.items.ids[n - 1] for n in numbers]  # noqa: E731
    assert ids(split.test) == [12, 0, 0, 16, 0]  # user 1's first after it, not the last
    assert ids(split.valid) == [11, 0, 0, 10, 0]
    assert [ids(split.train.sequence(u)) for u in range(5)] == [[10], [11, 12], [13], [15], []]
    assert split.evaluated.tolist() == [0, 3]
    assert [ids(h) for h in split.histories(split.evaluated, "test")] == [[10, 11], [15, 10]]
    assert [ids(h) for h in split.histories(split.evaluated, "valid")] == [[10], [15]]
    assert split.data.n_users == 5
    assert split.data.n_items == data.n_items


def test_nothing_after_the_moment_is_trained_on(rng):
    rows = [(u, i, t) for u, i, t in zip(*(rng.integers(0, n, 600) for n in (40, 30, 500)), strict=True)]
    data = timed(rows)
    split = by_time(data)
    times = np.sort(data.times)
    moment = times[539]  # 540 of 600 do not come after it, ties apart
    assert np.mean(data.times <= moment) >= 0.9
    later = {(u, i) for u, i, t in rows if t > moment}
    n_late = sum(t > moment for _, _, t in rows)
    assert len(split.train) == 600 - n_late - len(split.evaluated)
    for u in split.evaluated.tolist():
        user = data.users.ids[u]
        test = data.items.ids[split.test[u] - 1]
        assert (user, test) in later
        mine = sorted((t for v, _, t in rows if v == user))
        assert len(split.data.sequence(u)) == sum(t <= moment for t in mine) + 1
    assert len(split.data.times) == len(split.data)


def test_a_split_by_time_needs_times_and_users_on_both_sides():
    with pytest.raises(ValueError, match="needs times, and these interactions have none"):
        by_time(uneven())
    with pytest.raises(ValueError, match="none of the 2 users has 2 interactions up to time 3 and 1 after it"):
        by_time(timed([(1, 1, 1), (1, 2, 2), (1, 3, 3), (2, 1, 4)]), share=0.75)


def test_the_k_core_keeps_the_times():
    data = timed([(1, 1, 5), (1, 2, 6), (2, 1, 7), (2, 2, 8), (2, 9, 7), (3, 1, 1)]).k_core(2)
    assert data.times.tolist() == [5, 6, 7, 8]


def test_fewer_interactions_keep_their_times_and_ratings():
    data = Interactions.from_sequences([[5, 6, 7, 8], [5, 6, 7]])
    data = replace(data, times=np.arange(7.0), ratings=np.arange(7.0) / 2)
    cases = ((data.newest(2), [2, 3, 5, 6]), (data.first_users(1), [0, 1, 2, 3]), (data.k_core(2), [0, 1, 2, 4, 5, 6]))
    for fewer, kept in cases:
        np.testing.assert_array_equal(fewer.times, kept)
        np.testing.assert_array_equal(fewer.ratings, np.array(kept) / 2)


@pytest.mark.parametrize("keys", [[], [3], [5, 1, 5, 5, 0], [2**40, -1, 2**40]])
def test_distinct_integers_are_numpys_unique(keys):
    keys = np.array(keys, dtype=np.int64)
    found = distinct(keys)
    assert found.dtype == keys.dtype
    np.testing.assert_array_equal(found, np.unique(keys))
