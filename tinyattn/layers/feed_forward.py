"""The position-wise feed-forward network: the same two-layer network for every token."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..backend import Array
from ..forms import replaceable
from ..ops import (  # noqa: F401  activations are looked up by name
    dropout,
    dropout_backward,
    elu,
    elu_backward,
    gelu,
    gelu_backward,
    relu,
    relu_backward,
    silu,
    silu_backward,
)
from ..options import one_of
from .dense import DenseCache, dense, dense_backward, dense_init
from .dropout_mask import dropout_mask
from .swiglu import SwiGLU


class Activation(NamedTuple):
    """A function of each hidden unit: an op's name and options. A new one is a line in ACTIVATIONS.

    The op is looked up at every call, so that a substitute takes effect.
    """

    op: str
    options: tuple[Any, ...] = ()

    def forward(self, u: Array) -> Array:
        return globals()[self.op](u, *self.options)

    def backward(self, dh: Array, u: Array) -> Array:
        """The gradient of u, from that of the forward's result."""
        return globals()[f"{self.op}_backward"](dh, u, *self.options)


ACTIVATIONS = {
    "relu": Activation("relu"),
    "gelu": Activation("gelu"),
    "gelu-tanh": Activation("gelu", (True,)),        # GPT-2's
    "elu": Activation("elu"),
    "silu": Activation("silu"),
}


def feed_forward_init(rng: np.random.Generator, dim: int, hidden: int) -> dict[str, Any]:
    """Parameters: inner {"W": (dim, hidden), "b": (hidden,)}, outer {"W": (hidden, dim), "b": (dim,)}."""
    return {"inner": dense_init(rng, dim, hidden), "outer": dense_init(rng, hidden, dim)}


class FeedForwardCache(NamedTuple):
    inner: DenseCache
    u: Array              # (..., hidden), before the activation
    activation: str
    keep: Array | None    # (..., hidden)
    rate: float
    outer: DenseCache


@replaceable
def feed_forward(
    p: Any, x: Array, *, activation: str = "relu", rate: float = 0.0, rng: Any = None
) -> tuple[Array, FeedForwardCache]:
    """y = dropout(f(x W1 + b1)) W2 + b2, with f = relu or another of ACTIVATIONS (Vaswani et al. 2017, section 3.3).

    Shapes: x (..., dim) -> y (..., dim), cache.
    """
    f = ACTIVATIONS[activation].forward
    u, inner = dense(p["inner"], x)                          # (..., hidden)
    keep = dropout_mask(x, u.shape, rate, rng)
    y, outer = dense(p["outer"], dropout(f(u), keep, rate))
    return y, FeedForwardCache(inner, u, activation, keep, rate, outer)


def feed_forward_backward(p: Any, dy: Array, cache: Any) -> tuple[Array, dict[str, Any]]:
    """-> dx (..., dim), grads shaped like p."""
    if hasattr(cache, "backward"):                           # of the faster form
        return cache.backward(p, dy)
    f_backward = ACTIVATIONS[cache.activation].backward
    dh, outer = dense_backward(p["outer"], dy, cache.outer)  # y = h W2 + b2
    du = f_backward(dropout_backward(dh, cache.keep, cache.rate), cache.u)
    dx, inner = dense_backward(p["inner"], du, cache.inner)  # u = x W1 + b1
    return dx, {"inner": inner, "outer": outer}


class PositionWise(Protocol):
    """What a block needs of a feed-forward network."""

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        """Parameters for tokens of this width."""

    def forward(self, p: Any, x: Array, *, rate: float = 0.0, rng: Any = None) -> tuple[Array, Any]:
        """-> y, cache; `rate` and `rng` are for dropout of the hidden units. Shapes: x (..., dim) -> y (..., dim)."""

    def backward(self, p: Any, dy: Array, cache: Any) -> tuple[Array, dict[str, Any]]:
        """-> dx (..., dim), grads shaped like p."""


@dataclass(frozen=True)
class FeedForward:
    """`feed_forward` as a part of a block. With `hidden` None it is as wide as the tokens.

    Raises ValueError for an activation that is not in ACTIVATIONS.
    """

    hidden: int | None = None
    activation: str = "relu"

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation is {self.activation!r}, expected {one_of(ACTIVATIONS, self.activation)}")

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        """Parameters: inner {"W": (dim, hidden), "b": (hidden,)} and outer, back to dim."""
        return feed_forward_init(rng, dim, self.hidden or dim)

    def forward(self, p: Any, x: Array, *, rate: float = 0.0, rng: Any = None) -> tuple[Array, FeedForwardCache]:
        """As `feed_forward`. Shapes: x (..., dim) -> y (..., dim), cache."""
        return feed_forward(p, x, activation=self.activation, rate=rate, rng=rng)

    def backward(self, p: Any, dy: Array, cache: FeedForwardCache) -> tuple[Array, dict[str, Any]]:
        """-> dx (..., dim), grads shaped like p."""
        return feed_forward_backward(p, dy, cache)


FEED_FORWARDS: dict[str, Callable[..., PositionWise]] = {      # each takes `hidden`, the inner width
    **{name: partial(FeedForward, activation=name) for name in ACTIVATIONS},
    "swiglu": SwiGLU,
}
