"""Gradients of tables, for batches that read few rows, or rows in order."""

from itertools import pairwise
from typing import Any

import numpy as np

from .. import ops
from ..backend import Array, get_xp, is_numpy
from ..ops.shapes import rows
from ..tree import Rows
from . import kernels
from .kernels_device import SPAN

MOST_IDS = 1 << 17       # that a kernel sorts: the comparisons grow with their square


def sum_rows(ids: Array, dy: Array, E: Array) -> Rows | Array:
    """`table_gradient`."""
    found = NotImplemented if is_numpy(get_xp(E)) else _by_kernels(ids, dy, E)
    return ops.sum_rows(ids, dy, E) if found is NotImplemented else found


def _by_kernels(ids: Array, values: Array, E: Array) -> Any:
    """`sum_rows`, repeatable to the bit: rows are sorted by their ids, and added in this order."""
    count, d = ids.size, E.shape[-1]
    if not (kernels.in_one_piece(values, E) and 0 < count <= MOST_IDS and values.size == count * d):
        return NotImplemented
    xp, blocks = get_xp(E), -(-count // SPAN)
    dE, room = xp.zeros_like(E), xp.empty(2 * blocks * d + count, dtype=np.float64)
    parts, order = room[: 2 * blocks * d].reshape(blocks, 2, d), room[2 * blocks * d :].view(np.int64)
    ids = ids.reshape(-1)
    kernels.flat("sort", E, count, ids, order)
    kernels.launch("runs", E, blocks, kernels.sides(d)[0], ids, order, rows(values), parts, dE)
    kernels.launch("join", E, blocks, kernels.sides(d)[0], ids, order, parts, dE)
    return dE


def learned_backward(position: Any, p: Array, dy: Array, slots: Array) -> Array:
    """`Learned.add_backward`: `sum_rows` for slots that ascend by one. Shapes: dy (B, L, D), slots (B, L) -> like p.

    Histories of equal length have the same slots, and are neighbours in a sorted slice, so one sum adds their rows.
    """
    xp = get_xp(p, dy, slots)
    if not is_numpy(xp):
        return sum_rows(slots, dy, p)
    dp, first = xp.zeros_like(p), slots[:, 0]
    changes = (xp.flatnonzero(first[1:] != first[:-1]) + 1).tolist()
    for begin, end in pairwise([0, *changes, len(first)]):
        at = int(first[begin])
        real = len(p) - at                                               # the rest is padding: no gradient
        dp[at : at + dy.shape[1]] += xp.sum(dy[begin:end, :real], axis=0)
    return dp
