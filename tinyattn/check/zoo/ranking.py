"""Ranking metrics, wrong in every way that is known."""

import math
from types import SimpleNamespace

import numpy as np

from .bug import Bug

BUGS = [
    Bug("optimistic_ties", "the target ranks before its ties", "Score everything 0: how large is your HR@1?", permitted=True),
    Bug("pessimistic_ties", "the target ranks after its ties", "Score everything 0: how large is HR@10 of 11 items?", permitted=True),
    Bug("argsort_order", "ties are broken by position", "Shuffle the items: does the metric move?", also=("argsort_reversed",), permitted=True),
    Bug("ascending", "the smallest score ranks first", "Is a high score good?", also=("ascending_but_left_out",)),
    Bug("off_by_one_rank", "the logarithm takes the rank, not the rank + 1", "Compute NDCG at rank 1.",
        also=("off_by_one_guarded",)),
    Bug("off_by_two_rank", "the logarithm takes the rank + 2", "Compute NDCG at rank 1."),
    Bug("off_by_one_k", "k is off by one, up or down", "Which rank is the last to count?", also=("off_by_one_k_down",)),
    Bug("natural_log", "the logarithm is natural, and not normalised", "Compute NDCG at rank 1."),
    Bug("log10", "the logarithm is decimal, and not normalised", "Compute NDCG at rank 1."),
    Bug("k_beyond", "it raises, or is 0, for large k", "Does your code take k items, or assume that there are k?",
        also=("k_beyond_zero", "k_beyond_in_hit_rate", "k_beyond_in_ndcg")),
    Bug("log_of_k", "NDCG divides by log2(k + 1), not log2(rank + 1)", "Does NDCG know where the hit was?"),
    Bug("ndcg_of_k", "NDCG is normalised by the ideal gain of k items", "How many relevant items are there?"),
    Bug("reciprocal", "NDCG is 1 / rank", "Compute NDCG at rank 2."),
    Bug("precision", "HR is divided by k", "How many relevant items are there?"),
    Bug("ndcg_without_cut", "NDCG is not cut at k", "Compute NDCG@1 at rank 2."),
    Bug("ndcg_is_hit", "NDCG is 1 for every hit", "Compute NDCG at rank 2."),
    Bug("target_excluded", "the target is left out of its ranking: ranks are one too small", "Which rank is the best?", also=("target_left_out",)),
    Bug("rank_of_scores", "scores are taken for ranks", "Multiply all scores by 2: does the metric move?", also=("scores_unguarded",)),
    Bug("top_value", "it is a hit wherever the target's score is among the k best values", "Score everything 0: how large is your HR@1?"),
    Bug("nothing_left_out", "items scored -inf rank first", "Seen items are scored -inf: do they rank last?"),
    Bug("changes_input", "it sorts the scores in place", "Print the scores before and after."),
    Bug("edge_inclusive", "a mean rank between k and k + 1 is not within k", "Both readings are in use.", convention=True),
]  # fmt: skip


def make(bugs=frozenset()):
    """-> hit_rate and ndcg with these bugs."""

    def rank_of(scores, target):
        scores = np.asarray(scores, float)
        scores = np.where(scores == -np.inf, np.inf, scores) if "nothing_left_out" in bugs else scores
        scores = -scores if "ascending" in bugs else scores
        scores = np.where(scores == -np.inf, scores, -scores) if "ascending_but_left_out" in bugs else scores
        scores = np.where(np.arange(len(scores)) == target, -np.inf, scores) if "target_left_out" in bugs else scores
        if {"rank_of_scores", "scores_unguarded"} & bugs:
            return scores[target]
        if "argsort_order" in bugs:
            return 1 + int(np.argmax(np.argsort(-scores, kind="stable") == target))
        if "argsort_reversed" in bugs:
            return 1 + int(np.argmax(np.argsort(scores, kind="stable")[::-1] == target))
        greater, equal = np.sum(scores > scores[target]), np.sum(scores == scores[target]) - 1
        share = 0 if "optimistic_ties" in bugs else 1 if "pessimistic_ties" in bugs else 0.5
        return float(1 + greater + share * equal) - (1 if "target_excluded" in bugs else 0)

    def within(scores, target, k, metric):
        if {"k_beyond", f"k_beyond_in_{metric}"} & bugs and k > len(scores):
            raise IndexError(f"index {k - 1} is out of bounds for axis 0 with size {len(scores)}")
        if "k_beyond_zero" in bugs and k > len(scores):
            return False
        if "top_value" in bugs:
            return scores[target] in np.sort(np.unique(scores))[::-1][:k]
        k = k + 1 if "off_by_one_k" in bugs else k - 1 if "off_by_one_k_down" in bugs else k
        rank = rank_of(scores, target)
        return rank <= k if "edge_inclusive" in bugs else rank < k + 1

    def hit_rate(scores, target, k):
        hit = 1.0 if within(scores, target, k, "hit_rate") else 0.0
        if "changes_input" in bugs:
            scores.sort()
        return hit / k if "precision" in bugs else hit

    def ndcg(scores, target, k):
        if not within(scores, target, k, "ndcg") and "ndcg_without_cut" not in bugs:
            return 0.0
        if "ndcg_is_hit" in bugs:
            return 1.0
        rank = rank_of(scores, target)
        if "reciprocal" in bugs:
            return 1 / rank if rank else 0.0
        rank = k if "log_of_k" in bugs else rank
        rank = rank - 1 if "off_by_one_rank" in bugs else rank + 1 if "off_by_two_rank" in bugs else rank
        rank = max(rank - 1, 1) if "off_by_one_guarded" in bugs else rank
        log = math.log if "natural_log" in bugs else math.log10 if "log10" in bugs else math.log2
        gain = 1 / log(rank + 1) if rank > 0 or "scores_unguarded" in bugs else float("inf")
        if "ndcg_of_k" in bugs:
            gain /= sum(1 / math.log2(i + 1) for i in range(1, k + 1))
        return gain

    return SimpleNamespace(hit_rate=hit_rate, ndcg=ndcg)
