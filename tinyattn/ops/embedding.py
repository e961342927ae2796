"""Embedding: row `id` of a table, for every id."""

from typing import Any, NamedTuple

from ..backend import get_xp
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
    dE = get_xp(dy, ids, E).zeros_like(E)
    where, values = sum_rows(ids, dy)
    dE[where] = values
    return dE


def sum_rows(ids, values):
    """Add up the rows that share an id. Shapes: ids (...), values (..., d) -> Rows, distinct ids ascending.

    After sorting, the occurrences of an id stand together, as a run. Short runs are added in rounds: round r
    adds the r-th row of every run that has one, and within a round no id repeats. Long runs are summed one by one.
    """
    expect("#... ...d", ids=ids, values=values)
    xp = get_xp(ids, values)
    ids = ids.reshape(-1)
    order = xp.argsort(ids, kind="stable")
    unique, first, count = xp.unique(xp.take(ids, order), return_index=True, return_counts=True)
    values = xp.take(rows(values), order, axis=0)       # (N, d), runs of equal ids
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
