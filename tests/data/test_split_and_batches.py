from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from tests.models.worlds import uneven
from tinyattn.data import SPLITS, Interactions, Sampler, Vocabulary, by_time, distinct, leave_one_out
from tinyattn.data.split import folds


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
        says = f"a batch of one user has no other .* in_batch is 0.5, batch_size {size}, and {n} users have two"
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
    assert integers.numbers([np.float32(3), Decimal(7), np.array(12)]).tolist() == [1, 2, 3]
    assert integers.decode(np.array([[1, 3]])).tolist() == [[3, 12]]
    assert integers.numbers([]).tolist() == []
    fractions = 3.5, np.float32(3.5), Decimal("3.7"), Fraction(7, 2)
    for bad in (8, "x", 2**70, None, "1_2", "07", "٣", *fractions, b"3", True, np.True_, np.ma.masked):
        with pytest.raises(ValueError, match=r"unknown item id .*: the 3 known ids are 3, 7, 12$"):
            integers.numbers([3, bad])
    with pytest.raises(ValueError, match=r"the 1,000 known ids are 0, 1, 2, \.\.\.$"):
        Vocabulary(np.arange(1000)).numbers([1000])
    assert [Vocabulary(np.array([0])).numbers_or_zero(np.array([n]))[0] for n in (-1, 0, 1)] == [0, 1, 0]
    assert integers.numbers_or_zero(np.array(["12", "012", "x", "3"])).tolist() == [3, 0, 0, 1]
    assert Vocabulary(np.array(["12", "x"])).numbers_or_zero(np.array([3, 12])).tolist() == [0, 1]
    with pytest.raises(ValueError, match="unknown user id c: the 2 known ids are a, b"):
        strings.numbers(["a", "c"])


def timed(rows):
    users, items, times = (np.array(column) for column in zip(*rows, strict=True))
    return Interactions.from_columns(users, items, times)


def test_a_split_by_time_at_a_date_or_a_share_says_whom_it_leaves_out():
    day = 86_400
    rows = [(1, 1, 0), (1, 2, 1), (1, 3, 5), (2, 1, 0), (2, 2, 6), (3, 1, 2), (3, 2, 3), (4, 1, 1), (4, 3, 2)]
    rows += [(4, 9, 7)]
    data = timed([(user, item, 1_700_000_000 + day * t) for user, item, t in rows])
    for split in (SPLITS["time:2023-11-19"](data), SPLITS["time:0.7"](data), by_time(data, "1700432000")):
        assert (split.evaluated + 1).tolist() == [1, 4]
        assert split.left_out == {"have nothing after the moment": 1, "have fewer than 2 interactions before it": 1}
        assert split.tested == "2 users (2 of them on an item that training lacks)"
        assert split.untested == (
            "; not tested: 1 have nothing after the moment, 1 have fewer than 2 interactions before it"
        )
    short = leave_one_out(Interactions.of([[1, 2, 3], [1, 2], [3]]))
    assert short.untested == "; not tested: 2 have fewer than 3 interactions"
    assert leave_one_out(Interactions.of([[1, 2, 3], [1, 2, 3]])).untested == ""
    assert "time:" not in SPLITS
    assert "date:0.5" not in SPLITS
    assert 7 not in SPLITS
    with pytest.raises(KeyError):
        SPLITS["date:0.5"]
    for name, message in (("time:1", "is at 1.0, expected a share"), ("time:soon", "'soon', expected a date")):
        with pytest.raises(ValueError, match=message):
            SPLITS[name](data)


def test_a_split_by_time_needs_times_and_users_on_both_sides():
    with pytest.raises(ValueError, match="needs times, and these interactions have none"):
        by_time(uneven())
    with pytest.raises(ValueError, match="none of the 2 users has 2 interactions up to time 3 and 1 after it"):
        by_time(timed([(1, 1, 1), (1, 2, 2), (1, 3, 3), (2, 1, 4)]), at=0.75)
    with pytest.raises(ValueError, match="split time is at None, expected a share"):
        by_time(timed([(1, 1, 1), (1, 2, 2), (1, 3, 3)]), None)
    dated = timed([(user, item, 1_700_000_000 + 86_400 * item) for user in (1, 2) for item in range(1, 5)])
    for name, message in (
        ("time:2024-01-01", "begins after 2024-01-01T00:00:00, and the last interaction is at 2023-11-18T22:13:20$"),
        ("time:0.8..0.2", "begins after 2023-11-18T22:13:20, and ends at 2023-11-15T22:13:20$"),
        ("time:2000-01-01", "up to time 2000-01-01T00:00:00 and 1 after it"),
    ):
        with pytest.raises(ValueError, match=message):
            SPLITS[name](dated)


@pytest.mark.parametrize("keys", [[], [3], [5, 1, 5, 5, 0], [2**40, -1, 2**40]])
def test_distinct_integers_are_numpys_unique(keys):
    keys = np.array(keys, dtype=np.int64)
    found = distinct(keys)
    assert found.dtype == keys.dtype
    np.testing.assert_array_equal(found, np.unique(keys))


def test_windows_of_time_end_where_they_say(rng):
    data = timed([(user, item, time) for user in (1, 2, 3) for time, item in enumerate(range(1, 11))])
    split = SPLITS["time:0.5..0.8"](data)
    assert split.train.lengths.tolist() == [4, 4, 4]
    assert split.test.tolist() == [6, 6, 6]
    owner, items = split.window
    assert (owner.tolist(), items.tolist()) == ([0, 0, 0, 1, 1, 1, 2, 2, 2], [6, 7, 8] * 3)
    assert split.measured("all").tested == "3 users on 9 items of the window, 9 of them unknown to training"
    assert split.sample(1).measured("all").relevant[1].tolist() == [6, 7, 8]
    late = timed([(1, 1, 1), (1, 2, 2), (1, 3, 5), (2, 1, 1), (2, 2, 2), (2, 3, 9), (3, 3, 8)])
    split = SPLITS["time:0.55..0.75"](late)
    assert split.evaluated.tolist() == [0]
    assert split.left_out == {"have nothing in the window": 1, "have fewer than 2 interactions before it": 1}
    for name, message in (("time:0.7..0.5", "has no interactions"), ("time:0.7..1.2", "is at 1.2, expected a share")):
        with pytest.raises(ValueError, match=message):
            SPLITS[name](data)


def test_folds_divide_a_window_and_train_on_all_before(rng):
    day, begin = 86_400, 1_700_000_000
    rows = [(user, 1 + (7 * time + user) % 11, begin + day * time) for user in range(1, 8) for time in range(20)]
    data = timed(rows)
    assert folds(data, "time", 2) == ["time:0.9..0.95", "time:0.95"]
    assert folds(data, "time:0.4..0.8", 2) == ["time:0.4..0.6", "time:0.6..0.8"]
    names = folds(data, "time:2023-11-20", 3)
    assert names[0].startswith("time:2023-11-20T00:00:00..")
    assert names[-1].startswith("time:")
    assert ".." not in names[-1]
    windows = [SPLITS[name](data).window for name in names]
    assert sum(len(owner) for owner, _ in windows) == np.sum(data.times >= begin + 6 * day)
    lengths = [len(SPLITS[name](data).train) for name in names]
    assert lengths == sorted(lengths)
    assert len(folds(data, "time:2023-11-20..2023-11-30", 5)) == 5
    for name, count, message in (("leave-one-out", 3, "use --split time"), ("time", 1, "folds is 1, expected"),
                                 ("time", 141, "folds is 141, and there are 140 interactions")):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            folds(data, name, count)
