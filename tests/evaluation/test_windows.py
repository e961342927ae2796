"""All items of a window as targets, and items of the history as candidates."""

import math

import numpy as np
import pytest

from tinyattn.data import Interactions, by_time, leave_one_out
from tinyattn.evaluation import best_items, evaluate, metrics_of_users, ndcg_of_several, recall


def drawn(rng, users=9, items=12, rows=160):
    """Random interactions, with many repeats."""
    return Interactions.from_columns(*(rng.integers(1, n + 1, rows) for n in (users, items, 60)))


def scored(rng, split, levels):
    """Random scores of each user, with ties if there are few levels."""
    table = rng.integers(0, levels, (split.data.n_users + 1, split.data.n_items + 1)).astype(float)
    return lambda histories, users: table[users]


def by_hand(split, score):
    """{user: (masked scores, relevant)}, each user alone."""
    owner, items = split.window
    for user in split.evaluated.tolist():
        scores = score(None, np.array([user + 1]))[0].copy()
        relevant = np.zeros(len(scores), dtype=bool)
        relevant[items[owner == user] if split.targets == "all" else split.test[user]] = True
        history = split.data.sequence(user)[:-1]
        if split.repeats == "drop":
            scores[[item for item in history if not relevant[item]]] = -np.inf
        scores[0] = -np.inf
        yield scores[None], relevant[None]


@pytest.mark.parametrize("levels", [4, 10**6])
@pytest.mark.parametrize("repeats", ["drop", "keep"])
@pytest.mark.parametrize("targets", ["first", "all"])
def test_metrics_are_those_of_each_user_alone(rng, targets, repeats, levels):
    split = by_time(drawn(rng), 0.6).measured(targets, repeats)
    score = scored(rng, split, levels)
    found = evaluate(score, split, ks=(2, 5))["full"]
    alone = list(by_hand(split, score))
    for k in (2, 5):
        expected = np.mean([ndcg_of_several(*one, k) for one in alone])
        if targets == "all":
            assert found[f"recall@{k}"] == pytest.approx(np.mean([recall(*one, k) for one in alone]))
        if targets == "all" or levels > 4:                   # a single target has the mean rank of its ties
            assert found[f"ndcg@{k}"] == pytest.approx(expected)
    assert split.candidates.tolist() == [np.sum(scores > -np.inf) for scores, _ in alone]
    for name, values in metrics_of_users(score, split, (2, 5))["full"].items():
        assert np.mean(values) == pytest.approx(found[name]), name
    assert best_items(score, split, 3).shape == (len(split.evaluated), 3)


def test_one_item_a_window_is_the_first(rng):
    rows = [(user, item, time) for user in range(1, 6) for time, item in enumerate(rng.permutation(8)[:5].tolist())]
    split = by_time(Interactions.from_columns(*map(np.array, zip(*rows, strict=True))), 0.75)
    score = scored(rng, split, 10**6)
    several, one = (evaluate(score, split.measured(targets))["full"] for targets in ("all", "first"))
    assert several["recall@10"] == one["hr@10"]
    assert several["ndcg@10"] == pytest.approx(one["ndcg@10"])


def test_the_best_order_has_an_ndcg_of_1_and_a_recall_below_1_for_a_small_k(rng):
    split = by_time(drawn(rng), 0.5).measured("all")
    owner, items = split.relevant
    table = np.zeros((split.data.n_users + 1, split.data.n_items + 1))
    table[owner + 1, items] = 1
    best = evaluate(lambda histories, users: table[users], split, ks=(1, 12))["full"]
    counts = np.bincount(owner)[split.evaluated]
    assert best == pytest.approx({"ndcg@1": 1, "ndcg@12": 1, "recall@1": np.mean(1 / counts), "recall@12": 1})


def test_with_repeats_the_history_competes():
    rows = [(1, 1, 1), (1, 2, 2), (1, 3, 3), (1, 4, 9), (2, 1, 1), (2, 2, 2), (2, 2, 9)]
    split = by_time(Interactions.from_columns(*map(np.array, zip(*rows, strict=True))), 0.7)
    score = lambda histories, users: np.tile([0.0, 4, 3, 2, 1], (len(users), 1))  # noqa: E731
    dropped, kept = (evaluate(score, split.measured(repeats=repeats))["full"] for repeats in ("drop", "keep"))
    assert dropped["mrr"] == (1 + 1) / 2                     # 2: item 2 against 3 and 4
    assert kept["mrr"] == (1 / 4 + 1 / 2) / 2
    assert best_items(score, split.measured(repeats="keep"), 2).tolist() == [[1, 2], [1, 2]]
    assert best_items(score, split, 2).tolist() == [[4, 0], [3, 4]]
    assert evaluate(score, split.measured(repeats="keep"), "valid")["full"]["mrr"] == (1 / 3 + 1 / 2) / 2


def test_what_cannot_be_measured_is_refused(rng):
    split = leave_one_out(drawn(rng))
    with pytest.raises(ValueError, match="leave-one-out holds out one item for each user: use a split by time"):
        split.measured("all")
    for how in (("some",), ("first", "rank")):
        with pytest.raises(ValueError, match="expected one of"):
            split.measured(*how)
    several = by_time(drawn(rng), 0.6).measured("all")
    with pytest.raises(ValueError, match="without a truth: expected neither"):
        evaluate(scored(rng, several, 9), several, truth=lambda histories: None)
    nan = scored(rng, several, 9)
    with pytest.raises(ValueError, match="is NaN"):
        evaluate(lambda histories, users: nan(histories, users) * math.nan, several)
