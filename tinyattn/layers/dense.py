"""A linear map with its parameters, and the initialisation that all weight matrices share."""

import math
from typing import Any, NamedTuple

import numpy as np

from ..backend import Array
from ..forms import replaceable
from ..ops import linear, linear_backward


def glorot(rng: np.random.Generator, n_in: int, n_out: int) -> np.ndarray:
    """(n_in, n_out), uniform in ±√(6 / (n_in + n_out)), which keeps the scale of x and of dx (Glorot & Bengio 2010)."""
    limit = math.sqrt(6 / (n_in + n_out))
    return rng.uniform(-limit, limit, size=(n_in, n_out))


def dense_init(rng: np.random.Generator, n_in: int, n_out: int, bias: bool = True) -> dict[str, Any]:
    """{"W": (n_in, n_out) glorot, "b": (n_out,) zeros, left out where `bias` is False}."""
    p = {"W": glorot(rng, n_in, n_out)}
    if bias:
        p["b"] = np.zeros(n_out)
    return p


class DenseCache(NamedTuple):
    x: Array      # (..., n_in)


def dense(p: Any, x: Array) -> tuple[Array, DenseCache]:
    """y = x W + b. Shapes: x (..., n_in) -> y (..., n_out), cache."""
    return linear(x, p["W"], p.get("b")), DenseCache(x)


@replaceable
def dense_backward(p: Any, dy: Array, cache: DenseCache) -> tuple[Array, dict[str, Any]]:
    """-> dx (..., n_in), grads shaped like p."""
    dx, dW, db = linear_backward(dy, cache.x, p["W"])
    return dx, {"W": dW, "b": db} if "b" in p else {"W": dW}
