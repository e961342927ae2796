"""Bootstrap intervals of a mean over users, and of the difference between two models on the same users."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..random import Stream, generator

DRAWS = 2000             # resamples of the users
LEVEL = 0.95
T_95 = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571}     # Student's t, two-sided 95 %, by degrees of freedom
_NUMBERS_AT_ONCE = 60_000      # half a megabyte an array: memory of larger ones is returned to the system each time


class Difference(NamedTuple):
    """A mean, or the difference of two models, and the ends of its interval."""

    mean: float
    low: float
    high: float


def mean_interval(values: np.ndarray, seed: int = 0) -> Difference:
    """The mean of a metric over users (users,), and its interval as in `paired_difference`."""
    return paired_difference(values, np.zeros(len(values)), seed)


def over_samples(values: Sequence[float] | np.ndarray) -> Difference:
    """The mean of a few independent values, of seeds or folds, and its 95 % interval by Student's t; NaN for one."""
    n, mean = len(values), float(np.mean(values))
    half = t_95(n - 1) * float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return Difference(mean, mean - half, mean + half)


def t_95(freedom: int) -> float:
    """The two-sided 95 % point of Student's t: from the table, or by Abramowitz & Stegun 1972, 26.7.5, to 0.001."""
    if freedom in T_95:
        return T_95[freedom]
    z = 1.959964
    terms = (z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return sum(term / freedom**i for i, term in enumerate(terms))


def paired_difference(values: np.ndarray, others: np.ndarray, seed: int = 0) -> Difference:
    """d = mean_u (values_u - others_u), and its 95 % percentile interval (Efron & Tibshirani 1993, chapter 13).

    Shapes: values, others (users,), a metric of each user under two models. All users are drawn anew with replacement,
    2,000 times; the two values of a user are drawn together, so that their common part cancels. The interval is
    about other users, not about other seeds. The same seed draws the same users.
    """
    differences = np.asarray(values, dtype=np.float64) - others
    return _bootstrap(lambda drawn: np.mean(differences[drawn], axis=1), len(differences), seed)


def paired_error_difference(
    errors: np.ndarray, others: np.ndarray, owners: np.ndarray, power: int = 2, seed: int = 0
) -> Difference:
    """d = e(errors) - e(others), with e(x) = (mean |x|^p)^(1/p), which is RMSE for p = 2 and MAE for p = 1.

    Shapes: errors, others (N,), r̂ - r of each rating under two models; owners (N,), the user of each rating. Users are
    drawn as in `paired_difference`, each with all of their ratings (the cluster bootstrap, Field & Welsh 2007): as a
    user's ratings are alike, single draws would make the interval too narrow.
    """
    users, place = np.unique(owners, return_inverse=True)
    counts = np.bincount(place)
    sums = [np.bincount(place, np.abs(x).astype(np.float64) ** power) for x in (errors, others)]

    def difference(drawn: np.ndarray) -> np.ndarray:
        n = np.sum(counts[drawn], axis=1)
        mine, theirs = ((np.sum(sum_[drawn], axis=1) / n) ** (1 / power) for sum_ in sums)
        return mine - theirs

    return _bootstrap(difference, len(users), seed)


def _bootstrap(statistic: Callable[[np.ndarray], np.ndarray], n: int, seed: int) -> Difference:
    """The statistic of all n users, and its percentiles over draws. Shapes: statistic (draws, n) users -> (draws,)."""
    rng = generator(seed, Stream.BOOTSTRAP)
    at_once = max(1, _NUMBERS_AT_ONCE // n)
    sizes = [min(at_once, DRAWS - begin) for begin in range(0, DRAWS, at_once)]
    values = np.concatenate([statistic(rng.integers(0, n, size=(size, n))) for size in sizes])
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Difference(float(statistic(np.arange(n)[None])[0]), float(low), float(high))
