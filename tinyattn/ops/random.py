"""Randomness by key: every stream is made where it is used, from numbers that say which one it is.

Nothing is shared between threads and nothing needs saving: a run that is stopped and resumed, or worked by
another number of threads, draws the same bits. What is small (initial weights, orders, negatives) is drawn on the
host. Masks are large, so they are hashed where they are used: the same bits on every device, and nothing to carry.
"""

from __future__ import annotations

import math
from enum import IntEnum

import numpy as np

from ..backend import get_xp


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


def keep_mask(rng, shape, rate, like=None):
    """Shapes: -> a boolean array of `shape`: each entry True (kept) with probability 1 - rate.

    It is in the module of the array `like`, or on the host. `rng` gives one key of 64 bits; entry i is kept or not
    by a hash of key and i, with the same answer on every device. 16 bits decide an entry, a quarter of what a float
    would cost; `rate` is met to within 2⁻¹⁶. Raises ValueError for a rate outside [0, 1).
    """
    if not 0 <= rate < 1:
        raise ValueError(f"keep_mask: rate is {rate}, expected 0 <= rate < 1")
    xp = np if like is None else get_xp(like)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    key = int(rng.integers(0, 1 << 64, dtype=np.uint64))
    threshold = min(round(rate * (1 << 16)), (1 << 16) - 1)
    return (_bits(key, math.prod(shape), xp) >= threshold).reshape(shape)


def _bits(key, n, xp):
    """n random numbers of 16 bits: SplitMix64 (Steele, Lea & Flood 2014, figure 14), four from each of its outputs.

    Output i is a hash of key + i γ, so all are computed side by side.
    """
    z = xp.arange(1, -(-n // 4) + 1, dtype=xp.uint64)
    z *= 0x9E3779B97F4A7C15                             # γ, the golden ratio's fraction: overflow is meant
    z += key
    z ^= z >> 30
    z *= 0xBF58476D1CE4E5B9
    z ^= z >> 27
    z *= 0x94D049BB133111EB
    z ^= z >> 31
    return z.view(xp.uint16)[:n]
