"""Cut a batch into slices of about equal work, each as wide as its own longest history."""

from __future__ import annotations

import numpy as np

from ..data import Batch

SLICE_TOKENS = 1600      # few enough for a slice's activations to stay in a core's cache


def cut(lengths: np.ndarray, tokens: int = SLICE_TOKENS) -> list[np.ndarray]:
    """Row numbers, longest first, in slices of equally many tokens: as few as keep to about `tokens` each."""
    order = np.argsort(-lengths, kind="stable")
    before = np.cumsum(lengths[order]) - lengths[order]              # tokens ahead of each row
    total = int(np.sum(lengths))
    pieces = before * -(-total // tokens) // total                   # which slice a row begins in
    return np.split(order, np.flatnonzero(np.diff(pieces)) + 1)


def plan(batch: Batch, tokens: int = SLICE_TOKENS) -> list[Batch]:
    """The rows of a right-padded batch in slices, each padded only to its own longest history.

    Sorting by length leaves hardly any padding to compute. The plan depends on the batch alone, not on who
    works it off, so the sum over slices, taken in this order, has the same bits with any number of workers.
    """
    lengths = np.sum(batch.ids != 0, axis=1)
    return [_take(batch, rows, int(lengths[rows[0]])) for rows in cut(lengths, tokens)]


def _take(batch: Batch, rows: np.ndarray, width: int) -> Batch:
    return batch.map(lambda x: x[rows] if x.ndim == 1 else x[rows, :width])
