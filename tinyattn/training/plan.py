"""Cut a batch into slices of about equal work, each as wide as its own longest history."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..data import Batch

SLICE_TOKENS = 1600      # so that a slice's activations stay in a core's cache
SLICE_COST = 250         # one more slice takes as long as computing so many positions of padding


def cut(lengths: np.ndarray, tokens: int = SLICE_TOKENS) -> list[np.ndarray]:
    """Row numbers, longest first, in the fewest slices of equally many tokens, about `tokens` or fewer each.

    A slice is as wide as its longest row. It is cut again, at the place that saves most padding, as long as a cut saves
    more than SLICE_COST.
    """
    order = np.argsort(-lengths, kind="stable")
    lengths = lengths[order]
    before = np.cumsum(lengths) - lengths                            # tokens ahead of each row
    total = int(np.sum(lengths))
    pieces = before * -(-total // tokens) // total                   # which slice a row begins in
    begins = [0, *(np.flatnonzero(np.diff(pieces)) + 1).tolist(), len(lengths)]
    found = []
    todo = list(pairwise(begins))[::-1]
    while todo:
        begin, end = todo.pop()
        saved = (lengths[begin] - lengths[begin + 1 : end]) * np.arange(end - begin - 1, 0, -1)
        if len(saved) and np.max(saved) > SLICE_COST:
            at = begin + 1 + int(np.argmax(saved))
            todo += [(at, end), (begin, at)]
        else:
            found.append(order[begin:end])
    return found


def plan(batch: Batch, tokens: int = SLICE_TOKENS) -> list[Batch]:
    """The rows of a right-padded batch in slices, each padded only to its own longest history.

    After sorting by length there is hardly any padding to compute. The plan depends on the batch alone, so the sum
    over slices, taken in this order, has the same bits with any number of workers.
    """
    lengths = np.sum(batch.ids != 0, axis=1)
    return [_take(batch, rows, int(lengths[rows[0]])) for rows in cut(lengths, tokens)]


def _take(batch: Batch, rows: np.ndarray, width: int) -> Batch:
    return batch.map(lambda x: x[rows] if x.ndim == 1 else x[rows, :width])
