"""How sure is a difference between two models that were measured on the same users?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..random import Stream, generator

DRAWS = 2000             # resamples of the users
LEVEL = 0.95
_NUMBERS_AT_ONCE = 4_000_000


class Difference(NamedTuple):
    """The mean of the differences, and the ends of its interval."""

    mean: float
    low: float
    high: float


def paired_difference(values: np.ndarray, others: np.ndarray, seed: int = 0) -> Difference:
    """d = mean_u (values_u - others_u), and between which values 95 % of its bootstrap distribution lie.

    Shapes: values, others (users,), a metric of each user under two models. Users are drawn with replacement, as many
    as there are, 2,000 times; each draw takes a user's two values together, so what makes a user easy or hard for both
    models cancels. The interval is the percentile interval (Efron & Tibshirani 1993, chapter 13): it says what other
    users might have shown, and nothing of other seeds. The same seed draws the same users.
    """
    differences = np.asarray(values, dtype=np.float64) - others
    n = len(differences)
    rng = generator(seed, Stream.BOOTSTRAP)
    at_once = max(1, _NUMBERS_AT_ONCE // n)
    means = np.empty(DRAWS)
    for begin in range(0, DRAWS, at_once):
        drawn = means[begin : begin + at_once]
        drawn[:] = np.mean(differences[rng.integers(0, n, size=(len(drawn), n))], axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Difference(float(np.mean(differences)), float(low), float(high))
