"""Embedding: row `id` of a table, for every id."""

from typing import Any, NamedTuple

from ..backend import get_xp
from .shapes import expect, rows


class Rows(NamedTuple):
    """A gradient that is zero but in a few rows of its table: `values[i]` belongs to row `ids[i]`; ids are unique."""

    ids: Any       # (u,)
    values: Any    # (u, d)


def embedding(ids, E):
    """y = E[ids]. Shapes: ids (...) of any integer dtype, E (V, d) -> y (..., d).

    Raises IndexError for an id outside the table, TypeError for ids that are no integers.
    """
    expect("#... vd", ids=ids, E=E)
    return get_xp(ids, E).take(E, ids, axis=0)


def embedding_backward(dy, ids, E):
    """dE (V, d): row v is the sum of dy over every place where id v was read; rows never read are 0.

    Assigning, or adding in one indexed `+=`, would keep only one of several readings of an id.
    """
    expect("...d #... vd", dy=dy, ids=ids, E=E)
    dE = get_xp(dy, ids, E).zeros_like(E)
    where, values = sum_rows(ids, dy)
    dE[where] = values
    return dE


def sum_rows(ids, values):
    """Add up the rows that share an id. Shapes: ids (...), values (..., d) -> Rows of the distinct ids.

    In rounds: round r adds the r-th occurrence of every id that has one. Within a round no id repeats, so
    each is one indexed addition, several times as fast as `add.at`. Ids are sorted by how often they occur,
    so that those still present in round r are the first ones.
    """
    expect("#... ...d", ids=ids, values=values)
    xp = get_xp(ids, values)
    ids, values = ids.reshape(-1), rows(values)
    order = xp.argsort(ids, kind="stable")              # places of the same id stand together
    unique, first, count = xp.unique(ids[order], return_index=True, return_counts=True)
    often = xp.argsort(-count, kind="stable")
    unique, first, count = unique[often], first[often], count[often]
    total = values[order[first]]
    present = len(unique) - xp.searchsorted(count[::-1], xp.arange(1, _largest(count)), side="right")
    for r, u in enumerate(present.tolist(), start=1):   # u ids occur more than r times
        total[:u] += values[order[first[:u] + r]]
    return Rows(unique, total)


def _largest(count):
    return int(count[0]) if len(count) else 0
