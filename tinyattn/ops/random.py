"""Randomness by key: every stream is made where it is used, from numbers that say which one it is.

Nothing is shared between threads and nothing needs saving: a run that is stopped and resumed, or worked by
another number of threads, draws the same bits.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What a stream of random numbers is for; the second number of its key."""

    INIT = 0
    SHUFFLE = 1
    NEGATIVES = 2
    DROPOUT = 3
    WORLD = 4
    CANDIDATES = 5


def generator(seed: int, stream: Stream, *counters: int) -> np.random.Generator:
    """The generator of the key (seed, stream, counters...), e.g. `generator(seed, Stream.DROPOUT, step, slice)`."""
    return np.random.Generator(np.random.SFC64([seed, stream, *counters]))


def keep_mask(rng, shape, rate):
    """Shapes: -> a boolean array of `shape`, on the host: each entry True (kept) with probability 1 - rate.

    Drawn from 16-bit integers, a quarter of the random bits that floats would cost; `rate` is met to within
    2⁻¹⁷. Raises ValueError for a rate outside [0, 1).
    """
    if not 0 <= rate < 1:
        raise ValueError(f"keep_mask: rate is {rate}, expected 0 <= rate < 1")
    return rng.integers(0, 1 << 16, size=shape, dtype=np.uint16) >= round(rate * (1 << 16))
