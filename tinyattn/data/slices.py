"""Cut rows of uneven length into slices of about equal work, each as wide as its own longest row."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

SLICE_COST = 250         # one more slice takes as long as computing so many positions of padding


def cut(lengths: np.ndarray, tokens: int) -> list[np.ndarray]:
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
