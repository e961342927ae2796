"""Losses and ranking metrics."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...backend import Array
from .basics import softmax


def _weighted_mean(loss: Callable[[tuple[int, ...]], float], shape: tuple[int, ...], weights: Array | None) -> float:
    """Σ w loss(at) / Σ w over the positions of `shape`; 0 where all weights are 0."""
    positions = list(np.ndindex(shape))
    w = [1.0 if weights is None else float(weights[at]) for at in positions]
    return sum(w_at * loss(at) for w_at, at in zip(w, positions, strict=True)) / sum(w) if sum(w) else 0.0


def _log_sum_exp(z: Iterable[Any]) -> float:
    top = max(z)
    return top + math.log(sum(math.exp(value - top) for value in z))


def _minus_log_sigmoid(z: float) -> float:
    return math.log1p(math.exp(-z)) if z > 0 else -z + math.log1p(math.exp(z))


def cross_entropy(logits: Array, targets: Array, weights: Array | None = None) -> float:
    return _weighted_mean(lambda at: _log_sum_exp(logits[at]) - logits[at][targets[at]], targets.shape, weights)


def smoothed_cross_entropy(
    logits: Array, targets: Array, weights: Array | None = None, smoothing: float = 0.1
) -> float:
    """Σ over classes of a class's smoothed probability times the cross-entropy with it as target."""
    V = logits.shape[-1]
    return sum((smoothing / V) * cross_entropy(logits, np.full(targets.shape, j), weights) for j in range(V)) + (
        1 - smoothing
    ) * cross_entropy(logits, targets, weights)


def tiled_cross_entropy(
    x: Array, E: Array, targets: Array, weights: Array | None = None, smoothing: float = 0.0, tile: int | None = None
) -> float:
    """All logits at once, since the loss does not depend on the tile."""
    logits = np.zeros((*targets.shape, len(E)))
    for at in np.ndindex(*logits.shape):
        logits[at] = sum(a * b for a, b in zip(x[at[:-1]], E[at[-1]], strict=True))
    return smoothed_cross_entropy(logits, targets, weights, smoothing)


def bpr(positive: Array, negative: Array, weights: Array | None = None) -> float:
    return _weighted_mean(lambda at: _minus_log_sigmoid(positive[at] - negative[at]), positive.shape, weights)


def bpr_max(positive: Array, negatives: Array, weights: Array | None = None, regularisation: float = 1.0) -> float:
    def loss(at: tuple[int, ...]) -> float:
        r, s = negatives[at], softmax(negatives[at])
        logs = [x - _log_sum_exp(r) - _minus_log_sigmoid(positive[at] - x) for x in r]
        return regularisation * sum(s[j] * r[j] ** 2 for j in range(len(r))) - _log_sum_exp(logs)

    return _weighted_mean(loss, positive.shape, weights)


def bce_with_logits(z: Array, targets: Array, weights: Array | None = None) -> float:
    def loss(at: tuple[int, ...]) -> float:
        return targets[at] * _minus_log_sigmoid(z[at]) + (1 - targets[at]) * _minus_log_sigmoid(-z[at])

    return _weighted_mean(loss, z.shape, weights)


def distance_bpr(
    positive: Array, negative: Array, between: Array, weights: Array | None = None, pvn_weight: float = 0.0
) -> float:
    def loss(at: tuple[int, ...]) -> float:
        hinge = max(positive[at] - between[at], 0.0)
        return _minus_log_sigmoid(negative[at] - positive[at]) + pvn_weight * hinge

    return _weighted_mean(loss, positive.shape, weights)


def rank(scores: Array, target: int) -> float:
    """The mean rank under ties: 1 is best."""
    greater = sum(1 for s in scores if s > scores[target])
    equal = sum(1 for s in scores if s == scores[target]) - 1
    return 1 + greater + equal / 2


def hit_rate(scores: Array, target: int, k: int) -> float:
    return 1.0 if rank(scores, target) < k + 1 else 0.0


def ndcg(scores: Array, target: int, k: int) -> float:
    return 1 / math.log2(rank(scores, target) + 1) if rank(scores, target) < k + 1 else 0.0


def recall(scores: Array, relevant: Array, k: int) -> float:
    chosen = [i for i in range(len(scores)) if relevant[i]]
    return sum(_gain(scores, i, lambda place: place <= k) for i in chosen) / len(chosen)


def ndcg_of_several(scores: Array, relevant: Array, k: int) -> float:
    """The DCG of the relevant items, divided by the DCG of a ranking that begins with them."""
    chosen = [i for i in range(len(scores)) if relevant[i]]
    ideal = sum(1 / math.log2(place + 1) for place in range(1, min(k, len(chosen)) + 1))
    return sum(_gain(scores, i, lambda place: (place <= k) / math.log2(place + 1)) for i in chosen) / ideal


def _gain(scores: Array, item: int, of_place: Callable[[int], float]) -> float:
    """The gain of an item: the mean over the places of all items that tie with it."""
    greater, tied = (sum(1 for s in scores if found(s)) for found in (scores[item].__lt__, scores[item].__eq__))
    return sum(of_place(greater + place) for place in range(1, tied + 1)) / tied
