"""Ranking metrics, and their known bugs."""

import math

import numpy as np

from .bug import planted


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


BUGS, make = planted(__name__)
