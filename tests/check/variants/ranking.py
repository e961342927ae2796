"""Hit rate and NDCG with one relevant item, written three times, differently, and the bugs that can be planted in each.

The style einsum is for batches: scores (B, V), target (B,), k -> (B,) values. The others are for one user.
"""

import math
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")
BATCHED = ("einsum",)
PLANTED = {
    "optimistic_ties": ("loops",),
    "pessimistic_ties": ("loops",),
    "ascending": ("loops",),
    "off_by_one_rank": ("loops",),
    "off_by_one_k": ("loops",),
    "natural_log": ("loops",),
    "k_beyond": ("loops",),
    "argsort_order": ("loops",),
    "log_of_k": ("loops",),
    "precision": ("loops",),
    "target_excluded": ("loops",),
    "ndcg_without_cut": ("loops",),
    "rank_of_scores": ("loops",),
    "argsort_once": ("loops",),
    "half_ranks_floored": ("loops",),
    "ties_with_itself": ("loops",),
    "ties_cut_at_k": ("loops",),
    "left_out_shift": ("loops",),
    "left_out_as_zero": ("loops",),
    "ideal_of_k_items": ("loops",),
    "tolerance": ("loops",),
    "float32_scores": ("loops",),
    "scores_changed": ("loops",),
    "reciprocal_rank": ("loops",),
    "absolute_scores": ("loops",),
    "target_of_first_user": ("einsum",),
    "ranks_across_users": ("einsum",),
}
INVENTED = {
    "argsort_once": "takes the item that stands at place `target` for the rank: one argsort where two are needed",
    "half_ranks_floored": "whole-number division of the ties: wrong for an odd number of equal others",
    "ties_with_itself": "the target counts as a tie with itself: ranks are too large by 1/2",
    "ties_cut_at_k": "ties beyond the first k are not counted: wrong only for groups of ties that reach across k",
    "left_out_shift": "items at -inf are removed without moving `target`: wrong where one stands before it",
    "left_out_as_zero": "-inf is read as 0: wrong where the target's score is 0 or negative",
    "ideal_of_k_items": "ndcg is divided by the ideal of k relevant items: right only for k = 1",
    "tolerance": "scores that are nearly equal count as ties",
    "float32_scores": "scores are compared in float32: wrong for float64 scores that differ by less",
    "scores_changed": "writes into the scores it was given",
    "reciprocal_rank": "ndcg is 1 / rank",
    "absolute_scores": "ranks by absolute value: wrong where there are negative scores",
    "target_of_first_user": "in a batch the first user's target serves for all",
    "ranks_across_users": "in a batch each target is compared with all users' scores",
}


def make(style, bug=None):
    """-> a namespace with hit_rate and ndcg; with `bug`, wrong in exactly that one way."""
    if bug is not None and style not in PLANTED[bug]:
        raise ValueError(f"{bug} is not planted in {style}")
    hit_rate, ndcg = {"loops": _loops, "einsum": _einsum, "inplace": _inplace}[style](bug)
    return SimpleNamespace(hit_rate=hit_rate, ndcg=ndcg)


def _loops(bug):
    """Counts, item by item."""

    def rank_of(scores, target, k):
        target = int(target)
        values = [float(s) for s in scores]
        if bug == "float32_scores":
            values = [float(np.float32(s)) for s in values]
        if bug == "left_out_as_zero":
            values = [0.0 if s == -math.inf else s for s in values]
        if bug == "absolute_scores":
            values = [abs(s) if s > -math.inf else s for s in values]
        if bug == "left_out_shift":
            values = [s for s in values if s > -math.inf]
        if bug == "argsort_once":
            return 1.0 + sorted(range(len(values)), key=lambda i: -values[i])[target]
        if bug == "target_excluded":
            values[target] = -math.inf
        own = values[target]
        if bug == "scores_changed":
            scores[target] = -math.inf
        if bug == "rank_of_scores":
            return own
        before = ties = 0
        for i, s in enumerate(values):
            if i == target and bug != "ties_with_itself":
                continue
            if bug == "tolerance" and math.isclose(s, own, rel_tol=1e-6):
                ties += 1
            elif bug == "argsort_order" and s == own:
                before += i < target
            elif s == own:
                ties += 1
            elif bug == "ascending":
                before += s < own
            else:
                before += s > own
        if bug == "optimistic_ties":
            ties = 0
        if bug == "pessimistic_ties":
            ties *= 2
        if bug == "half_ranks_floored":
            ties -= ties % 2
        if bug == "ties_cut_at_k":
            ties = min(ties, max(k - before - 1, 0))
        if bug == "k_beyond" and own < sorted(values, reverse=True)[k - 1]:
            return math.inf
        return 1 + before + ties / 2

    def hit_rate(scores, target, k):
        rank = rank_of(scores, target, k)
        if bug == "off_by_one_k":
            k += 1
        if rank > k:
            return 0.0
        return 1.0 / k if bug == "precision" else 1.0

    def ndcg(scores, target, k):
        rank = rank_of(scores, target, k)
        if bug == "off_by_one_k":
            k += 1
        if rank > k and bug != "ndcg_without_cut":
            return 0.0
        if bug == "off_by_one_rank":
            return 1 / math.log2(rank)
        if bug == "natural_log":
            return 1 / math.log(rank + 1)
        if bug == "log_of_k":
            return 1 / math.log2(k + 1)
        if bug == "reciprocal_rank":
            return 1 / rank
        if bug == "ideal_of_k_items":
            return 1 / math.log2(rank + 1) / math.fsum(1 / math.log2(i + 2) for i in range(k))
        return 1 / math.log2(rank + 1)

    return hit_rate, ndcg


def _einsum(bug):
    """A batch at a time: comparisons with the target's score, taken out by a one-hot matrix and summed."""

    def rank_of(scores, target, k):
        items = scores.shape[1]
        if bug == "target_of_first_user":
            target = np.broadcast_to(target[:1], target.shape)
        hot = target[:, None] == np.arange(items)
        own = np.einsum("bv->b", np.where(hot, scores, 0))[:, None]
        greater, equal = (scores > own, (scores == own) & ~hot)
        ties = 0.5 * np.einsum("bv->b", equal.astype(float))
        before = np.einsum("bv->b", greater.astype(float))
        if bug == "ranks_across_users":
            before = np.einsum("bcv->b", (scores[None] > own[:, None]).astype(float))
        rank = 1 + before + ties
        return rank

    def within(rank, k):
        return rank < k + 1

    def hit_rate(scores, target, k):
        hits = within(rank_of(np.asarray(scores), np.asarray(target), k), k).astype(float)
        return hits

    def ndcg(scores, target, k):
        rank = rank_of(np.asarray(scores), np.asarray(target), k)
        gain = 1 / np.log2(1 + rank)
        return np.where(within(rank, k), gain, 0.0)

    return (hit_rate, ndcg)


def _inplace(bug):
    """A sorted copy, and two searches in it: where the target's score begins and where it ends."""

    def rank_of(scores, target, k):
        own = scores[target].item()
        ordered = np.array(scores)
        ordered.sort()
        begin = int(np.searchsorted(ordered, own, side="left"))
        end = int(np.searchsorted(ordered, own, side="right"))
        first, last = (ordered.size - end + 1, ordered.size - begin)
        return (first + last) / 2

    def cut(k):
        return k

    def hit_rate(scores, target, k):
        hit = float(rank_of(np.asarray(scores), target, k) <= cut(k))
        return hit

    def ndcg(scores, target, k):
        rank = rank_of(np.asarray(scores), target, k)
        if rank > cut(k):
            return 0.0
        gain = math.log(2)
        gain /= math.log1p(rank)
        return gain

    return (hit_rate, ndcg)
