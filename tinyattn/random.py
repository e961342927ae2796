"""Randomness by key: every stream is made where it is used, from numbers that say which one it is.

Nothing is shared between threads and nothing needs saving: a run that is stopped and resumed, or worked by
another number of threads, draws the same bits. What is small (initial weights, orders, negatives) is drawn on the
host. Masks are large, so they are hashed where they are used: the same bits on every device, and nothing to carry.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from .backend import get_xp


class Stream(IntEnum):
    """What a stream of random numbers is for; the second number of its key."""

    INIT = 0
    SHUFFLE = 1
    NEGATIVES = 2
    DROPOUT = 3
    WORLD = 4
    CANDIDATES = 5


def generator(seed: int, stream: Stream, *counters: int) -> np.random.Generator:
    """The generator of the key (seed, stream, counters...), e.g. `generator(seed, Stream.DROPOUT, step)`."""
    return np.random.Generator(np.random.SFC64([seed, stream, *counters]))


class MaskKeys(NamedTuple):
    """A source of masks for the rows of a slice. Shapes: rows (B,).

    What a row gets depends on who it is, not on where it stands.

    So a batch is given the same masks however it is cut, and by whichever device.
    """

    rng: np.random.Generator      # gives each mask its key
    rows: Any                     # (B,) integers, one of its own for each row of the batch


def keep_mask(rng, shape, rate, like=None):
    """Shapes: -> a boolean array of `shape`: each entry True (kept) with probability 1 - rate.

    `rng`, a generator or `MaskKeys`, gives one key of 64 bits. An entry is kept or not by a hash of that key, of its
    row (the first axis), and of where it stands in it, so the answer is the same on every device; the mask is made in
    the module of the array `like`, or on the host. 16 bits decide an entry, a quarter of what a float would cost;
    `rate` is met to within 2⁻¹⁶. Raises ValueError for a rate outside [0, 1).
    """
    if not 0 <= rate < 1:
        raise ValueError(f"keep_mask: rate is {rate}, expected 0 <= rate < 1")
    xp = np if like is None else get_xp(like)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    rng, rows = rng if isinstance(rng, MaskKeys) else (rng, None)
    key = int(rng.integers(0, 1 << 64, dtype=np.uint64))
    threshold = min(round(rate * (1 << 16)), (1 << 16) - 1)
    # The features of a row's tokens are counted through, on to the next token: the same numbers in a shorter slice.
    *lead, last = (shape[0], shape[1] * shape[2]) if len(shape) == 3 else shape or (1,)
    number = xp.arange(1, -(-last // 4) + 1, dtype=xp.uint64)      # four entries share a hash of 64 bits
    number *= _ODD[0]
    number += key                                                  # overflow is meant, here and below
    for axis, size in enumerate(lead):
        place = xp.arange(size, dtype=xp.uint64) if axis or rows is None else rows.astype(xp.uint64)
        place *= _ODD[1 + axis % 3]
        number = number + place.reshape(size, *(1,) * (len(lead) - axis))
    kept = _mixed(number).view(xp.uint16)[..., :last] >= threshold
    return kept.reshape(shape)


# One odd multiplier an axis, so that no two places have the same number; the first is the golden ratio's fraction.
_ODD = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 0xABC98388FB8FAC03, 0x8CB92BA72F3D8DD7)


def _mixed(z):
    """The finishing steps of SplitMix64 (Steele, Lea & Flood 2014): numbers in a row become random bits. In place."""
    z ^= z >> 30
    z *= 0xBF58476D1CE4E5B9
    z ^= z >> 27
    z *= 0x94D049BB133111EB
    z ^= z >> 31
    return z
