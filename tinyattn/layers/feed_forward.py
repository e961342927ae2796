"""The position-wise feed-forward network: the same two-layer network for every token."""

from typing import Any, NamedTuple

from ..ops import dropout, dropout_backward, relu, relu_backward
from .dense import DenseCache, dense, dense_backward, dense_init
from .drop import draw_keep


def feed_forward_init(rng, dim, hidden):
    """Parameters: inner {"W": (dim, hidden), "b": (hidden,)}, outer {"W": (hidden, dim), "b": (dim,)}."""
    return {"inner": dense_init(rng, dim, hidden), "outer": dense_init(rng, hidden, dim)}


class FeedForwardCache(NamedTuple):
    inner: DenseCache
    u: Any                # (..., hidden), before the ReLU
    keep: Any             # (..., hidden) or None
    rate: float
    outer: DenseCache


def feed_forward(p, x, *, rate=0.0, rng=None):
    """y = dropout(relu(x W1 + b1)) W2 + b2. Shapes: x (..., dim) -> y (..., dim), cache."""
    u, inner = dense(p["inner"], x)                          # (..., hidden)
    keep = draw_keep(x, u.shape, rate, rng)
    y, outer = dense(p["outer"], dropout(relu(u), keep, rate))
    return y, FeedForwardCache(inner, u, keep, rate, outer)


def feed_forward_backward(p, dy, cache):
    """-> dx (..., dim), grads shaped like p."""
    dh, outer = dense_backward(p["outer"], dy, cache.outer)  # y = h W2 + b2
    du = relu_backward(dropout_backward(dh, cache.keep, cache.rate), cache.u)
    dx, inner = dense_backward(p["inner"], du, cache.inner)  # u = x W1 + b1
    return dx, {"inner": inner, "outer": outer}
