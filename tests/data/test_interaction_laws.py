"""Interactions, their cores, splits and digests, against plain loops over rows of (user, item, time, rating)."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tinyattn.data import Interactions, Parts, Vocabulary, by_time, leave_one_out, split_ratings, tenths
from tinyattn.data.distinct import distinct_integers, signed


def drawn(seed, rows=60, users=9, items=7, moments=25):
    """Rows in any order; users and items have ids of their own, times come twice, and so do pairs."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, n, rows) for n in (users, items, moments, 5)]
    return [(10 + 3 * u, 100 + 7 * i, t, 0.5 * r) for u, i, t, r in zip(*(c.tolist() for c in columns), strict=True)]


def made(rows):
    users, items, times, ratings = (np.array(column) for column in zip(*rows, strict=True))
    return Interactions.from_columns(users, items, times, ratings=ratings)


def in_order(rows):
    """user -> its rows by time, those of one time in the order of the file."""
    return {user: sorted((row for row in rows if row[0] == user), key=lambda row: row[2]) for user, *_ in sorted(rows)}


def rows_of(data):
    found = []
    for u in range(data.n_users):
        for i in range(data.offsets[u], data.offsets[u + 1]):
            item = data.items.ids[data.flat[i] - 1].item()
            found.append((data.users.ids[u].item(), item, data.times[i].item(), data.ratings[i].item()))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_rows_become_sequences_in_the_order_of_time(seed):
    rows = drawn(seed)
    data, expected = made(rows), in_order(rows)
    assert rows_of(data) == [row for mine in expected.values() for row in mine]
    assert data.sizes == {"users": len(expected), "items": len({i for _, i, *_ in rows}), "interactions": len(rows)}
    far = [(u, i, t * 2**58, r) for u, i, t, r in rows]  # user and time do not fit into one number
    assert [row[1] for row in rows_of(made(far))] == [row[1] for row in rows_of(data)]
    early = [(u, i, t - 10.5, r) for u, i, t, r in rows]
    assert [row[1] for row in rows_of(made(early))] == [row[1] for row in rows_of(data)]
    late = [(u, i, t - 10**9, r) for u, i, t, r in rows]
    assert [row[1] for row in rows_of(made(late))] == [row[1] for row in rows_of(data)]


@pytest.mark.parametrize("seed", range(6))
def test_ties_are_of_users_whose_last_two_items_differ_at_one_time(seed):
    rows = drawn(seed, rows=30, users=14, items=2, moments=2)
    ends = [mine[-2:] for mine in in_order(rows).values() if len(mine) > 1]
    expected = np.mean([a[2] == b[2] and a[1] != b[1] for a, b in ends])
    assert made(rows).notes["ties"] == expected
    assert made(rows[:1]).notes["ties"] == 0.0


def test_an_item_that_comes_twice_at_one_time_is_no_tie():
    same, other = [(1, 5, 3, 1.0), (1, 5, 3, 1.0)], [(2, 5, 3, 1.0), (2, 6, 3, 1.0)]
    assert made(same).notes["ties"] == 0
    assert made(other).notes["ties"] == 1
    assert made([*same, *other, (3, 5, 1, 1.0)]).notes["ties"] == 0.5  # of users with two interactions or more


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [1, 2, 5, 8])
def test_the_k_core_is_what_removing_one_by_one_leaves(seed, k):
    rows = drawn(seed, rows=50, users=8, items=8)
    left = list(rows)
    while True:
        users, items = Counter(row[0] for row in left), Counter(row[1] for row in left)
        bad = next((row for row in left if users[row[0]] < k or items[row[1]] < k), None)
        if bad is None:
            break
        left.remove(bad)
    if not left:
        with pytest.raises(ValueError, match=f"the {k}-core is empty"):
            made(rows).k_core(k)
        return
    core = made(rows).k_core(k)
    assert rows_of(core) == rows_of(made(left))
    assert core.fingerprint() == made(left).fingerprint()
    assert core.notes == {"format": "columns", "k_core": k, "removed": len(rows) - len(left)}
    assert core.flat.dtype == np.int32


def test_a_k_below_one_is_refused():
    with pytest.raises(ValueError, match="k of the k-core is 0, expected at least 1"):
        made(drawn(0)).k_core(0)
    assert len(made(drawn(0)).k_core(1)) == 60


@pytest.mark.parametrize("count", [1, 2, 6, 100])
def test_the_newest_items_and_the_first_users(count):
    rows = drawn(1)
    data, mine = made(rows), in_order(rows)
    newest, first = data.newest(count), data.first_users(count)
    assert rows_of(newest) == [row for all_of in mine.values() for row in all_of[-count:]]
    assert rows_of(first) == [row for all_of in list(mine.values())[:count] for row in all_of]
    assert newest.n_items == first.n_items == data.n_items
    assert first.users.what == "user"
    assert not newest.notes


@pytest.mark.parametrize("seed", range(3))
def test_a_report_counts_what_plain_loops_count(seed):
    rows = drawn(seed, rows=40, users=15, items=4)
    mine = list(in_order(rows).values())
    lengths = sorted(map(len, mine))
    report = made(rows).report()
    items = [[row[1] for row in all_of] for all_of in mine]
    assert report["users"] == len(mine)
    assert report["items"] == len({row[1] for row in rows})
    assert report["interactions"] == 40
    assert report["density"] == 40 / (report["users"] * report["items"])
    assert report["length"] == {
        "least": lengths[0],
        "median": np.median(lengths),
        "mean": 40 / len(mine),
        "most": lengths[-1],
    }
    assert report["users with fewer than 3"] == sum(n < 3 for n in lengths)
    assert report["repeats"] == sum(len(i) - len(set(i)) for i in items)
    assert report["repeats of the last one"] == sum(a == b for i in items for a, b in pairwise(i))
    assert report["format"] == "columns"
    assert "ties" in report


def test_a_fingerprint_sees_every_part_of_the_data_and_nothing_else():
    data = made([(1, 10, 1, 2.0), (1, 11, 2, 3.0), (2, 10, 1, 4.0), (2, 12, 5, 5.0), (3, 11, 7, 1.0)])
    plain = replace(data, times=None, ratings=None)
    text = replace(plain, items=Vocabulary(np.array(["10", "11", "12"])))
    others = [
        data, plain, text, replace(text, items=Vocabulary(np.array(["10", "111", "2"]))),
        replace(plain, flat=plain.flat[::-1].copy()),
        replace(plain, offsets=np.array([0, 1, 4, 5])),
        replace(plain, items=Vocabulary(np.array([10, 11, 13]))),
        replace(plain, users=Vocabulary(np.array([1, 2, 4]), "user")),
        replace(plain, users=Vocabulary(np.array(["1", "2", "3"]), "user")),
        replace(data, ratings=data.ratings + 1), replace(data, times=data.times + 1), plain.newest(1),
    ]  # fmt: skip
    prints = [each.fingerprint() for each in others]
    assert len(set(prints)) == len(prints)
    timed = replace(data, ratings=None)
    assert timed.fingerprint() == plain.fingerprint() != timed.fingerprint(timed=True)
    assert timed.fingerprint(timed=True) != replace(timed, times=timed.times + 1).fingerprint(timed=True)
    assert data.fingerprint(timed=True) == data.fingerprint()
    wide = replace(data, flat=data.flat.astype(np.int64), times=data.times.astype(np.float64), notes={"format": "x"})
    assert wide.fingerprint() == data.fingerprint()
    assert len(data.fingerprint()) == 16


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int64, np.uint8, np.uint64])
def test_distinct_integers_are_counted_or_sorted_to_the_same_end(kind):
    rng = np.random.default_rng(0)
    least = 0 if np.dtype(kind).kind == "u" else -120
    for values in (rng.integers(least, 127, 300), rng.integers(least, 5, 7), np.array([127, least]), np.array([], int)):
        found, place = distinct_integers(values.astype(kind))
        assert found.tolist() == sorted(set(values.tolist()))
        assert found.dtype == kind
        assert found[place].tolist() == values.tolist()
    for span in (1024 + 2 * 3, 1025 + 2 * 3, 10**12):  # counted up to there, then sorted
        found, place = distinct_integers(np.array([span - 5, -5, 0]))
        assert (found.tolist(), place.tolist()) == ([-5, 0, span - 5], [2, 0, 1])


def test_integers_without_a_sign_are_those_with_one_where_they_fit():
    fits = np.array([2**63 - 1, 0], np.uint64)
    assert signed(fits, "x").tolist() == [2**63 - 1, 0]
    assert signed(fits, "x").dtype == np.int64
    assert signed(np.array([], np.uint8), "x").dtype == np.int64
    with pytest.raises(ValueError, match=r"item id 9223372036854775808 is not below 2\^63"):
        signed(np.array([1, 2**63], np.uint64), "item id")
    text = np.array(["a"])
    assert signed(text, "x") is text


def test_whole_floats_are_ids_below_the_first_that_is_two_numbers():
    at = 2.0**53
    array = np.array([[1.0, at - 1], [2.0, -(at - 1)]])
    assert Interactions.of(array).items.ids.tolist() == [-(2**53 - 1), 2**53 - 1]
    for wrong in (at, -at, 0.5):
        with pytest.raises(ValueError, match="item ids are float64, expected integers or strings"):
            Interactions.of(np.array([[1.0, wrong], [2.0, 3.0]]))
    small = np.array([[1, 2047], [2, 5]], np.float16)
    assert Interactions.of(small).items.ids.tolist() == [5, 2047]
    with pytest.raises(ValueError, match="float16"):
        Interactions.of(np.array([[1, 2048], [2, 5]], np.float16))


@pytest.mark.parametrize("seed", range(3))
def test_leave_one_out_is_the_last_item_and_the_one_before(seed):
    rows = drawn(seed, rows=30, users=12)
    split, mine = leave_one_out(made(rows)), in_order(rows)
    number = {item: n for n, item in enumerate(sorted({row[1] for row in rows}), start=1)}
    items = [[number[row[1]] for row in all_of] for all_of in mine.values()]
    assert split.train.n_items == len(number)
    again = 0
    for u, history in enumerate(items):
        tested = len(history) >= 3
        assert split.test[u] == (history[-1] if tested else 0)
        assert split.valid[u] == (history[-2] if tested else 0)
        assert split.train.sequence(u).tolist() == (history[:-2] if tested else history)
        assert (u in split.evaluated) == tested
        again += tested and history[-1] in history[:-1]
    assert split.repeated == again
    new = sum(not np.any(split.train.flat == target) for target in split.test[split.evaluated])
    counts = {"on an item that they had before": again, "on an item that training lacks": new}
    which = ", ".join(f"{count} of them {what}" for what, count in counts.items() if count)
    assert split.tested == f"{len(split.evaluated)} users" + (f" ({which})" if which else "")
    some = split.sample(2, seed)
    assert len(some.evaluated) == 2
    for u in some.evaluated.tolist():
        assert (some.valid[u], some.test[u]) == (split.valid[u], split.test[u])
    assert np.count_nonzero(some.valid) == 2
    assert some.train is split.train
    assert some.evaluated.tolist() == split.sample(2, seed).evaluated.tolist()
    everyone = {tuple(split.sample(1, s).evaluated) for s in range(60)}
    assert everyone == {(u,) for u in split.evaluated.tolist()}
    everyone = len(split.evaluated)
    assert split.sample(everyone).test.tolist() == split.test.tolist()
    with pytest.raises(ValueError, match=f"{everyone + 1} users were requested, but only {everyone} have"):
        split.sample(everyone + 1)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_a_split_by_time_uses_one_item_after_its_moment(seed, share):
    rows = drawn(seed, rows=53, users=8, moments=40)
    moment = sorted(row[2] for row in rows)[math.ceil(share * 53) - 1]
    data = made(rows)
    split = by_time(data, share) if share != 0.9 else by_time(data)
    assert split.train.n_items == data.n_items
    for u, (user, mine) in enumerate(in_order(rows).items()):
        early, late = [row for row in mine if row[2] <= moment], [row for row in mine if row[2] > moment]
        tested = len(early) >= 2 and len(late) >= 1
        ids = [data.items.ids[i - 1] for i in split.data.sequence(u)]
        assert ids == [row[1] for row in early] + [row[1] for row in late[:tested]], user
        assert len(split.train.sequence(u)) == len(early) - tested
        assert (split.test[u] > 0) == (split.valid[u] > 0) == tested
        if tested:
            assert data.items.ids[split.test[u] - 1] == late[0][1]
            assert data.items.ids[split.valid[u] - 1] == early[-1][1]
    assert split.data.times.tolist() == [t for u in range(data.n_users) for t in np.sort(
        data.times[data.offsets[u] : data.offsets[u + 1]]).tolist()[: len(split.data.sequence(u))]]  # fmt: skip


@pytest.mark.parametrize("n", [3, 9, 10, 19, 20, 23, 101])
def test_a_tenth_is_held_back_twice(n):
    parts = [part.tolist() for part in tenths(n, "things")]
    assert sorted(sum(parts, [])) == list(range(n))  # noqa: RUF017
    assert [len(part) for part in parts[1:]] == [max(1, n // 10)] * 2
    assert all(part == sorted(part) for part in parts)
    assert parts == [part.tolist() for part in tenths(n, "others")]


def test_which_tenth_is_held_back_is_drawn_once_and_for_all():
    """Other parts would compare a model of today with the numbers of another one's."""
    assert [part.tolist() for part in tenths(30, "things")[1:]] == [[15, 24, 27], [14, 21, 22]]
    assert tenths(101, "things")[1].tolist() != list(range(10))
    with pytest.raises(ValueError, match=r"too few things \(2\), expected at least 3"):
        tenths(2, "things")
    assert Parts(None, None, tenths).train is None


@pytest.mark.parametrize("share", [0.1, 0.2, 0.3])
def test_ratings_are_split_at_their_shares(share):
    rows = [(u, i, (7 * i + 3 * u) % 20 + u / 64, 1.0 + i) for u in range(4) for i in range((6, 10, 11, 3)[u])]
    data, mine = made(rows), in_order(rows)

    def part(late):
        return 2 if late > 1 - share else 1 if late > 1 - 2 * share else 0

    split = split_ratings(data, "user", share)
    expected = [part((i + 1) / len(all_of)) for all_of in mine.values() for i in range(len(all_of))]
    assert split.part.tolist() == expected
    assert split.tested == f"{expected.count(2)} ratings"
    times = sorted(data.times.tolist())
    split = split_ratings(data, "time", share)
    assert split.part.tolist() == [part((times.index(t) + 1) / len(times)) for t in data.times.tolist()]
    for number, part_of in enumerate((split.train, split.valid, split.test)):
        assert rows_of(part_of) == [row for row, p in zip(rows_of(data), split.part, strict=True) if p == number]
        assert part_of.n_users == data.n_users
        assert part_of.n_items == data.n_items
    counts = [np.bincount(split_ratings(data, "random", share, seed).part) for seed in range(3)]
    assert len({tuple(c) for c in counts}) == 1
    places = [part((i + 1) / 30) for i in range(30)]
    assert counts[0].tolist() == [places.count(i) for i in range(3)]
    late = sum(split_ratings(data, "random", share, seed).part == 2 for seed in range(200))
    assert np.all(np.abs(late - late.mean()) < 5 * math.sqrt(200 * share * (1 - share)) + 1)


def test_ratings_of_one_moment_keep_their_order_and_the_seed_is_0():
    data = made([(u, i, 5, 1.0) for u in range(8) for i in range(5)])
    assert split_ratings(data, "time").part.tolist() == [0] * 32 + [1] * 4 + [2] * 4
    first, again, other = (split_ratings(data, "random", **how).part.tolist() for how in ({}, {"seed": 0}, {"seed": 1}))
    assert first == again != other


def test_bytes_that_are_whole_numbers_are_ids_of_numbers_in_their_order():
    users, items = np.array([b"10", b"9", b"10"]), np.array([b"b", b"a", b"10"])
    data = Interactions.from_columns(users, items)
    assert data.users.ids.tolist() == [9, 10]
    assert data.items.ids.tolist() == ["10", "a", "b"]
