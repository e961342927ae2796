"""Hit rate and NDCG with one relevant item, written three times, differently, and the bugs that can be planted in each.

The style einsum is for batches: scores (B, V), target (B,), k -> (B,) values. The others are for one user.
"""

import math
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")
BATCHED = ("einsum",)
PLANTED = {
    "optimistic_ties": ("loops", "einsum", "inplace"),
    "pessimistic_ties": ("loops", "einsum", "inplace"),
    "ascending": ("loops", "einsum", "inplace"),
    "off_by_one_rank": ("loops", "einsum", "inplace"),
    "off_by_one_k": ("loops", "einsum", "inplace"),
    "natural_log": ("loops", "einsum", "inplace"),
    "k_beyond": ("loops", "einsum", "inplace"),
    "argsort_order": ("loops", "einsum", "inplace"),
    "log_of_k": ("loops", "einsum", "inplace"),
    "precision": ("loops", "einsum", "inplace"),
    "target_excluded": ("loops", "einsum", "inplace"),
    "ndcg_without_cut": ("loops", "einsum", "inplace"),
    "rank_of_scores": ("loops", "einsum", "inplace"),
    "argsort_once": ("loops", "einsum", "inplace"),
    "half_ranks_floored": ("loops", "einsum", "inplace"),
    "ties_with_itself": ("loops", "einsum", "inplace"),
    "ties_cut_at_k": ("loops", "einsum", "inplace"),
    "left_out_shift": ("loops", "inplace"),
    "left_out_as_zero": ("loops", "einsum", "inplace"),
    "ideal_of_k_items": ("loops", "einsum", "inplace"),
    "tolerance": ("loops", "einsum", "inplace"),
    "float32_scores": ("loops", "einsum", "inplace"),
    "scores_changed": ("loops", "einsum", "inplace"),
    "reciprocal_rank": ("loops", "einsum", "inplace"),
    "absolute_scores": ("loops", "einsum", "inplace"),
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
        if bug == "float32_scores":
            scores = scores.astype(np.float32)
        if bug == "left_out_as_zero":
            scores = np.where(np.isneginf(scores), 0, scores)
        if bug == "absolute_scores":
            scores = np.where(np.isneginf(scores), scores, np.abs(scores))
        if bug == "target_of_first_user":
            target = np.broadcast_to(target[:1], target.shape)
        if bug == "argsort_once":
            return 1.0 + np.argsort(-scores, axis=1, kind="stable")[np.arange(len(scores)), target]
        hot = target[:, None] == np.arange(items)
        if bug == "target_excluded":
            scores = np.where(hot, -np.inf, scores)
        own = np.einsum("bv->b", np.where(hot, scores, 0))[:, None]
        if bug == "rank_of_scores":
            return own[:, 0].astype(float)
        if bug == "argsort_order":
            order = np.argsort(-scores, axis=1, kind="stable")
            return 1.0 + np.einsum("bv,v->b", order == target[:, None], np.arange(items))
        greater, equal = scores > own, (scores == own) & ~hot
        if bug == "ascending":
            greater = scores < own
        if bug == "ties_with_itself":
            equal = scores == own
        if bug == "tolerance":
            near = np.isclose(scores, own, rtol=1e-6, atol=1e-9)
            greater, equal = greater & ~near, near & ~hot
        ties = 0.5 * np.einsum("bv->b", equal.astype(float))
        before = np.einsum("bv->b", greater.astype(float))
        if bug == "ranks_across_users":
            before = np.einsum("bcv->b", (scores[None] > own[:, None]).astype(float))
        if bug == "optimistic_ties":
            ties = 0 * ties
        if bug == "pessimistic_ties":
            ties = 2 * ties
        if bug == "half_ranks_floored":
            ties = np.floor(ties)
        if bug == "ties_cut_at_k":
            ties = np.minimum(ties, np.maximum(k - 1 - before, 0) / 2)
        rank = 1 + before + ties
        if bug == "k_beyond":
            bound = np.partition(scores, items - k, axis=1)[:, items - k]
            rank = np.where(own[:, 0] < bound, np.inf, rank)
        if bug == "scores_changed":
            np.negative(scores, out=scores)
        return rank

    def within(rank, k):
        if bug == "off_by_one_k":
            return rank < k
        return rank < k + 1

    def hit_rate(scores, target, k):
        hits = within(rank_of(np.asarray(scores), np.asarray(target), k), k).astype(float)
        return hits / k if bug == "precision" else hits

    def ndcg(scores, target, k):
        rank = rank_of(np.asarray(scores), np.asarray(target), k)
        gain = 1 / np.log2(1 + rank)
        if bug == "off_by_one_rank":
            gain = 1 / np.log2(rank)
        if bug == "natural_log":
            gain = 1 / np.log(1 + rank)
        if bug == "log_of_k":
            gain = np.full(rank.shape, 1 / np.log2(1 + k))
        if bug == "reciprocal_rank":
            gain = 1 / rank
        if bug == "ideal_of_k_items":
            gain = gain / np.einsum("i->", 1 / np.log2(np.arange(2, k + 2)))
        if bug == "ndcg_without_cut":
            return gain
        return np.where(within(rank, k), gain, 0.0)

    return hit_rate, ndcg


def _inplace(bug):
    """A sorted copy, and two searches in it: where the target's score begins and where it ends."""

    def rank_of(scores, target, k):
        own = scores[target].item()
        ordered = scores if bug == "scores_changed" else np.array(scores)
        if bug == "float32_scores":
            ordered = ordered.astype(np.float32)
            own = ordered[target].item()
        if bug == "left_out_as_zero":
            np.nan_to_num(ordered, copy=False, neginf=0.0)
            own = ordered[target].item()
        if bug == "absolute_scores":
            np.abs(ordered, out=ordered, where=ordered > -np.inf)
            own = ordered[target].item()
        if bug == "left_out_shift":
            ordered = ordered[ordered != -np.inf]
            own = ordered[target].item()
        if bug == "target_excluded":
            ordered[target] = own = -np.inf
        if bug == "rank_of_scores":
            return own
        if bug == "argsort_once":
            return 1.0 + np.argsort(ordered)[::-1][target].item()
        if bug == "argsort_order":
            order = np.argsort(ordered, kind="stable")[::-1]
            return 1.0 + np.flatnonzero(order == target)[0].item()
        ordered.sort()
        begin = int(np.searchsorted(ordered, own, side="left"))
        end = int(np.searchsorted(ordered, own, side="right"))
        if bug == "tolerance":
            slack = 1e-6 * abs(own) if own > -np.inf else 0.0
            begin = int(np.searchsorted(ordered, own - slack, side="left"))
            end = int(np.searchsorted(ordered, own + slack, side="right"))
        first, last = ordered.size - end + 1, ordered.size - begin  # the places that the ties share
        if bug == "ascending":
            first, last = begin + 1, end
        if bug == "optimistic_ties":
            last = first
        if bug == "pessimistic_ties":
            first = last
        if bug == "ties_with_itself":
            last += 1
        if bug == "half_ranks_floored":
            return float((first + last) // 2)
        if bug == "ties_cut_at_k":
            last = max(min(last, k), first)
        if bug == "k_beyond" and k > ordered.size:
            return math.inf
        return (first + last) / 2

    def cut(k):
        return k - 1 if bug == "off_by_one_k" else k

    def hit_rate(scores, target, k):
        hit = float(rank_of(np.asarray(scores), target, k) <= cut(k))
        if bug == "precision":
            hit /= k
        return hit

    def ndcg(scores, target, k):
        rank = rank_of(np.asarray(scores), target, k)
        if rank > cut(k) and bug != "ndcg_without_cut":
            return 0.0
        gain = math.log(2)
        if bug == "natural_log":
            gain = 1.0
        if bug == "off_by_one_rank":
            rank = max(rank - 1, 1.0)
        if bug == "log_of_k":
            rank = k
        if bug == "reciprocal_rank":
            return 1.0 / rank
        gain /= math.log1p(rank)
        if bug == "ideal_of_k_items":
            gain /= float(np.sum(math.log(2) / np.log1p(np.arange(1, k + 1))))
        return gain

    return hit_rate, ndcg
