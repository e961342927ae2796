"""What recurrent mixers share: a token reads earlier tokens through the state alone."""

import math
from typing import Any

import numpy as np

from ...backend import Array
from ...ops import Mask, as_mask
from .mixer import Mixer


class Recurrent(Mixer):
    """Causal by nature: no other mask makes sense. A subclass has `run` and `run_backward`.

    `forward` raises ValueError for any mask but `Mask(causal=True)`, even None, for a memory, and for a rate above 0.
    """

    def run(self, p: Any, x: Array) -> tuple[Array, Any]:
        """-> y, cache. Shapes: x (B, n, D) -> y (B, n, D)."""
        raise NotImplementedError

    def run_backward(self, p: Any, dy: Array, cache: Any) -> tuple[Array, dict[str, Any]]:
        """-> dx, grads shaped like p."""
        raise NotImplementedError

    def forward(
        self, p: Any, x: Array, memory: Array | None = None, *, mask: Mask | Array | None = None,
        slots: Array | None = None, rate: float = 0.0, rng: Any = None,
    ) -> tuple[Array, Any]:  # fmt: skip
        if memory is not None:
            raise ValueError(f"mixer {self.name} has no queries that could read a memory of other tokens")
        if rate:
            raise ValueError(f"rate is {rate}, expected 0: mixer {self.name} has no weights to drop")
        if not as_mask(mask).only_causal:
            raise ValueError(
                f"mixer {self.name} goes from the first token to the last: the only mask that it takes is causal"
            )
        return self.run(p, x)

    def backward(self, p: Any, dy: Array, cache: Any) -> tuple[Array, None, dict[str, Any]]:
        dx, grads = self.run_backward(p, dy, cache)
        return dx, None, grads


def uniform(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """(rows, columns) within ±1/√rows, so that a product with it keeps the size of its input."""
    if rows < 1:
        raise ValueError(f"a map of tokens of width {rows}, expected a width of at least 1")
    limit = 1 / math.sqrt(rows)
    return rng.uniform(-limit, limit, size=(rows, columns))
