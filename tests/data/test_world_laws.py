"""Generated worlds and tasks: their distributions from the words of their docstrings, in plain loops."""

import datetime
import math
from dataclasses import replace

import numpy as np
import pytest

from tinyattn.data import TASKS
from tinyattn.data.sequence_tasks import Balance, Count, Induction, Recall, SelectiveCopy, TaskSampler
from tinyattn.data.worlds import ChainWorld, SeriesWorld, TasteWorld
from tinyattn.data.worlds.world import of_the_unseen, popularity


def near(count, n, p):
    return abs(count - n * p) <= 5 * math.sqrt(n * p * (1 - p)) + 1e-9


def test_popularity_is_zipfs():
    total = sum(1 / (i + 1) for i in range(1, 6))
    np.testing.assert_allclose(popularity(5), [1 / (i + 1) / total for i in range(1, 6)], rtol=1e-12)
    left = of_the_unseen(np.array([1.0, 2, 3, 4]), np.array([[4, 2], [1, 3]]))
    np.testing.assert_allclose(left, [[0.25, 0, 0.75, 0], [0, 1 / 3, 0, 2 / 3]])


@pytest.mark.parametrize("most_open", [1, 2, 3])
@pytest.mark.parametrize("curiosity", [0.0, 0.3, 1.0])
def test_what_follows_in_the_world_of_series(most_open, curiosity):
    """A new series with the chance `curiosity`, if fewer than most_open are open, or surely, if none is."""
    world = SeriesWorld(series=4, episodes=3, most_open=most_open, curiosity=curiosity, shortest=3, longest=5)
    histories = (
        [],
        [1],
        [1, 4],
        [1, 2, 3],
        [4, 5, 6, 7, 10],
        [1, 4, 7],
        list(range(1, 10)),
        [7, 8, 1, 2, 3],
        [1, 4, 7, 10],
    )
    for history in histories:
        seen = [sum((item - 1) // 3 == s for item in history) for s in range(4)]
        going, fresh = [s for s in range(4) if 0 < seen[s] < 3], [s for s in range(4) if seen[s] == 0]
        may = fresh and len(going) < most_open
        start = 1.0 if not going else curiosity if may else 0.0
        expected, weight = np.zeros(13), sum(1 / (s + 2) for s in fresh)
        for s in fresh:
            expected[s * 3 + 1] = start / (s + 2) / weight
        for s in going:
            expected[s * 3 + seen[s] + 1] = (1 - start) / len(going)
        np.testing.assert_allclose(world.next_item([np.array(history, int)])[0], expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("order", "groups"), [(1, 12), (2, 3), (3, 2)])
def test_a_chain_follows_its_table(order, groups):
    """A row for each list of groups: a few followers, and with the chance `noise` whatever is popular."""
    world = ChainWorld(items=12, order=order, groups=groups, followers=3, noise=0.25, shortest=3, longest=6, seed=5)
    sizes = np.bincount(world._group, minlength=groups)
    assert sizes.max() - sizes.min() <= 1
    popular, rng = popularity(12), np.random.default_rng(0)
    assert len(world._table) == groups**order
    assert len(np.unique(world._table, axis=0)) > groups**order / 2
    for row in world._table:
        extra = (row - 0.25 * popular) / 0.75
        followers = sorted(extra[extra > 1e-9].tolist(), reverse=True)
        np.testing.assert_allclose(followers, popularity(3), rtol=1e-9)
        np.testing.assert_allclose(extra[extra < 1e-9], 0, atol=1e-12)
    for _ in range(10):
        history = rng.permutation(12)[: rng.integers(1, 7)] + 1
        place = 0
        for item in history[-order:]:
            place = place * groups + world._group[item - 1]
        weights = world._table[place].copy() if len(history) >= order else popular.copy()
        weights[history - 1] = 0
        np.testing.assert_allclose(world.next_item([history])[0, 1:], weights / weights.sum(), rtol=1e-12)
    other = replace(world, seed=6)
    assert not np.array_equal(world._table, other._table)
    assert np.array_equal(world._group, other._group) == (groups == 1)


def test_a_taste_is_popularity_times_a_factor_of_its_own():
    flat = TasteWorld(items=9, tastes=3, sharpness=0.0, shortest=3, longest=5)
    np.testing.assert_allclose(flat._likes, np.tile(popularity(9), (3, 1)), rtol=1e-12)
    wild = TasteWorld(items=4000, tastes=4, sharpness=1.5, shortest=3, longest=5, users=1)
    logs = np.log(wild._likes / popularity(4000))
    np.testing.assert_allclose(logs.std(axis=1), 1.5, rtol=0.05)
    np.testing.assert_allclose(wild._likes.sum(axis=1), 1)
    assert np.abs(np.corrcoef(logs)[0, 1:]).max() < 0.1
    other = np.log(replace(wild, seed=wild.seed + 1)._likes / popularity(4000))
    assert np.abs(np.corrcoef(logs, other)[:4, 4:]).max() < 0.1      # another seed, other tastes


@pytest.mark.parametrize("world", [
    SeriesWorld(users=500, series=4, episodes=4, shortest=3, longest=6, seed=2),
    ChainWorld(users=500, items=15, groups=5, shortest=3, longest=6, seed=2),
    TasteWorld(users=500, items=15, tastes=2, shortest=3, longest=6, seed=2),
], ids=lambda world: world.name)  # fmt: skip
def test_lengths_are_uniform_and_first_items_as_likely_as_they_are(world):
    data = world.generate()
    assert data.users.ids.tolist() == list(range(1, 501))
    assert data.n_items == world.n_items
    assert data.fingerprint() != replace(world, seed=3).generate().fingerprint()
    for length in range(3, 7):
        assert near(np.sum(data.lengths == length), 500, 0.25)
    first = np.bincount([data.sequence(u)[0] for u in range(500)], minlength=world.n_items + 1)
    chances = world.next_item([np.array([], int)])[0]
    assert all(near(count, 500, p) for count, p in zip(first, chances, strict=True))
    if world.name == "series":
        assert data.items.ids[:5].tolist() == ["s1e1", "s1e2", "s1e3", "s1e4", "s2e1"]
        wide = SeriesWorld(series=10, episodes=10, users=1, shortest=3, longest=5).generate()
        assert wide.items.ids[[0, 9, 99]].tolist() == ["s01e01", "s01e10", "s10e10"]
        assert sorted(wide.items.ids) == wide.items.ids.tolist()
    else:
        assert data.items.ids.tolist() == list(range(1, 16))


def test_the_best_ranking_orders_by_chance_and_then_by_number():
    world = SeriesWorld(series=3, episodes=3, shortest=3, longest=5)
    histories = [np.array([1, 4, 7]), np.array([], int), np.array([1, 2, 3])]
    for scores, truth in zip(world.best_ranking(histories), world.next_item(histories), strict=True):
        expected = sorted(range(10), key=lambda i: (-truth[i], i))
        assert sorted(range(10), key=lambda i: -scores[i]) == expected
        assert len(set(scores.tolist())) == 10


def drawn(task, rows=3000, seed=0):
    return task.draw(np.random.default_rng(seed), rows)


def test_keys_of_recall_are_any_keys_and_come_again_as_often_as_each_other():
    task = Recall(pairs=3, keys=5, values=4, length=9)
    ids = drawn(task).ids
    keys, values, later = ids[:, 0:6:2], ids[:, 1:6:2], ids[:, 6:]
    assert all(len(set(row)) == 3 for row in keys.tolist())
    for place in range(3):
        assert all(near(np.sum(keys[:, place] == k), 3000, 1 / 5) for k in range(5))
        assert all(near(np.sum(values[:, place] == 5 + v), 3000, 1 / 4) for v in range(4))
        assert near(np.sum(later[:, 1] == keys[:, place]), 3000, 1 / 3)
    assert task.n_tokens == 9
    assert Recall(pairs=3, keys=3, values=2, length=7).n_tokens == 5  # as many pairs as keys, one place after


def test_copied_tokens_stand_at_any_places_before_the_markers():
    task = SelectiveCopy(copied=2, tokens=3, length=7)
    ids = drawn(task).ids
    assert (ids[:, 5:] == 1).all()
    for place in range(5):
        assert near(np.sum(ids[:, place] > 1), 3000, 2 / 5)
    assert near(np.sum((ids[:, 0] > 1) & (ids[:, 1] > 1)), 3000, 1 / 10)
    copied = ids[ids > 1].reshape(3000, 2)
    assert all(near(np.sum(copied[:, c] == 2 + t), 3000, 1 / 3) for c in range(2) for t in range(3))
    assert (task.n_tokens, SelectiveCopy(copied=2, tokens=2, length=4).n_tokens) == (5, 4)
    with pytest.raises(ValueError, match="expected length >= 2 copied"):
        SelectiveCopy(copied=2, length=3)


def test_ones_and_tokens_are_drawn_independently():
    ids = drawn(Count(length=6, modulus=3)).ids
    assert all(near(ids[:, place].sum(), 3000, 0.5) for place in range(6))
    assert near(np.sum(ids[:, 0] & ids[:, 1]), 3000, 0.25)
    tokens = drawn(Induction(tokens=3, length=5)).ids
    assert all(near(np.sum(tokens[:, place] == t), 3000, 1 / 3) for place in range(5) for t in range(3))
    assert near(np.sum(tokens[:, 0] == tokens[:, 1]), 3000, 1 / 3)


def test_balance_ends_anywhere_and_its_other_question_is_near_in_half_of_the_rows():
    task = Balance(length=11)
    found = drawn(task, 6000)
    n = np.sum(found.ids == 1, axis=1)
    assert all(near(np.sum(n == size), 6000, 1 / 4) for size in (2, 3, 4, 5))
    left = np.array([2 * size - 1 - np.flatnonzero(row)[0] for size, row in zip(n, found.has_answer, strict=True)])
    for size in (2, 3, 4, 5):
        mine = left[n == size]
        for gap in range(1, size):
            p = 0.5 / (size - 1) + (0.5 if size == 2 else 0.25 if gap <= 2 else 0)
            assert near(np.sum(mine == gap), len(mine), p), (size, gap)
    assert Balance(length=4).bits == 0


def test_a_task_draws_by_seed_step_and_part():
    task = Induction(tokens=4, length=12, sequences=10, held_out=6, seed=3)
    parts = task.generate().split()
    samplers = [TaskSampler(part, 6, seed) for part in (parts.train, parts.valid) for seed in (3, 4)]
    prints = [s.batch(step).ids.tobytes() for s in samplers[:2] for step in range(4)]
    prints += [s.whole().ids.tobytes() for s in (samplers[0], samplers[2])] + [parts.test.held_out().ids.tobytes()]
    assert len(set(prints)) == len(prints)
    assert [s.steps for s in samplers] == [1, 1, 1, 1]
    assert samplers[0].batch(0).rows.tolist() == list(range(6))
    assert parts.test.sizes == {"sequences an epoch": 10, "tokens of each": 12, "different tokens": 4}
    other = Induction(tokens=4, length=12, sequences=10, held_out=6, seed=4)
    assert other.generate().fingerprint() != task.generate().fingerprint()
    assert len(task.generate().fingerprint()) == 16


def test_words_have_every_length_and_letter():
    pairs = TASKS["copy"](pairs=2600, shortest=2, longest=4).generate()
    lengths = np.array([len(word) for word in pairs.sources])
    assert all(near(np.sum(lengths == n), 2600, 1 / 3) for n in (2, 3, 4))
    first = [word[0] for word in pairs.sources]
    assert all(near(first.count(chr(97 + i)), 2600, 1 / 26) for i in range(26))


def test_days_of_all_years_are_drawn_the_last_one_too():
    made = TASKS["dates"](pairs=1500, first=2000, last=2001)
    days = [datetime.date.fromisoformat(target) for target in made.generate().targets]
    assert near(sum(day.year == 2001 for day in days), 1500, 365 / 731)
    assert {day.month for day in days if day.year == 2001} == set(range(1, 13))
    sources = TASKS["dates"](pairs=1500).generate().sources
    whole = [source for source in sources if any(c.isalpha() for c in source)]
    assert near(sum(s.isupper() for s in whole), len(whole), 1 / 4)
    assert near(sum(s.islower() for s in whole), len(whole), 1 / 4)


class Highest:
    """A generator that gives the largest number it may."""

    def integers(self, low, high=None):
        return (low if high is None else high) - 1


def test_the_last_day_that_may_be_drawn_is_the_last_of_its_year():
    for year in (1999, 2000):
        assert TASKS["dates"](first=1990, last=year).pair(Highest()) == (f"3112{year}", f"{year}-12-31")
