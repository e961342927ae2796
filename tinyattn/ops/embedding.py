"""Embedding: row `id` of a table, for every id."""

from typing import Any

from ..backend import Array, get_xp, is_numpy
from ..tree import Rows
from .shapes import column_sum, expect, rows


def embedding(ids: Array, E: Array) -> Array:
    """y = E[ids]. Shapes: ids (...) of any integer dtype, E (V, d) -> y (..., d).

    Ids must be 0..V-1. This is checked where batches are made, not here: NumPy refuses an id beyond the table, but
    counts negative ones from its end.
    Raises IndexError for an id beyond the table, TypeError for ids that are no integers.
    """
    expect("#... vd", ids=ids, E=E)
    return get_xp(E).take(E, ids, axis=0)


def embedding_backward(dy: Array, ids: Array, E: Array) -> Array:
    """Row v of dE is the sum of dy over every place where id v was read; rows never read are 0.

    Assigning, or one indexed `+=`, would keep only one of the gradients of an id that was read several times.
    Shapes: dy (..., d), ids (...), E (V, d) -> dE (V, d).
    """
    expect("...d #... vd", dy=dy, ids=ids, E=E)
    summed = sum_rows(ids, dy, E)
    if not isinstance(summed, Rows):
        return summed
    dE = get_xp(E).zeros_like(E)
    dE[summed.ids] = summed.values
    return dE


def sum_rows(ids: Array, values: Array, E: Array) -> Rows | Array:
    """The gradient of table E, where row `ids[i]` was read and `values[i]` came back: rows that share an id add up.

    Shapes: ids (...), values (..., d), E (V, d) -> on the host `Rows`, the ids that were read and the sum of each; on a
    device the whole dE (V, d), since Python would have to wait for the device to learn how many ids there are.
    The host repeats a sum to the bit. A device adds in an order that differs from run to run; it does so in float64,
    and little of the difference is left in float32.
    """
    expect("#... ...d vd", ids=ids, values=values, E=E)
    xp = get_xp(E)
    if is_numpy(xp):
        return _by_rounds(ids.reshape(-1), rows(values), len(E), xp)
    dE = xp.zeros(E.shape, dtype=xp.float64)
    xp.add.at(dE, ids.reshape(-1), rows(values))
    return dE.astype(E.dtype, copy=False)


def _by_rounds(ids: Array, values: Array, height: int, xp: Any) -> Rows:
    """What `sum_rows` does on the host, for a table of `height` rows. Shapes: ids (N,), values (N, d) -> Rows.

    Sorting brings equal ids together, a run for each id. Runs are then ordered by length, the longest first.
    A run of more than 16 rows is summed at once, as a product with ones. All shorter runs are summed side by side, in
    rounds: round r adds the r-th row of every run that is long enough. Those runs are the first ones, and no two have
    the same id, so one `+=` loses nothing.
    """
    if not len(ids):
        return Rows(ids, values)
    if xp.min(ids) < 0:                                                  # they count from the end, as in the forward
        ids = ids.astype(xp.int64) % height
    small = ids.astype(xp.uint16) if height <= 1 << 16 else ids          # 16 bits are sorted by radix
    order = xp.argsort(small, kind="stable")
    ids = xp.take(ids, order)
    first = xp.flatnonzero(xp.concatenate([xp.ones(1, dtype=bool), ids[1:] != ids[:-1]]))
    length = xp.append(first[1:], len(ids)) - first
    count = xp.minimum(length, 255)                                      # only orders the runs; 8 bits sort fastest
    longest_first = xp.argsort((255 - count).astype(xp.uint8), kind="stable")
    first, count, length = (xp.take(x, longest_first) for x in (first, count, length))
    total = xp.take(values, xp.take(order, first), axis=0)               # (u, d): the first of each run
    more_than = xp.searchsorted(-count, -xp.arange(_SHORT + 1)).tolist()  # entry r: the number of runs of over r rows
    long = more_than[_SHORT]
    for i, (begin, rows_of_it) in enumerate(zip(first[:long].tolist(), length[:long].tolist(), strict=True)):
        total[i] = column_sum(xp.take(values, order[begin : begin + rows_of_it], axis=0))
    for r, up_to in enumerate(more_than[1:_SHORT], start=1):
        if up_to > long:
            total[long:up_to] += xp.take(values, xp.take(order, first[long:up_to] + r), axis=0)
    return Rows(xp.take(ids, first), total)


_SHORT = 16
