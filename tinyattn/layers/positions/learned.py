"""Learned positions: one embedding a slot, added to the token (Kang & McAuley 2018, section III-A)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...backend import Array, get_xp, is_numpy
from ...ops import embedding, sum_rows
from ..dense import glorot
from ..readable import is_readable
from ..rows import table_gradient
from .position import Position


@dataclass(frozen=True)
class Learned(Position):
    """y = x + P[slots], with P (maxlen, D). A slot beyond the table is an IndexError; on a device nobody looks."""

    name = "learned"

    def init(self, rng: np.random.Generator, maxlen: int, dim: int) -> np.ndarray:
        return glorot(rng, maxlen, dim)

    def add(self, p: Array, x: Array, slots: Array) -> Array:
        if is_numpy(get_xp(slots)) and slots.size and slots.max() >= len(p):
            raise IndexError(f"slot {slots.max()} is beyond the table of learned positions: it has 0 to {len(p) - 1}")
        y = embedding(slots, p)
        y += x                                      # in place: y is this function's own
        return y

    def add_backward(self, p: Array, dy: Array, slots: Array) -> Array:
        return table_gradient(slots, dy, p) if is_readable() else sum_by_slot(slots, dy, p)


def sum_by_slot(slots: Array, dx: Array, E: Array) -> Array:
    """`sum_rows` for positions, whose slots run on to the last: (B, L), (B, L, D), (maxlen, D) -> (maxlen, D).

    Histories of equal length stand at the same slots, so neighbours of equal length, as in a slice, are added as one.
    """
    xp = get_xp(slots, dx, E)
    if not is_numpy(xp):
        return sum_rows(slots, dx, E)
    dE, first = xp.zeros_like(E), slots[:, 0]
    changes = (xp.flatnonzero(first[1:] != first[:-1]) + 1).tolist()
    for begin, end in pairwise([0, *changes, len(first)]):
        at = int(first[begin])
        real = len(E) - at                                               # the rest is padding: no gradient
        dE[at : at + dx.shape[1]] += xp.sum(dx[begin:end, :real], axis=0)
    return dE
