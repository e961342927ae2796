import itertools
import math

import numpy as np
import pytest

from tinyattn.data import Interactions, leave_one_out
from tinyattn.evaluation import (
    all_ranks,
    full_ranking,
    hit_rate,
    metrics,
    ndcg,
    ndcg_of_several,
    ranks,
    recall,
    reciprocal_rank,
)


def test_ranks_by_hand():
    scores = np.array([[0.1, 0.9, 0.5, 0.5], [1.0, 1.0, 1.0, 1.0], [3.0, 2.0, -np.inf, -np.inf]])
    assert ranks(scores, np.array([1, 2, 1])).tolist() == [1, 2.5, 2]
    assert ranks(scores, np.array([2, 0, 3])).tolist() == [2.5, 2.5, 3.5]
    assert all_ranks(scores)[0].tolist() == [4, 1, 2.5, 2.5]


def test_all_ranks_are_the_ranks_of_each(rng):
    scores = rng.integers(0, 4, (5, 9)).astype(float)
    one_by_one = [ranks(scores, np.full(5, item)) for item in range(9)]
    np.testing.assert_array_equal(all_ranks(scores), np.transpose(one_by_one))


def test_metrics_by_hand():
    rank = np.array([1.0, 2.0, 10.0, 11.0])
    found = metrics(rank, ks=(1, 10))
    assert found["hr@1"] == 0.25
    assert found["ndcg@1"] == 0.25
    assert found["hr@10"] == 0.75
    np.testing.assert_allclose(found["ndcg@10"], (1 + 1 / math.log2(3) + 1 / math.log2(11)) / 4)
    np.testing.assert_allclose(found["mrr"], (1 + 1 / 2 + 1 / 10 + 1 / 11) / 4)


def test_several_relevant_items_by_hand():
    """Ranks 1 and 4 of three relevant items are within 4; the ideal ranking has them at 1, 2 and 3."""
    scores = np.array([[5.0, 4, 3, 2, 1], [1, 2, 3, 4, 5]])
    relevant = np.array([[True, False, False, True, True], [False, False, True, False, False]])
    assert recall(scores, relevant, 4).tolist() == [2 / 3, 1]
    ideal = 1 + 1 / math.log2(3) + 1 / 2
    np.testing.assert_allclose(ndcg_of_several(scores, relevant, 4), [(1 + 1 / math.log2(5)) / ideal, 1 / 2])
    np.testing.assert_allclose(ndcg_of_several(scores, relevant, 2), [1 / (1 + 1 / math.log2(3)), 0])
    assert recall(scores, relevant, 1000).tolist() == [1, 1]


def test_ties_give_the_mean_over_every_order_of_the_tied_items():
    scores, relevant = np.array([[2.0, 1, 1, 1, 0]]), np.array([[False, True, True, False, True]])
    for metric in (recall, ndcg_of_several):
        for k in (1, 2, 3, 4, 9):
            orders = [[2.0, *(1 + 0.1 * np.array(order)), 0] for order in itertools.permutations(range(3))]
            expected = np.mean([metric(np.array([order]), relevant, k) for order in orders])
            np.testing.assert_allclose(metric(scores, relevant, k), expected)


def test_with_one_relevant_item_they_are_hit_rate_and_ndcg(rng):
    scores = rng.standard_normal((6, 9))
    relevant, rank = np.eye(9, dtype=bool)[:6], np.diag(all_ranks(scores))
    for k in (1, 3, 20):
        np.testing.assert_array_equal(recall(scores, relevant, k), hit_rate(rank, k))
        np.testing.assert_allclose(ndcg_of_several(scores, relevant, k), ndcg(rank, k))


@pytest.mark.parametrize("metric", [recall, ndcg_of_several])
def test_a_row_without_a_relevant_item_is_refused(metric):
    with pytest.raises(ValueError, match="row 1 has no relevant item: its recall and NDCG are not defined"):
        metric(np.ones((2, 2)), np.array([[True, False], [False, False]]), 2)
    with pytest.raises(ValueError, match="the score of item 1 in row 0 is NaN"):
        metric(np.array([[1.0, np.nan]]), np.ones((1, 2), bool), 2)


def test_metrics_of_every_rank_are_those_of_a_loop():
    """A half rank, which comes of a tie, is cut where fewer than k items stand before it on average."""
    rank = np.arange(2, 50) / 2
    for k in (1, 2, 5, 10):
        for r, hit, gain, reciprocal in zip(rank, hit_rate(rank, k), ndcg(rank, k), reciprocal_rank(rank), strict=True):
            within = r - 1 < k
            assert (hit, gain) == (within, pytest.approx(within / math.log2(1 + r)))
            assert reciprocal == 1 / r
    assert ndcg(np.array([10.5]), 10) > 0
    assert list(metrics(rank, (5, 1))) == ["hr@5", "ndcg@5", "hr@1", "ndcg@1", "mrr"]
    assert list(metrics(rank)) == ["hr@10", "ndcg@10", "mrr"]


def test_a_mean_rank_is_the_mean_over_all_ways_to_break_the_ties():
    """Over every order of the columns; -inf is a score like any other, the lowest."""
    scores = np.array([2.0, 2.0, -np.inf, 1.0, -np.inf])
    found = np.zeros(5)
    orders = list(itertools.permutations(range(5)))
    for order in orders:
        for place, column in enumerate(sorted(order, key=lambda i: -scores[i])):
            found[column] += place + 1
    np.testing.assert_allclose(all_ranks(scores[None])[0], found / len(orders))


def test_hits_grow_with_k_and_bound_ndcg(rng):
    rank = rng.integers(1, 30, 50).astype(float)
    for k in range(1, 30):
        assert np.all(hit_rate(rank, k) <= hit_rate(rank, k + 1))
        assert np.all(ndcg(rank, k) <= hit_rate(rank, k))
    np.testing.assert_array_equal(hit_rate(rank, 1), ndcg(rank, 1))


def test_a_mean_rank_counts_where_fewer_than_k_stand_before_it_on_average():
    assert hit_rate(np.array([9.5, 10.0, 10.5, 11.0]), 10).tolist() == [1, 1, 1, 0]


def test_a_scorer_that_knows_nothing_gets_chance(rng):
    """All scores equal: no better than chance, where sorting with the target first would find a perfect model."""
    rank = ranks(np.zeros((100, 1000)), rng.integers(0, 1000, 100))
    assert set(rank) == {500.5}
    assert metrics(rank)["hr@10"] == 0


def test_expectation_under_a_distribution():
    scores = np.array([[3.0, 2.0, 1.0]])
    truth = np.array([[0.5, 0.3, 0.2]])
    found = metrics(all_ranks(scores), ks=(1, 2), weight=truth)
    assert found["hr@1"] == 0.5
    assert found["hr@2"] == 0.8
    np.testing.assert_allclose(found["mrr"], 0.5 + 0.3 / 2 + 0.2 / 3)
    one_hot = np.array([[0.0, 1.0, 0.0]])
    assert metrics(all_ranks(scores), weight=one_hot) == metrics(ranks(scores, np.array([1])))


def test_nan_is_an_error():
    with pytest.raises(ValueError, match="score of item 2 in row 1 is NaN"):
        ranks(np.array([[1.0, 2, 3], [1, 2, np.nan]]), np.array([0, 0]))


def test_full_ranking_leaves_out_what_was_seen_and_never_the_target():
    data = Interactions.from_sequences([[1, 2, 3, 4], [2, 1, 2, 1], [5, 5]])  # user 2's test item was seen before
    split = leave_one_out(data)
    calls = []

    def score(histories, users):
        calls.append(([h.tolist() for h in histories], users.tolist()))
        return np.tile([9.0, 5, 4, 3, 2, 1], (len(histories), 1))

    # user 1: seen 1 2 3, candidates 4 5, target 4 first. user 2: seen 1 2, target 1 stays and leads.
    assert full_ranking(score, split) == {"hr@10": 1.0, "ndcg@10": 1.0, "mrr": 1.0}
    assert calls == [([[1, 2, 3], [2, 1, 2]], [1, 2])]  # user 3 is too short
    # validation: user 1 has seen 1 2, target 3 leads. user 2 has seen 2 1, target 2: item 1 is out, 2 is in
    assert full_ranking(score, split, "valid")["mrr"] == 1.0


def test_full_ranking_does_not_write_into_the_scores():
    split = leave_one_out(Interactions.from_sequences([[1, 2, 3, 4]]))
    scores = np.arange(5.0)[None]
    full_ranking(lambda histories, users: scores, split)
    assert scores.tolist() == [[0, 1, 2, 3, 4]]
