"""A gated recurrent unit as a mixer: a token takes from those before it through a state (Cho et al. 2014)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array
from ...ops import Mask, as_mask, gru, gru_backward
from .mixer import Mixer


class GRUCache(NamedTuple):
    x: Array
    h: Array
    gates: Array
    recalled: Array


@dataclass(frozen=True)
class GRU(Mixer):
    """y = the states of `gru`, as wide as the tokens. Causal by its nature: no other mask makes sense."""

    name = "gru"

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        """Uniform in ±1/√dim, biases 0, for the gates r, z and n side by side: W and U (dim, 3 dim), b and c."""
        limit = 1 / math.sqrt(dim)
        W, U = (rng.uniform(-limit, limit, size=(dim, 3 * dim)) for _ in range(2))
        return {"W": W, "U": U, "b": np.zeros(3 * dim), "c": np.zeros(3 * dim)}

    def forward(
        self,
        p: Any,
        x: Array,
        memory: Array | None = None,
        *,
        mask: Mask | Array | None = None,
        slots: Array | None = None,
        rate: float = 0.0,
        rng: Any = None,
    ) -> tuple[Array, GRUCache]:
        if memory is not None:
            raise ValueError("mixer gru has no queries that could read a memory of other tokens")
        if not as_mask(mask).only_causal:
            raise ValueError("mixer gru goes from the first token to the last: the only mask that it takes is causal")
        h, gates, recalled = gru(x, p["W"], p["U"], p["b"], p["c"])
        return h, GRUCache(x, h, gates, recalled)

    def extend(self, p: Any, x: Array, memory: Array | None, past: Array | None) -> tuple[Array, Array]:
        """What is kept is the state, (B, D), however many tokens there were."""
        h, _, _ = gru(x, p["W"], p["U"], p["b"], p["c"], past)
        return h, h[..., -1, :]

    def backward(self, p: Any, dy: Array, cache: GRUCache) -> tuple[Array, None, dict[str, Any]]:
        x, h, gates, recalled = cache
        dx, dW, dU, db, dc, _ = gru_backward(dy, x, p["W"], p["U"], h, gates, recalled)
        return dx, None, {"W": dW, "U": dU, "b": db, "c": dc}
