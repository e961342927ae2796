"""Ranking metrics: the rank of the item that came next among all items, and what is computed from it.

Ranks are mean ranks, so they can end in a half. An item is among the first k when on average fewer than k items are
before it, that is when rank < k + 1; for whole ranks this is rank <= k.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class NaNScoreError(ValueError):
    """A score is NaN, so no ranking is possible; the message says which."""


def ranks(scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The mean rank of each row's target: 1 + #greater + #equal / 2, the expected rank if ties are broken at random.

    (If ties were broken in favour of the target, a model that scores all items alike would look perfect.)
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
        below = np.searchsorted(ordered, row, side="left")
        up_to = np.searchsorted(ordered, row, side="right")
        out[:] = 1 + (len(row) - up_to) + (up_to - below - 1) / 2
    return result


def top(scores: np.ndarray, k: int) -> np.ndarray:
    """The columns of the k highest scores of every row, best first; of equal ones the lower column comes first.

    Shapes: scores (B, V) -> (B, k). Only what is as high as `_at_most_the_kth` is sorted.
    """
    found = np.empty((len(scores), k), dtype=np.int64)
    for row, out in zip(scores, found, strict=True):
        (high,) = (row >= _at_most_the_kth(row, k)).nonzero()
        out[:] = high[(-row[high]).argsort(kind="stable")[:k]]
    return found


def _at_most_the_kth(row: np.ndarray, k: int) -> Any:
    """The k-th highest of √V groups' maxima, which k scores reach at least; where k is not small, the k-th highest."""
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


def metrics(rank: np.ndarray, ks: tuple[int, ...] = (10,), weight: np.ndarray | None = None) -> dict[str, float]:
    """{"hr@10": .., "ndcg@10": .., "mrr": ..}: means over users.

    `rank` (B,) is the rank of each user's target. Or `rank` (B, V) has the rank of every item and `weight` (B, V) its
    true probability of coming next: then each mean is an expectation under that distribution.
    """
    named = {f"{name}@{k}": f(rank, k) for k in ks for name, f in (("hr", hit_rate), ("ndcg", ndcg))}
    named["mrr"] = reciprocal_rank(rank)
    if weight is None:
        return {name: float(np.mean(each)) for name, each in named.items()}
    return {name: float(np.mean(np.sum(each * weight, axis=1))) for name, each in named.items()}


def refuse_nan(scores: np.ndarray) -> None:
    """Raise NaNScoreError, naming the first one, if any score is NaN."""
    if np.any(np.isnan(scores)):
        row, column = np.argwhere(np.isnan(scores))[0]
        raise NaNScoreError(f"the score of item {column} in row {row} is NaN: no ranking is possible")
