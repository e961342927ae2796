"""The position-wise feed-forward network: the same two-layer network for every token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..backend import Array
from ..ops import dropout, dropout_backward, relu, relu_backward
from .dense import DenseCache, dense, dense_backward, dense_init
from .dropout_mask import dropout_mask


def feed_forward_init(rng: np.random.Generator, dim: int, hidden: int) -> dict[str, Any]:
    """Parameters: inner {"W": (dim, hidden), "b": (hidden,)}, outer {"W": (hidden, dim), "b": (dim,)}."""
    return {"inner": dense_init(rng, dim, hidden), "outer": dense_init(rng, hidden, dim)}


class FeedForwardCache(NamedTuple):
    inner: DenseCache
    u: Array              # (..., hidden), before the ReLU
    keep: Array | None    # (..., hidden)
    rate: float
    outer: DenseCache


def feed_forward(p: Any, x: Array, *, rate: float = 0.0, rng: Any = None) -> tuple[Array, FeedForwardCache]:
    """y = dropout(relu(x W1 + b1)) W2 + b2. Shapes: x (..., dim) -> y (..., dim), cache."""
    u, inner = dense(p["inner"], x)                          # (..., hidden)
    keep = dropout_mask(x, u.shape, rate, rng)
    y, outer = dense(p["outer"], dropout(relu(u), keep, rate))
    return y, FeedForwardCache(inner, u, keep, rate, outer)


def feed_forward_backward(p: Any, dy: Array, cache: FeedForwardCache) -> tuple[Array, dict[str, Any]]:
    """-> dx (..., dim), grads shaped like p."""
    dh, outer = dense_backward(p["outer"], dy, cache.outer)  # y = h W2 + b2
    du = relu_backward(dropout_backward(dh, cache.keep, cache.rate), cache.u)
    dx, inner = dense_backward(p["inner"], du, cache.inner)  # u = x W1 + b1
    return dx, {"inner": inner, "outer": outer}


@dataclass(frozen=True)
class FeedForward:
    """`feed_forward` as a part of a block; `hidden` None is as wide as the tokens."""

    hidden: int | None = None

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        return feed_forward_init(rng, dim, self.hidden or dim)

    def forward(
        self, p: Any, x: Array, *, rate: float = 0.0, rng: Any = None
    ) -> tuple[Array, FeedForwardCache]:
        return feed_forward(p, x, rate=rate, rng=rng)

    def backward(self, p: Any, dy: Array, cache: FeedForwardCache) -> tuple[Array, dict[str, Any]]:
        return feed_forward_backward(p, dy, cache)
