"""Sinusoidal positions: constants, added to the tokens (Vaswani et al. 2017, section 3.5)."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...backend import Array, get_xp, is_numpy
from ...ops import embedding, sinusoids
from .position import Position


@dataclass(frozen=True)
class Sinusoidal(Position):
    """y = x + PE[slots]: nothing is learned, and any slot has an encoding."""

    name = "sinusoidal"

    def add(self, p: None, x: Array, slots: Array) -> Array:
        if not is_numpy(get_xp(x)) or not slots.size:
            return x + sinusoids(slots, x.shape[-1], x.dtype)
        rows = 1 << int(slots.max()).bit_length()               # a power of 2, so that few tables are made
        y = embedding(slots, _table(get_xp(x), rows, x.shape[-1], x.dtype))
        y += x                                                  # in place: y was made above
        return y


@lru_cache(8)
def _table(xp: Any, rows: int, dim: int, dtype: Any) -> Array:
    return sinusoids(xp.arange(rows), dim, dtype)               # only ever read
