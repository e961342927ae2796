"""Losses, and how a ranking is measured."""

from __future__ import annotations

import math

import numpy as np

from ...backend import Array
from .basics import softmax


def cross_entropy(logits: Array, targets: Array, weights: Array | None = None) -> float:
    total = loss = 0.0
    for place in np.ndindex(targets.shape):
        w = 1.0 if weights is None else weights[place]
        top = max(logits[place])
        log_sum = top + math.log(sum(math.exp(z - top) for z in logits[place]))
        loss += w * (log_sum - logits[place][targets[place]])
        total += w
    return loss / total if total else 0.0


def smoothed_cross_entropy(
    logits: Array, targets: Array, weights: Array | None = None, smoothing: float = 0.1
) -> float:
    """The cross-entropies of all classes, each by the probability that it is given."""
    V = logits.shape[-1]
    return sum(
        (smoothing / V) * cross_entropy(logits, np.full(targets.shape, j), weights) for j in range(V)
    ) + (1 - smoothing) * cross_entropy(logits, targets, weights)


def bpr_max(positive: Array, negatives: Array, weights: Array | None = None, regularisation: float = 1.0) -> float:
    """log σ alone is computed around 0; -log Σ sσ is then a sum of exponentials."""
    total = loss = 0.0
    for at in np.ndindex(positive.shape):
        w = 1.0 if weights is None else float(weights[at])
        r, s = negatives[at], softmax(negatives[at])
        top = max(r)
        log_total = top + math.log(sum(math.exp(x - top) for x in r))
        logs = []
        for x in r:
            gap = positive[at] - x
            logs.append(x - log_total - (math.log1p(math.exp(-gap)) if gap > 0 else math.log1p(math.exp(gap)) - gap))
        high = max(logs)
        loss -= w * (high + math.log(sum(math.exp(x - high) for x in logs)))
        loss += w * regularisation * sum(s[j] * r[j] ** 2 for j in range(len(r)))
        total += w
    return loss / total if total else 0.0


def bce_with_logits(z: Array, targets: Array, weights: Array | None = None) -> float:
    total = loss = 0.0
    for place in np.ndindex(z.shape):
        w, t = (1.0 if weights is None else weights[place]), targets[place]
        loss += w * (t * _minus_log_sigmoid(z[place]) + (1 - t) * _minus_log_sigmoid(-z[place]))
        total += w
    return loss / total if total else 0.0


def _minus_log_sigmoid(z: float) -> float:
    return math.log1p(math.exp(-z)) if z > 0 else -z + math.log1p(math.exp(z))


def rank(scores: Array, target: int) -> float:
    """The mean rank under ties: 1 is best."""
    greater = sum(1 for s in scores if s > scores[target])
    equal = sum(1 for s in scores if s == scores[target]) - 1
    return 1 + greater + equal / 2


def hit_rate(scores: Array, target: int, k: int) -> float:
    return 1.0 if rank(scores, target) < k + 1 else 0.0


def ndcg(scores: Array, target: int, k: int) -> float:
    return 1 / math.log2(rank(scores, target) + 1) if rank(scores, target) < k + 1 else 0.0


def distance_bpr(
    positive: Array, negative: Array, between: Array, weights: Array | None = None, pvn_weight: float = 0.0
) -> float:
    """Position by position; -log σ(z) is log(1 + exp(-z)), around 0."""
    total = loss = 0.0
    for at in np.ndindex(positive.shape):
        w, z = 1.0 if weights is None else float(weights[at]), negative[at] - positive[at]
        each = math.log1p(math.exp(-z)) if z > 0 else math.log1p(math.exp(z)) - z
        total, loss = total + w, loss + w * (each + pvn_weight * max(positive[at] - between[at], 0.0))
    return loss / total if total else 0.0
