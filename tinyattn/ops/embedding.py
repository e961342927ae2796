"""Embedding: row `id` of a table, for every id."""

from typing import Any, NamedTuple

from ..backend import get_xp, on_host
from .shapes import expect, rows


class Rows(NamedTuple):
    """A gradient that is zero but in a few rows of its table: `values[i]` belongs to row `ids[i]`; ids are unique.

    Shapes: ids (u,), values (u, d).
    """

    ids: Any       # (u,)
    values: Any    # (u, d)


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

    Shapes: ids (...), values (..., d), E (V, d) -> `Rows` on the host, distinct ids ascending; on a device all of dE,
    (V, d), since how many rows there are is known there only after waiting for it. A device adds in any order: in
    float64, so that the order is hardly seen in float32, though only the host repeats a sum to the bit by design.
    """
    expect("#... ...d vd", ids=ids, values=values, E=E)
    xp = get_xp(ids, values, E)
    if on_host(xp):
        return _by_rounds(ids.reshape(-1), rows(values), xp)
    dE = xp.zeros(E.shape, dtype=xp.float64)
    xp.add.at(dE, ids.reshape(-1), rows(values))
    return dE.astype(E.dtype, copy=False)


def _by_rounds(ids, values, xp):
    """(N,), (N, d) -> Rows. After sorting, the occurrences of an id stand together, as a run.

    Short runs are added in rounds: round r adds the r-th row of every run that has one, and within a round no id
    repeats. Long runs are summed one by one.
    """
    order = xp.argsort(ids, kind="stable")
    unique, first, count = xp.unique(xp.take(ids, order), return_index=True, return_counts=True)
    values = xp.take(values, order, axis=0)             # (N, d), runs of equal ids
    total = xp.take(values, first, axis=0)              # (u, d)
    for r in range(1, _SHORT):
        some = xp.flatnonzero((count > r) & (count <= _SHORT))
        total[some] += xp.take(values, first[some] + r, axis=0)
    long = xp.flatnonzero(count > _SHORT)
    if len(long):
        cuts = xp.stack([first[long], first[long] + count[long]], axis=1).reshape(-1)
        cuts = cuts[:-1] if cuts[-1] == len(values) else cuts
        total[long] = xp.add.reduceat(values, cuts, axis=0)[::2]      # every other piece lies between long runs
    return Rows(unique, total)


_SHORT = 8
