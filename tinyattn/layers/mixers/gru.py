"""A gated recurrent unit as a mixer (Cho et al. 2014)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array
from ...ops import gru, gru_backward
from .recurrent import Recurrent, uniform


class GRUCache(NamedTuple):
    x: Array
    h: Array
    gates: Array
    recalled: Array


@dataclass(frozen=True)
class GRU(Recurrent):
    """y = the states of `gru`, as wide as the tokens."""

    name = "gru"

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        """Uniform in ±1/√dim, biases 0, for the gates r, z and n side by side: W and U (dim, 3 dim), b and c."""
        W, U = (uniform(rng, dim, 3 * dim) for _ in range(2))
        return {"W": W, "U": U, "b": np.zeros(3 * dim), "c": np.zeros(3 * dim)}

    def run(self, p: Any, x: Array) -> tuple[Array, GRUCache]:
        h, gates, recalled = gru(x, p["W"], p["U"], p["b"], p["c"])
        return h, GRUCache(x, h, gates, recalled)

    def run_backward(self, p: Any, dy: Array, cache: GRUCache) -> tuple[Array, dict[str, Any]]:
        x, h, gates, recalled = cache
        dx, dW, dU, db, dc, _ = gru_backward(dy, x, p["W"], p["U"], h, gates, recalled)
        return dx, {"W": dW, "U": dU, "b": db, "c": dc}

    def extend(self, p: Any, x: Array, memory: Array | None, past: Array | None) -> tuple[Array, Array]:
        """The cache is the state, (B, D), for any number of tokens."""
        h, _, _ = gru(x, p["W"], p["U"], p["b"], p["c"], past)
        return h, h[..., -1, :].copy()
