"""Learned positions: one embedding per slot, added to the token (Kang & McAuley 2018, section III-A)."""

from dataclasses import dataclass

import numpy as np

from ...backend import Array, get_xp, is_numpy
from ...forms import replaceable
from ...ops import embedding, embedding_backward
from ..dense import glorot
from .position import Position


@dataclass(frozen=True)
class Learned(Position):
    """y = x + P[slots], with P (maxlen, D). On the host a slot beyond the table raises IndexError."""

    name = "learned"

    def init(self, rng: np.random.Generator, maxlen: int, dim: int) -> np.ndarray:
        return glorot(rng, maxlen, dim)

    def add(self, p: Array, x: Array, slots: Array) -> Array:
        if is_numpy(get_xp(slots)) and slots.size and slots.max() >= len(p):
            raise IndexError(f"slot {slots.max()} is beyond the table of learned positions: it has 0 to {len(p) - 1}")
        y = embedding(slots, p)
        y += x                                      # in place: y was made above
        return y

    @replaceable
    def add_backward(self, p: Array, dy: Array, slots: Array) -> Array:
        return embedding_backward(dy, slots, p)
