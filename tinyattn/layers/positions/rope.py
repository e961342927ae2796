"""Rotary positions: queries and keys are rotated by their places (Su et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...backend import Array, get_xp
from ...ops import rotary, rotary_backward, rotary_tables
from ...options import option
from .position import Position


@dataclass(frozen=True)
class RoPE(Position):
    """score_ij = (R_i q_i) · (R_j k_j) / √d.

    Only the distance of two tokens matters, so positions are counted from the first token of each sequence, and one
    table serves all. Heads must have an even width.
    """

    rope_base: float = option(10000.0, "base of the angles, from 1 radian a token down to about 1 / base", above=0)

    name = "rope"

    def refuse_width(self, width: int) -> None:
        if width % 2:
            raise ValueError(f"position rope turns features in pairs: heads of width {width}, expected an even width")

    def enter(self, p: Any, q: Array, k: Array, slots: Array) -> tuple[Array, Array, dict[str, Array], tuple[Any, Any]]:
        of_q, of_k = (_tables(get_xp(x), x.shape[-2], x.shape[-1], x.dtype, self.rope_base) for x in (q, k))
        return rotary(q, *of_q), rotary(k, *of_k), {}, (of_q, of_k)

    def turn(self, p: Any, x: Array, first: int) -> Array:
        """As `rotary`, in few calls: a pair of features is a complex number, and a rotation is a product."""
        xp, stop = get_xp(x), first + x.shape[-2]
        rows = 1 << stop.bit_length()                           # a power of 2, so that few tables are made
        turns = _turns(xp, rows, x.shape[-1], x.dtype, self.rope_base)[first:stop]
        return (xp.ascontiguousarray(x).view(turns.dtype) * turns).view(x.dtype)

    def enter_backward(
        self, p: Any, dq: Array, dk: Array, dterms: dict[str, Array], cache: tuple[Any, Any]
    ) -> tuple[Array, Array, dict[str, Any]]:
        return rotary_backward(dq, *cache[0]), rotary_backward(dk, *cache[1]), {}


@lru_cache(256)
def _tables(xp: Any, n: int, d: int, dtype: Any, base: float) -> tuple[Array, Array]:
    return rotary_tables(xp.arange(n), d, dtype, base)          # only ever read


@lru_cache(256)
def _turns(xp: Any, n: int, d: int, dtype: Any, base: float) -> Array:
    cos, sin = _tables(xp, n, d, dtype, base)
    return cos + 1j * sin                                       # only ever read
