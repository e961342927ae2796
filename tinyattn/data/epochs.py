"""The order of training: in an epoch each row comes once, in a random order that depends on the seed and the epoch."""

from __future__ import annotations

import numpy as np

from ..random import Stream, generator


def steps_of(n: int, batch_size: int) -> int:
    """Batches an epoch of n rows: sizes differ by at most one, and are at least `batch_size`, unless n is smaller."""
    return max(1, n // batch_size)


def rows_of_step(rows: int | np.ndarray, steps: int, seed: int, step: int) -> np.ndarray:
    """The rows of the batch of `step`, counted through all epochs of `steps`; an int `rows` is 0 to rows - 1."""
    epoch, part = divmod(step, steps)
    return np.array_split(generator(seed, Stream.SHUFFLE, epoch).permutation(rows), steps)[part]
