"""Cut rows of uneven length into slices of about equal work, each as wide as its own longest row."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

SLICE_COST = 250         # what one more slice costs, in positions of padding computed for nothing


def cut(lengths: np.ndarray, tokens: int) -> list[np.ndarray]:
    """Row numbers, longest first, in slices of equally many tokens: as few as keep to about `tokens` each.

    A slice is as wide as its longest row, so it is cut once more, where that saves most padding, as long as it saves
    more than a slice costs.
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
