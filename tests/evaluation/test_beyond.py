"""Beyond accuracy, against plain loops; intervals against what is known of them."""

import math

import numpy as np
import pytest

from tests.models.worlds import uneven
from tinyattn.data import Interactions, leave_one_out
from tinyattn.evaluation import (
    NaNScoreError,
    best_items,
    beyond_accuracy,
    coverage,
    evaluate,
    hit_rate,
    metrics,
    novelty,
    overlap,
    paired_difference,
    popularity_lift,
    popularity_of,
    target_ranks,
    top,
)

SPLIT = leave_one_out(uneven(users=12, items=15))
TABLE = np.random.default_rng(3).integers(0, 6, size=(13, 16)).astype(float)  # many ties


def score(histories, users):
    return TABLE[users]


@pytest.mark.parametrize(("items", "values"), [(9, 4), (1000, 4), (1000, 300), (1000, 10**6)])
def test_top_is_a_stable_sort(items, values, rng):
    """Of few items and of many, of which groups are looked at first; with many ties and with few."""
    scores = rng.integers(0, values, size=(20, items)).astype(np.float32)
    scores[3] = -np.inf
    scores[4, 5:] = -np.inf
    for k in (1, 4, 9, 15, 16):
        best = min(k, items)
        np.testing.assert_array_equal(top(scores, best), np.argsort(-scores, axis=1, kind="stable")[:, :best])


@pytest.mark.parametrize("k", [3, 10, 20])
def test_best_items_by_hand(k, monkeypatch):
    import importlib

    before = TABLE.copy()
    monkeypatch.setattr(importlib.import_module("tinyattn.evaluation.beyond"), "SCORES_AT_ONCE", 16 * 4)
    found = best_items(score, SPLIT, k)
    for user, best in zip(SPLIT.evaluated.tolist(), found, strict=True):
        history = SPLIT.data.sequence(user)[:-1].tolist()
        left = [i for i in range(1, 16) if i not in history]
        expected = sorted(left, key=lambda i: (-TABLE[user + 1, i], i))[:k]
        assert best.tolist() == expected + [0] * (k - len(expected))
    np.testing.assert_array_equal(TABLE, before)
    with pytest.raises(NaNScoreError):
        best_items(lambda histories, users: np.full((len(users), 16), np.nan), SPLIT)


@pytest.mark.parametrize("k", [2, 10])
def test_coverage_novelty_and_popularity_against_plain_loops(k):
    best, counts = best_items(score, SPLIT, k), popularity_of(SPLIT)
    training = [i for u in range(12) for i in SPLIT.train.sequence(u).tolist()]
    assert counts.tolist() == [training.count(i) for i in range(16)]
    given = [[i for i in row if i] for row in best.tolist()]
    assert coverage(best, 15) == len({i for row in given for i in row}) / 15
    surprise = [-math.log2(max(training.count(i), 1) / len(training)) for row in given for i in row]
    assert novelty(best, counts) == pytest.approx(sum(surprise) / len(surprise))
    histories = SPLIT.histories(SPLIT.evaluated, "test")
    mean = lambda items: sum(training.count(i) for i in items) / len(items)  # noqa: E731
    lift = sum(map(mean, given)) / sum(mean(h.tolist()) for h in histories)
    assert popularity_lift(best, histories, counts) == pytest.approx(lift)
    assert list(beyond_accuracy(best, SPLIT).values()) == [
        coverage(best, 15), novelty(best, counts), popularity_lift(best, histories, counts)
    ]  # fmt: skip


def test_overlap_is_the_share_in_common():
    a = np.array([[1, 2, 3], [4, 5, 6], [7, 0, 0], [0, 0, 0]])
    b = np.array([[3, 2, 9], [4, 5, 6], [8, 9, 7], [0, 0, 0]])
    assert overlap(a, a) == overlap(a, a[:, ::-1]) == 1
    assert overlap(a, b) == overlap(b, a) == pytest.approx((2 / 3 + 1 + 1 / 3) / 3)  # nothing is said of the last


def test_users_without_recommendations_count_in_no_popularity():
    best, histories = np.array([[2, 0], [0, 0]]), [np.array([1]), np.array([2, 2])]
    assert popularity_lift(best, histories, np.array([0, 5, 2])) == 2 / 5


def test_ranks_of_every_user_are_those_behind_the_metrics():
    drawn = np.random.default_rng(0).integers(1, 16, size=(len(SPLIT.evaluated), 5))
    found = target_ranks(score, SPLIT, sampled={"mine": drawn})
    assert {name: metrics(rank, (1, 5)) for name, rank in found.items()} == evaluate(
        score, SPLIT, ks=(1, 5), sampled={"mine": drawn}
    )
    for place, user in enumerate(SPLIT.evaluated.tolist()):
        target, row = SPLIT.test[user], TABLE[user + 1]
        left = [i for i in range(1, 16) if i == target or i not in SPLIT.data.sequence(user)]
        for name, among in (("full", left), ("mine", [*drawn[place], target])):
            above = sum(row[i] > row[target] for i in among)
            ties = sum(row[i] == row[target] for i in among) - 1
            assert found[name][place] == 1 + above + ties / 2


def test_intervals_are_paired_seeded_and_as_wide_as_theory_says(monkeypatch):
    import importlib

    rng = np.random.default_rng(1)
    easy = rng.normal(size=400) * 10  # what makes a user easy for both models cancels
    a, b = easy + rng.normal(0.3, 1, size=400), easy
    found = paired_difference(a, b)
    assert found.mean == pytest.approx(np.mean(a - b))
    half = 1.96 * np.std(a - b) / 20
    assert found.low == pytest.approx(found.mean - half, abs=0.15 * half)
    assert found.high == pytest.approx(found.mean + half, abs=0.15 * half)
    assert paired_difference(a, b) == found != paired_difference(a, b, seed=1)
    assert paired_difference(b, a) == pytest.approx((-found.mean, -found.high, -found.low))
    assert paired_difference(a, a) == (0, 0, 0)
    monkeypatch.setattr(importlib.import_module("tinyattn.evaluation.bootstrap"), "_NUMBERS_AT_ONCE", 400 * 7)
    assert paired_difference(a, b) == pytest.approx(found)  # in smaller parts, the same draws


def test_an_interval_holds_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(2)
    held = 0
    for seed in range(100):
        hits = hit_rate(rng.integers(1, 20, size=60), 10)  # 10 of 19 on average, against a model that always hits half
        found = paired_difference(hits, np.full(60, 0.5), seed)
        held += found.low <= 10 / 19 - 0.5 <= found.high
    assert 88 <= held <= 99


def test_everybodys_history_may_be_all_there_is():
    split = leave_one_out(Interactions.from_sequences([[1, 2, 3, 1], [2, 3, 1, 2]]))
    assert best_items(lambda h, u: np.ones((len(h), 4)), split, 2).tolist() == [[0, 0], [0, 0]]


def test_an_item_that_nobody_had_in_training_has_a_count_of_0():
    """The last one too: counts have a place for every item."""
    split = leave_one_out(Interactions.from_sequences([[1, 2, 3, 9], [2, 1, 3, 8], [1, 2, 3, 4, 5]]))
    counts = popularity_of(split)
    assert len(counts) == split.data.n_items + 1
    assert counts.tolist()[-2:] == [0, 0]
    assert novelty(np.array([[1, 2], [2, 0]]), np.array([0, 0, 8])) == 1.0  # bits: 3 of item 1, 0 of item 2
