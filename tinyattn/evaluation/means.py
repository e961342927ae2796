"""Means over seeds, compared by Student's t: their difference, its interval, and how likely chance alone makes it."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .bootstrap import t_95

CHANCE = 0.05           # a difference with a smaller p is attributed to the models, not to the seeds
_POINTS = 2000          # of the midpoint rule for p


class Comparison(NamedTuple):
    """The difference of two means, the ends of its 95 % interval, and p, two-sided."""

    size: float
    low: float
    high: float
    p: float


def compare_means(values: Sequence[float], others: Sequence[float], paired: bool = False) -> Comparison:
    """mean(values) - mean(others) = d, with d ± t s and p = P(|T| > |d| / s), T of Student's t.

    `paired` compares values of the same seeds: s² = var(values - others) / n, with n - 1 degrees of freedom. Otherwise
    variances may differ: s² = Σ var / n, with the degrees of freedom (Σ var / n)² / Σ (var / n)² / (n - 1), rounded
    down (Welch 1947, eq. 28). A single value counts as exact, as it comes from a model without randomness.
    Raises ValueError if neither has two values, or if paired ones differ in number.
    """
    if paired and len(values) != len(others):
        raise ValueError(f"{len(values)} values are to be paired with {len(others)}, expected as many")
    groups = [np.subtract(values, others)] if paired else [np.asarray(values), np.asarray(others)]
    parts = [(float(np.var(group, ddof=1)) / len(group), len(group) - 1) for group in groups if len(group) > 1]
    if not parts:
        raise ValueError("one value each has no spread, expected at least two of one of them")
    size, variance = float(np.mean(values) - np.mean(others)), sum(part for part, _ in parts)
    freedom = int(variance**2 / sum(part**2 / n for part, n in parts)) if variance else parts[0][1]
    error = math.sqrt(variance)
    half = t_95(freedom) * error
    t = abs(size) / error if error else math.inf * abs(size)
    return Comparison(size, size - half, size + half, two_sided(t, freedom))


def two_sided(t: float, freedom: int) -> float:
    """P(|T| > t) of Student's t: ∫ cosⁿ⁻¹ from arctan(t / √n) to π/2, divided by that from 0, as T = √n tan θ."""
    if math.isnan(t):                                            # t = 0 / 0, of equal values that do not vary
        return 1.0
    begin = math.atan(t / math.sqrt(freedom))
    width = (math.pi / 2 - begin) / _POINTS
    tail = width * float(np.sum(np.cos(begin + width * (np.arange(_POINTS) + 0.5)) ** (freedom - 1)))
    return 2 * tail * math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)


def holm(ps: Sequence[float]) -> list[float]:
    """Each p corrected for the number of questions: max over p_j <= p of min(1, (m - rank_j) p_j) (Holm 1979)."""
    corrected, largest = [1.0] * len(ps), 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[i]))
        corrected[i] = largest
    return corrected
