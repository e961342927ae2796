"""Scores that are computed as far as ranks ask for them, against whole rows that are made by loops."""

import numpy as np
import pytest

from tinyattn.evaluation import LazyScores, NaNScoreError, SharedScores, WholeRows


def shared(seed):
    """-> `SharedScores` of five histories in three groups, and their whole rows: many ties, -inf, and a group of none.
    """
    rng = np.random.default_rng(seed)
    n, groups = int(rng.integers(1, 8)), rng.integers(0, 3, 5)
    base = rng.choice([-np.inf, -4.0, 0.0, 2.0, 4.0, 8.0], n + 1)
    divisors = rng.choice([1.0, 2.0, 4.0], (int(rng.integers(0, 3)), 3))
    keys = np.flatnonzero(rng.random(3 * (n + 1)) < 0.3) if seed % 3 else np.zeros(0, dtype=np.int64)
    keys = keys[keys % (n + 1) > 0]  # of items: padding has no score of its own
    values = rng.choice([-np.inf, -2.0, 0.0, 1.0, 2.0, 5.0], len(keys))
    rows = []
    for group in groups.tolist():
        row = base.copy()
        for divisor in divisors[:, group].tolist():
            row = row / divisor
        for key, value in zip(keys.tolist(), values.tolist(), strict=True):
            if key // (n + 1) == group:
                row[key % (n + 1)] = value
        rows.append(row)
    return SharedScores(base, groups, keys, values, divisors), np.array(rows)


def refuse_other_counts(lazily, rows, seed):
    """Of random targets and pairs."""
    rng = np.random.default_rng(seed)
    B, n = rows.shape[0], rows.shape[1] - 1
    targets, pairs = rng.integers(1, n + 1, B), rng.integers(0, B, 9)
    items = rng.integers(1, n + 1, 9)
    found = lazily.counts(targets, pairs, items)
    for i, target in enumerate(targets.tolist()):
        own = rows[i, target]
        assert found.target[i] == own
        assert found.above[i] == sum(x > own for x in rows[i, 1:])  # padding is no item
        assert found.equal[i] == sum(x == own for x in rows[i, 1:])
    assert found.values.tolist() == [rows[i, item] for i, item in zip(pairs.tolist(), items.tolist(), strict=True)]


@pytest.mark.parametrize("seed", range(30))
def test_shared_scores_are_counted_as_those_of_whole_rows(seed):
    lazily, rows = shared(seed)
    np.testing.assert_array_equal(lazily.whole(), rows)
    refuse_other_counts(lazily, rows, seed)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("with_users", [True, False])
def test_rows_of_a_function_are_computed_for_a_few_histories_at_once(seed, with_users, monkeypatch):
    import importlib

    _, rows = shared(seed)
    size, asked = rows.shape[1], []

    def score(histories, users):
        asked.append(len(histories))
        where = [int(h[0]) for h in histories]
        assert users is None if not with_users else users.tolist() == [10 * i for i in where]
        return rows[where]

    monkeypatch.setattr(importlib.import_module("tinyattn.evaluation.lazy"), "SCORES_AT_ONCE", 2 * size + 1)
    histories, users = [np.array([i]) for i in range(5)], 10 * np.arange(5) if with_users else None
    lazily = WholeRows(score, histories, users, size - 1)
    refuse_other_counts(lazily, rows, seed)
    assert asked == [2, 2, 1]
    np.testing.assert_array_equal(lazily.whole(), rows)


def test_a_nan_is_refused_and_the_base_class_says_nothing():
    nan = np.array([0.0, 1.0, np.nan])
    at = np.array([1]), np.array([0]), np.array([1])
    none = np.zeros(0, dtype=np.int64)
    for lazily in (
        WholeRows(lambda histories, users: nan[None], [np.array([1])], None, 2),
        SharedScores(nan, np.array([0]), none, np.zeros(0), np.ones((0, 1))),
    ):
        with pytest.raises(NaNScoreError, match="score of item 2 in row 0 is NaN"):
            lazily.counts(*at)
    for ask in (LazyScores().whole, lambda: LazyScores().counts(*at)):
        with pytest.raises(NotImplementedError):
            ask()


def test_rows_larger_than_what_is_scored_at_once_are_scored_one_at_a_time(monkeypatch):
    monkeypatch.setattr("tinyattn.evaluation.lazy.SCORES_AT_ONCE", 3)
    asked = []

    def score(histories, users):
        asked.append(len(histories))
        return np.tile(np.arange(8.0), (len(histories), 1))

    rows = WholeRows(score, [np.array([1])] * 3, np.zeros(3, dtype=int), 7)
    counts = rows.counts(np.array([7, 5, 1]), np.array([0]), np.array([2]))
    assert asked == [1, 1, 1]
    assert counts.above.tolist() == [0, 2, 6]
