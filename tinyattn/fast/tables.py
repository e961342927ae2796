"""Gradients of tables, for batches that read few rows, or rows in order."""

from itertools import pairwise
from typing import Any

from ..backend import Array, get_xp, is_numpy
from ..ops import sum_rows

__all__ = ["learned_backward", "sum_by_slot", "sum_rows"]


def learned_backward(position: Any, p: Array, dy: Array, slots: Array) -> Array:
    """`Learned.add_backward`."""
    return sum_by_slot(slots, dy, p)


def sum_by_slot(slots: Array, dx: Array, E: Array) -> Array:
    """`sum_rows` for positions, whose slots ascend by one: (B, L), (B, L, D), (maxlen, D) -> (maxlen, D).

    Histories of equal length have the same slots, and are neighbours in a sorted slice, so one sum adds their rows.
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
