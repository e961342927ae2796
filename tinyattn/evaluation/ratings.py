"""Errors of predicted ratings, and two closed-form baselines."""

import math
from collections.abc import Callable

import numpy as np

from ..data import Interactions

DAMPING = {"items": 25, "users": 10}       # Koren (2010), section 2.2


def rating_errors(predicted: np.ndarray, ratings: np.ndarray) -> dict[str, float]:
    """{"rmse": √mean((r̂ - r)²), "mae": mean |r̂ - r|}. Shapes: (N,) both."""
    off = predicted - ratings
    return {"rmse": math.sqrt(np.mean(off * off)), "mae": float(np.mean(np.abs(off)))}


def mean_rating(train: Interactions) -> Callable[[Interactions], np.ndarray]:
    """r̂ = μ, the mean rating of `train`, for every rating of other interactions with the same numbers."""
    assert train.ratings is not None
    mean = float(np.mean(train.ratings))
    return lambda data: np.full(len(data), mean)


def damped_biases(train: Interactions) -> Callable[[Interactions], np.ndarray]:
    """r̂ = μ + b_i + b_u, b_i = Σ (r - μ) / (25 + n_i), b_u = Σ (r - μ - b_i) / (10 + n_u), where n counts ratings.

    The constants damp the biases of few ratings (Koren 2010, section 2.2).
    """
    assert train.ratings is not None
    mean = float(np.mean(train.ratings))
    users = train.owner
    items = _damped(train.flat, train.ratings - mean, train.n_items + 1, DAMPING["items"])
    biases = _damped(users, train.ratings - mean - items[train.flat], train.n_users, DAMPING["users"])
    return lambda data: mean + items[data.flat] + biases[data.owner]


def _damped(ids: np.ndarray, values: np.ndarray, count: int, damping: float) -> np.ndarray:
    return np.bincount(ids, values, minlength=count) / (damping + np.bincount(ids, minlength=count))


RATING_BASELINES = {"mean": mean_rating, "biases": damped_biases}
