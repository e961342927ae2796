"""Long short-term memory as a mixer (Hochreiter & Schmidhuber 1997)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array
from ...ops import lstm, lstm_backward
from ...options import option
from .recurrent import Recurrent, uniform


class LSTMCache(NamedTuple):
    x: Array
    h: Array
    c: Array
    gates: Array


@dataclass(frozen=True)
class LSTM(Recurrent):
    """y = the states of `lstm`, as wide as the tokens."""

    forget: bool = option(True, "a gate that forgets (Gers et al. 2000); without it, the form of 1997")

    name = "lstm"

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        """Uniform in ±1/√dim, biases 0, but 1 for the forget gate (Jozefowicz et al. 2015): it begins nearly open."""
        columns = (4 if self.forget else 3) * dim
        b = np.zeros(columns)
        if self.forget:
            b[dim : 2 * dim] = 1
        return {"W": uniform(rng, dim, columns), "U": uniform(rng, dim, columns), "b": b}

    def run(self, p: Any, x: Array) -> tuple[Array, LSTMCache]:
        h, c, gates = lstm(x, p["W"], p["U"], p["b"])
        return h, LSTMCache(x, h, c, gates)

    def run_backward(self, p: Any, dy: Array, cache: LSTMCache) -> tuple[Array, dict[str, Any]]:
        x, h, c, gates = cache
        dx, dW, dU, db, _, _ = lstm_backward(dy, x, p["W"], p["U"], h, c, gates)
        return dx, {"W": dW, "U": dU, "b": db}

    def extend(
        self, p: Any, x: Array, memory: Array | None, past: tuple[Array, Array] | None
    ) -> tuple[Array, tuple[Array, Array]]:
        """The cache is the state and the cell, (B, D) each."""
        h, c, _ = lstm(x, p["W"], p["U"], p["b"], *(past or ()))
        return h, (h[..., -1, :].copy(), c[..., -1, :].copy())
