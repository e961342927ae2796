"""The interactions of a file as columns, before they are ordered by user and time."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .fields import Column, Times

Ids = tuple[np.ndarray, np.ndarray]      # the distinct ids, sorted, and each row's index into them


class Table(NamedTuple):
    """The interactions of a file, one a row; `times` is None where the file's order is the order in time."""

    users: Ids
    items: Ids
    times: np.ndarray | None
    ratings: np.ndarray | None = None            # None also where they were not requested
    labels: Ids | None = None                    # of one more column, where it was requested

    @classmethod
    def of(cls, columns: dict[str, Column]) -> "Table":
        times, ratings = (columns[name].values() if name in columns else None for name in ("time", "rating"))
        ratings = None if ratings is None else ratings.astype(np.float64)
        labels = columns["label"].ids() if "label" in columns else None
        return cls(columns["user"].ids(), columns["item"].ids(), times, ratings, labels)

    def rows(self, keep: np.ndarray) -> "Table":
        """The rows where `keep` (N,) is true, with the ids that are left."""
        return Table(*(None if part is None else _ids_of(*part, keep) if isinstance(part, tuple) else part[keep]
                       for part in self))  # type: ignore[arg-type]  # fmt: skip


def new_columns(names: Iterable[str], label: str = "") -> dict[str, Column]:
    """An empty column for each of user, item, time, rating and label that is named."""
    kinds = {"user": Column("user"), "item": Column("item"), "time": Times(), "rating": Column("rating", True),
             "label": Column(label, optional=True)}  # fmt: skip
    return {name: kinds[name] for name in names}


def _ids_of(ids: np.ndarray, row: np.ndarray, keep: np.ndarray) -> Ids:
    left, row = np.unique(row[keep], return_inverse=True)
    return ids[left], row.astype(np.int32)
