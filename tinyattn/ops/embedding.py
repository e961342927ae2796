"""Embedding: row `id` of a table, for every id."""

from ..backend import get_xp, on_host
from ..tree import Rows
from .shapes import column_sum, expect, rows


def embedding(ids, E):
    """y = E[ids]. Shapes: ids (...) of any integer dtype, E (V, d) -> y (..., d).

    Ids are 0..V-1, which is checked where batches are made, not here: NumPy refuses an id beyond the table, but counts
    negative ones from its end.
    Raises IndexError for an id beyond the table, TypeError for ids that are no integers.
    """
    expect("#... vd", ids=ids, E=E)
    return get_xp(ids, E).take(E, ids, axis=0)


def embedding_backward(dy, ids, E):
    """Row v of dE is the sum of dy over every place where id v was read; rows never read are 0.

    Assigning, or adding in one indexed `+=`, would keep only one of several readings of an id.
    Shapes: dy (..., d), ids (...), E (V, d) -> dE (V, d).
    """
    expect("...d #... vd", dy=dy, ids=ids, E=E)
    total = sum_rows(ids, dy, E)
    if not isinstance(total, Rows):
        return total
    dE = get_xp(dy, ids, E).zeros_like(E)
    dE[total.ids] = total.values
    return dE


def sum_rows(ids, values, E):
    """The gradient of table E, where row `ids[i]` was read and `values[i]` came back: rows that share an id add up.

    Shapes: ids (...), values (..., d), E (V, d) -> `Rows` on the host; on a device all of dE, (V, d), since how many
    rows there are is known there only after waiting for it. A device adds in any order: in float64, so that the order
    is hardly seen in float32, though only the host repeats a sum to the bit by design.
    """
    expect("#... ...d vd", ids=ids, values=values, E=E)
    xp = get_xp(ids, values, E)
    if on_host(xp):
        return _by_rounds(ids.reshape(-1), rows(values), len(E), xp)
    dE = xp.zeros(E.shape, dtype=xp.float64)
    xp.add.at(dE, ids.reshape(-1), rows(values))
    return dE.astype(E.dtype, copy=False)


def _by_rounds(ids, values, height, xp):
    """(N,), (N, d), rows of the table -> Rows. After sorting, the occurrences of an id stand together, as a run.

    Runs are put in order, longest first. Long ones are summed one by one, as products with ones. Short ones are added
    in rounds: round r adds the r-th row of every run that has one. Those are the first so many, no two of one id.
    """
    if not len(ids):
        return Rows(ids, values)
    small = ids.astype(xp.uint16) if height <= 1 << 16 else ids          # 16 bits are sorted by radix
    order = xp.argsort(small, kind="stable")
    ids = xp.take(ids, order)
    first = xp.flatnonzero(xp.concatenate([xp.ones(1, dtype=bool), ids[1:] != ids[:-1]]))
    length = xp.append(first[1:], len(ids)) - first
    count = xp.minimum(length, 255)                                      # for the order; 8 bits sort fastest
    longest_first = xp.argsort((255 - count).astype(xp.uint8), kind="stable")
    first, count, length = (xp.take(x, longest_first) for x in (first, count, length))
    total = xp.take(values, xp.take(order, first), axis=0)               # (u, d): the first of each run
    more_than = xp.searchsorted(-count, -xp.arange(_SHORT + 1)).tolist()  # so many runs have more than 0, 1, .. rows
    long = more_than[_SHORT]
    for i, (begin, rows_of_it) in enumerate(zip(first[:long].tolist(), length[:long].tolist(), strict=True)):
        total[i] = column_sum(xp.take(values, order[begin : begin + rows_of_it], axis=0))
    for r, up_to in enumerate(more_than[1:_SHORT], start=1):
        if up_to > long:
            total[long:up_to] += xp.take(values, xp.take(order, first[long:up_to] + r), axis=0)
    return Rows(xp.take(ids, first), total)


_SHORT = 16
