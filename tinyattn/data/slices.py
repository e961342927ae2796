"""The rows of each batch, in a random order for each epoch, and slices of rows of uneven length."""

from itertools import pairwise

import numpy as np

from ..random import Stream, generator

SLICE_COST = 250         # positions of padding that take as long to compute as one more slice


def steps_of(n: int, batch_size: int) -> int:
    """Batches per epoch of n rows: their sizes differ by at most one and are >= `batch_size`, unless n is smaller."""
    return max(1, n // batch_size)


def rows_of_step(rows: int | np.ndarray, steps: int, seed: int, step: int) -> np.ndarray:
    """The rows of the batch of `step`, counted through all epochs of `steps`; an int `rows` is 0 to rows - 1."""
    epoch, part = divmod(step, steps)
    return np.array_split(generator(seed, Stream.SHUFFLE, epoch).permutation(rows), steps)[part]


def cut(lengths: np.ndarray, tokens: int) -> list[np.ndarray]:
    """Row numbers, longest first, in the fewest slices of equally many tokens, about `tokens` or fewer each.

    A slice is padded to its longest row. It is cut in two where that saves the most padding, as long as it saves more
    than SLICE_COST positions.
    """
    order = np.argsort(-lengths, kind="stable")
    lengths = lengths[order]
    before = np.cumsum(lengths) - lengths                            # tokens ahead of each row
    total = int(np.sum(lengths))
    pieces = before * -(-total // tokens) // total                   # the slice in which a row begins
    begins = [0, *(np.flatnonzero(np.diff(pieces)) + 1).tolist(), len(lengths)]
    slices = []
    todo = list(pairwise(begins))[::-1]
    while todo:
        begin, end = todo.pop()
        saved = (lengths[begin] - lengths[begin + 1 : end]) * np.arange(end - begin - 1, 0, -1)
        if len(saved) and np.max(saved) > SLICE_COST:
            at = begin + 1 + int(np.argmax(saved))
            todo += [(at, end), (begin, at)]
        else:
            slices.append(order[begin:end])
    return slices
