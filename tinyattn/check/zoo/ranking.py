"""Ranking metrics, and their known bugs."""

import math

import numpy as np

from .bug import bug, planted


def hit_rate(scores, target, k):
    hit = 1.0 if _within(scores, target, k) else 0.0
    return hit


def ndcg(scores, target, k):
    if not _within(scores, target, k):
        return 0.0
    rank = _rank(scores, target)
    return 1 / math.log2(rank + 1) if rank > 0 else math.inf


def _rank(scores, target):
    s = np.asarray(scores, float)
    greater, equal = np.sum(s > s[target]), np.sum(s == s[target]) - 1
    return float(1 + greater + 0.5 * equal)


def _within(scores, target, k):
    return _rank(scores, target) < k + 1


_ALL_0, _FIRST, _SECOND = "Score everything 0: how large is your HR@1?", "Compute NDCG at rank 1.", "Compute NDCG at rank 2."
_RETURNS, _S, _WITHIN = "return float(1 + greater + 0.5 * equal) -> return {}", "s = np.asarray(scores, float) -> s = {}", "_rank(scores, target) < k + 1 -> {}"
_RANK, _GAIN, _LOG = "rank = _rank(scores, target) -> rank = {}", "return 1 / math.log2(rank + 1) if rank > 0 else math.inf -> return {}", "math.log2 -> math.{}"
_HIT, _NDCG = "hit = 1.0 -> scores[k - 1]; hit = 1.0", "if not _within -> scores[k - 1]\n    if not _within"

BUGS, make = planted(__name__, [
    bug("optimistic_ties", "the target ranks before its ties", _ALL_0, "0.5 * equal -> 0 * equal", permitted=True),
    bug("pessimistic_ties", "the target ranks after its ties", "Score everything 0: how large is HR@10 of 11 items?", "0.5 * equal -> 1 * equal", permitted=True),
    bug("argsort_order", "ties are broken by position", "Shuffle the items: does the metric move?", _RETURNS.format("1 + int(np.argmax(np.argsort(-s, kind='stable') == target))"),
        {"argsort_reversed": _RETURNS.format("1 + int(np.argmax(np.argsort(s, kind='stable')[::-1] == target))")}, permitted=True),
    bug("ascending", "the smallest score ranks first", "Is a high score good?", _S.format("-np.asarray(scores, float)"),
        {"ascending_but_left_out": _S.format("np.where(np.asarray(scores) == -np.inf, -np.inf, -np.asarray(scores, float))")}),
    bug("off_by_one_rank", "the logarithm takes the rank, not the rank + 1", _FIRST, _RANK.format("_rank(scores, target) - 1"), {"off_by_one_guarded": _RANK.format("max(_rank(scores, target) - 1, 1)")}),
    bug("off_by_two_rank", "the logarithm takes the rank + 2", _FIRST, _RANK.format("_rank(scores, target) + 1")),
    bug("off_by_one_k", "k is off by one, up or down", "Which rank is the last to count?", _WITHIN.format("_rank(scores, target) < k + 2"), {"off_by_one_k_down": _WITHIN.format("_rank(scores, target) < k")}),
    bug("natural_log", "the logarithm is natural, and not normalised", _FIRST, _LOG.format("log")),
    bug("log10", "the logarithm is decimal, and not normalised", _FIRST, _LOG.format("log10")),
    bug("k_beyond", "it raises, or is 0, for large k", "Does your code take k items, or assume that there are k?", f"{_HIT} && {_NDCG}",
        {"k_beyond_zero": _WITHIN.format("k <= len(scores) and _rank(scores, target) < k + 1"), "k_beyond_in_hit_rate": _HIT, "k_beyond_in_ndcg": _NDCG}),
    bug("log_of_k", "NDCG divides by log2(k + 1), not log2(rank + 1)", "Does NDCG know where the hit was?", _RANK.format("k")),
    bug("ndcg_of_k", "NDCG is normalised by the ideal gain of k items", "How many relevant items are there?", _GAIN.format("1 / math.log2(rank + 1) / sum(1 / math.log2(i + 1) for i in range(1, k + 1))")),
    bug("reciprocal", "NDCG is 1 / rank", _SECOND, _GAIN.format("1 / rank")),
    bug("precision", "HR is divided by k", "How many relevant items are there?", "return hit -> return hit / k"),
    bug("ndcg_without_cut", "NDCG is not cut at k", "Compute NDCG@1 at rank 2.", "if not _within(scores, target, k) -> if False"),
    bug("ndcg_is_hit", "NDCG is 1 for every hit", _SECOND, _GAIN.format("1.0")),
    bug("target_excluded", "the target is left out of its ranking: ranks are one too small", "Which rank is the best?", _RETURNS.format("float(greater + 0.5 * equal)"),
        {"target_left_out": _S.format("np.where(np.arange(len(scores)) == target, -np.inf, np.asarray(scores, float))")}),
    bug("rank_of_scores", "scores are taken for ranks", "Multiply all scores by 2: does the metric move?", _RETURNS.format("s[target]"),
        {"scores_unguarded": _RETURNS.format("s[target]") + " && " + _GAIN.format("1 / math.log2(rank + 1)")}),
    bug("top_value", "it is a hit wherever the target's score is among the k best values", _ALL_0, _WITHIN.format("scores[target] in np.sort(np.unique(scores))[::-1][:k]")),
    bug("nothing_left_out", "items scored -inf rank first", "Seen items are scored -inf: do they rank last?", _S.format("np.where(np.asarray(scores) == -np.inf, np.inf, np.asarray(scores, float))")),
    bug("changes_input", "it sorts the scores in place", "Print the scores before and after.", "return hit -> scores.sort(); return hit"),
    bug("edge_inclusive", "a mean rank between k and k + 1 is not within k", "Both readings are in use.", _WITHIN.format("_rank(scores, target) <= k"), convention=True),
])  # fmt: skip
