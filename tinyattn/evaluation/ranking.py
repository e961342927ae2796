"""Ranking metrics: the rank of the next item among all items, HR, NDCG and MRR; Recall and NDCG of several items.

Ranks are mean ranks, and may end in a half. An item is among the first k when on average fewer than k items precede
it: rank < k + 1, which is rank <= k for whole ranks.
"""

import math
from typing import Any

import numpy as np


class NaNScoreError(ValueError):
    """A score is NaN, so no ranking is possible; the message names it."""


def ranks(scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The mean rank of each row's target: 1 + #greater + #equal / 2, the expected rank if ties are broken at random.

    Shapes: scores (B, V), targets (B,) column numbers -> (B,) float64, 1 is best; -inf marks a non-candidate.
    Raises NaNScoreError (a ValueError) for a NaN score.
    """
    refuse_nan(scores)
    of_target = np.take_along_axis(scores, targets[:, None], axis=1)
    greater = np.sum(scores > of_target, axis=1)
    equal = np.sum(scores == of_target, axis=1) - 1
    return 1 + greater + equal / 2


def all_ranks(scores: np.ndarray) -> np.ndarray:
    """The mean rank of every item of every row, equal to that of `ranks`. Shapes: (B, V) -> (B, V) float64."""
    refuse_nan(scores)
    result = np.empty(scores.shape)
    for row, out in zip(scores, result, strict=True):
        ordered = np.sort(row)
        below, up_to = np.searchsorted(ordered, row, "left"), np.searchsorted(ordered, row, "right")
        out[:] = 1 + (len(row) - up_to) + (up_to - below - 1) / 2
    return result


def top(scores: np.ndarray, k: int) -> np.ndarray:
    """The columns of the k highest scores of every row, best first; of equal scores, the lower column first.

    Shapes: scores (B, V) -> (B, k). Only scores of at least `_threshold` are sorted.
    """
    best = np.empty((len(scores), k), dtype=np.int64)
    for row, out in zip(scores, best, strict=True):
        (high,) = (row >= _threshold(row, k)).nonzero()
        out[:] = high[(-row[high]).argsort(kind="stable")[:k]]
    return best


def _threshold(row: np.ndarray, k: int) -> Any:
    """A score that k or more scores reach: the k-th highest maximum of √V groups; for a large k, the k-th score."""
    groups = math.isqrt(len(row))
    if 2 * k > groups:
        return np.partition(row, len(row) - k)[len(row) - k]
    highest = np.maximum.reduce(row[: groups * groups].reshape(groups, groups))
    highest.partition(groups - k)
    return highest[groups - k]


def hit_rate(rank: np.ndarray, k: int) -> np.ndarray:
    """HR@k: 1 where the rank is within k, else 0. With one target a user it equals Recall@k."""
    return (rank < k + 1).astype(np.float64)


def ndcg(rank: np.ndarray, k: int) -> np.ndarray:
    """NDCG@k with one target: 1 / log2(rank + 1) where the rank is within k, else 0."""
    return np.where(rank < k + 1, 1 / np.log2(rank + 1), 0.0)


def reciprocal_rank(rank: np.ndarray) -> np.ndarray:
    """1 / rank; its mean is the MRR."""
    return 1 / rank


def recall(scores: np.ndarray, relevant: np.ndarray, k: int) -> np.ndarray:
    """Recall@k = |relevant items within the first k| / |relevant items|, for users with several relevant items.

    Where scores are equal it is the expectation over a random order of the tied items. (With the mean ranks of `ranks`,
    both of two items at rank 1.5 would be within the first one.)
    Shapes: scores (B, V), -inf for a non-candidate, relevant (B, V) boolean -> (B,).
    Raises NaNScoreError for a NaN score, ValueError for a row without a relevant item.
    """
    return _gains(scores, relevant, (np.arange(scores.shape[1]) < k).astype(np.float64)) / _relevant_items(relevant)


def ndcg_of_several(scores: np.ndarray, relevant: np.ndarray, k: int) -> np.ndarray:
    """NDCG@k = DCG / ideal DCG, with DCG = Σ 1 / log2(rank + 1) over the relevant items within the first k.

    The ideal ranking has the relevant items first: its sum is over the ranks 1 .. min(k, |relevant items|) (Järvelin &
    Kekäläinen 2002, with relevance 0 or 1). Ties, shapes and errors as in `recall`; under ties it is the measure of
    McSherry & Najork (2008).
    """
    places = np.arange(1, scores.shape[1] + 1)
    ideal = np.cumsum(1 / np.log2(places + 1))
    dcg = _gains(scores, relevant, np.where(places <= k, 1 / np.log2(places + 1), 0.0))
    return dcg / ideal[np.minimum(_relevant_items(relevant), k) - 1]


def _gains(scores: np.ndarray, relevant: np.ndarray, of_place: np.ndarray) -> np.ndarray:
    """(B,): the sum over a row's relevant items of the gains of their places; tied items share theirs equally."""
    refuse_nan(scores)
    sums, below = np.empty(len(scores)), np.concatenate([[0.0], np.cumsum(of_place)])
    for i, row in enumerate(scores):
        ordered, items = np.sort(-row), -row[relevant[i]]
        first, end = np.searchsorted(ordered, items, "left"), np.searchsorted(ordered, items, "right")
        sums[i] = np.sum((below[end] - below[first]) / (end - first))            # the mean gain of each one's ties
    return sums


def _relevant_items(relevant: np.ndarray) -> np.ndarray:
    """(B,): the number of relevant items of each row. Raises ValueError for a row without any."""
    count = np.sum(relevant, axis=1)
    if not np.all(count):
        raise ValueError(f"row {int(np.argmin(count))} has no relevant item: its recall and NDCG are not defined")
    return count


def metrics(rank: np.ndarray, ks: tuple[int, ...] = (10,), weight: np.ndarray | None = None) -> dict[str, float]:
    """{"hr@10": .., "ndcg@10": .., "mrr": ..}: means over users.

    Shapes: rank (B,), of each user's target. Or rank (B, V), of every item, and weight (B, V), its true probability as
    the next item: then each mean is an expectation.
    """
    named = {f"{name}@{k}": f(rank, k) for k in ks for name, f in (("hr", hit_rate), ("ndcg", ndcg))}
    named["mrr"] = reciprocal_rank(rank)
    if weight is not None:
        named = {name: np.sum(each * weight, axis=1) for name, each in named.items()}
    return {name: float(np.mean(each)) for name, each in named.items()}


def refuse_nan(scores: np.ndarray) -> None:
    """Raise NaNScoreError, naming the first one, if any score is NaN."""
    if np.any(np.isnan(scores)):
        row, column = np.argwhere(np.isnan(scores))[0]
        raise NaNScoreError(f"the score of item {column} in row {row} is NaN: no ranking is possible")
