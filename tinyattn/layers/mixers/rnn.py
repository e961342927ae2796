"""A simple recurrent network as a mixer (Elman 1990)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array
from ...ops import rnn, rnn_backward
from .recurrent import Recurrent, uniform


class RNNCache(NamedTuple):
    x: Array
    h: Array


@dataclass(frozen=True)
class RNN(Recurrent):
    """y = the states of `rnn`, as wide as the tokens."""

    name = "rnn"

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        """W and U (dim, dim) uniform in ±1/√dim, b 0."""
        return {"W": uniform(rng, dim, dim), "U": uniform(rng, dim, dim), "b": np.zeros(dim)}

    def run(self, p: Any, x: Array) -> tuple[Array, RNNCache]:
        h = rnn(x, p["W"], p["U"], p["b"])
        return h, RNNCache(x, h)

    def run_backward(self, p: Any, dy: Array, cache: RNNCache) -> tuple[Array, dict[str, Any]]:
        dx, dW, dU, db, _ = rnn_backward(dy, cache.x, p["W"], p["U"], cache.h)
        return dx, {"W": dW, "U": dU, "b": db}

    def extend(self, p: Any, x: Array, memory: Array | None, past: Array | None) -> tuple[Array, Array]:
        """The cache is the state, (B, D)."""
        h = rnn(x, p["W"], p["U"], p["b"], past)
        return h, h[..., -1, :].copy()
