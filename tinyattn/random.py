"""Random numbers by key: a seed, a purpose, and counters such as the step.

No generator is shared or saved: a resumed run, or one with a different number of workers, draws the same bits.
Small arrays (initial weights, orders, negatives) are drawn on the host. Masks are large, so the device that uses them
computes them by hashing: the same bits on every device, and no transfer.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from .backend import Array, get_xp


class Stream(IntEnum):
    """The purpose of a stream of random numbers: the second number of its key."""

    INIT = 0
    SHUFFLE = 1
    NEGATIVES = 2
    DROPOUT = 3
    WORLD = 4                # generated interactions
    CANDIDATES = 5
    FEATURES = 6
    BLOCKS = 7               # keys drawn by sparse patterns
    CLOZE = 8
    VALIDATION = 9
    BOOTSTRAP = 10
    RATINGS = 11
    PARTS = 12               # the order that splits data into parts
    TASK = 13
    TEXT = 14
    WINDOWS = 15
    GENERATION = 16
    IMAGES = 17
    MASKING = 18
    PROBE = 19
    TRIAL = 20               # histories that test an ONNX export
    SWEEP = 21               # options of a sweep that are drawn


def generator(seed: int, stream: Stream, *counters: int) -> np.random.Generator:
    """The generator of the key (seed, stream, counters...), e.g. `generator(seed, Stream.DROPOUT, step)`."""
    return np.random.Generator(np.random.SFC64([seed, stream, *counters]))


class MaskKeys(NamedTuple):
    """A source of masks. A row's mask depends on its row number: a batch processed in slices gets the same masks."""

    rng: np.random.Generator | Iterator[Array]      # draws the key of each mask; or gives keys drawn earlier
    rows: Array                   # (B,) integers, distinct within the batch


def keep_mask(
    rng: np.random.Generator | MaskKeys, shape: int | tuple[int, ...], rate: float, like: Array | None = None
) -> Array:
    """Shapes: -> a boolean array of `shape`: each entry True (kept) with probability 1 - rate.

    `rng`, a generator or `MaskKeys`, draws a key of 64 bits. An entry is kept or dropped by 16 bits of a hash of that
    key, its row (the first axis) and its place in the row: the rate is exact to 2⁻¹⁶. The mask is in the module of the
    array `like`, or on the host. Raises ValueError for a rate outside [0, 1).
    """
    threshold = _threshold(rate)
    xp = np if like is None else get_xp(like)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    key, rows = _drawn(rng)
    if len(shape) > len(_AXIS_MULTIPLIERS):
        raise ValueError(f"keep_mask: shape {shape} has {len(shape)} axes, expected at most {len(_AXIS_MULTIPLIERS)}")
    # for (B, n, d), a row's n d entries are numbered consecutively, so cutting off tokens leaves the others' masks
    *lead, last = (shape[0], shape[1] * shape[2]) if len(shape) == 3 else shape or (1,)
    number = xp.arange(1, -(-last // 4) + 1, dtype=xp.uint64)      # four entries share a hash of 64 bits
    number *= _AXIS_MULTIPLIERS[0]
    number += key                                                  # overflow is intended, here and below
    for axis, size in enumerate(lead):
        place = xp.arange(size, dtype=xp.uint64) if axis or rows is None else rows.astype(xp.uint64)
        place *= _AXIS_MULTIPLIERS[1 + axis]
        number = number + place.reshape(size, *(1,) * (len(lead) - axis))
    kept = _mixed(number).view(xp.uint16)[..., :last] >= threshold
    return kept.reshape(shape)


class PairMask(NamedTuple):
    """The mask of `keep_mask(rng, (B, h, n, m), rate)` as one integer, from which any slice is computed when needed."""

    key: int | Array              # of 64 bits
    rate: float
    rows: Array | None = None     # (B,) integers, as in `MaskKeys`; None: 0 to B - 1
    heads: tuple[int, int] = (0, 1)     # (first, step): the heads are first, first + step, ...

    def tile(
        self, lead: tuple[int, ...], queries: slice, keys: slice, like: Array, at: tuple[int, ...] | None = None
    ) -> Array:
        """The mask for these queries and keys. `lead` is q's leading axes, () or (h,) or (B, h).

        Shapes: -> (*lead, queries, keys). With `at`, an index into `lead`: (queries, keys) of that sequence and head.
        The slices have a start and a stop. Raises ValueError for more than two leading axes.
        """
        xp, first = get_xp(like), keys.start // 4
        number = self._of_queries(lead, xp.arange(queries.start, queries.stop, dtype=xp.uint64), like, at)
        group_numbers = xp.arange(first + 1, -(-keys.stop // 4) + 1, dtype=xp.uint64)     # 4 keys share a hash
        group_numbers *= _AXIS_MULTIPLIERS[0]
        kept = _mixed(number[..., None] + group_numbers).view(xp.uint16) >= _threshold(self.rate)
        return kept[..., keys.start - 4 * first : keys.stop - 4 * first]

    def pairs(self, lead: tuple[int, ...], queries: Array, keys: Array, like: Array) -> Array:
        """The mask for any pairs. Shapes: queries (..., a), keys (..., b), integers -> (*lead, ..., a, b)."""
        xp = get_xp(like)
        number = self._of_queries(lead, queries.astype(xp.uint64), like)[..., None]
        keys = keys.astype(xp.uint64)[..., None, :]
        bits = _mixed(number + (keys // 4 + 1) * _AXIS_MULTIPLIERS[0]) >> (keys % 4 * 16)
        return (bits & 0xFFFF) >= _threshold(self.rate)

    def _of_queries(
        self, lead: tuple[int, ...], queries: Array, like: Array, at: tuple[int, ...] | None = None
    ) -> Array:
        """The hash input of a pair without the key position's term. Shapes: (..., a) -> (*lead, ..., a)."""
        if len(lead) > 2:
            raise ValueError(f"a PairMask has an axis for sequences and one for heads; the leading axes are {lead}")
        xp, (sequences, heads) = get_xp(like), (1,) * (2 - len(lead)) + tuple(lead)
        rows = xp.arange(sequences) if self.rows is None else xp.asarray(self.rows)
        if len(rows) != sequences:
            raise ValueError(f"a PairMask has rows of {len(rows)} sequences; there are {sequences}")
        ones, (first, step) = (1,) * queries.ndim, self.heads
        head = xp.arange(first, first + step * heads, step, dtype=xp.uint64)
        if at is not None:
            row, one = (0,) * (2 - len(at)) + tuple(at)
            rows, head, lead = rows[row : row + 1], head[one : one + 1], ()
        number = queries * _AXIS_MULTIPLIERS[3] + self.key
        number = number + head.reshape(-1, *ones) * _AXIS_MULTIPLIERS[2]
        number = number + rows.astype(xp.uint64).reshape(-1, 1, *ones) * _AXIS_MULTIPLIERS[1]
        return number.reshape(*lead, *queries.shape)


def pair_mask(rng: np.random.Generator | MaskKeys, rate: float) -> PairMask:
    """The `PairMask` whose integer comes from `rng`. Raises ValueError for a rate outside [0, 1)."""
    _threshold(rate)
    key, rows = _drawn(rng)
    return PairMask(key, rate, rows)


def _drawn(rng: np.random.Generator | MaskKeys) -> tuple[int | Array, Array | None]:
    """The key of a mask, and its row numbers."""
    source, rows = rng if isinstance(rng, MaskKeys) else (rng, None)
    if not isinstance(source, np.random.Generator):
        return next(source), rows
    return int(source.integers(0, 1 << 64, dtype=np.uint64)), rows


def _threshold(rate: float) -> int:
    """Entries whose 16 bits are below this are dropped."""
    if not 0 <= rate < 1:
        raise ValueError(f"dropout: rate is {rate}, expected 0 <= rate < 1")
    return min(round(rate * (1 << 16)), (1 << 16) - 1)


# An odd multiplier for each axis. The sum of indices times multipliers, mod 2⁶⁴, numbers each place, and two places
# almost never share a number. The first is 2⁶⁴ over the golden ratio.
_AXIS_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 0xABC98388FB8FAC03, 0x8CB92BA72F3D8DD7)


def _mixed(z: Array) -> Array:
    """The mixing steps of SplitMix64 (Steele, Lea & Flood 2014): consecutive numbers become random bits. In place."""
    z ^= z >> 30
    z *= 0xBF58476D1CE4E5B9
    z ^= z >> 27
    z *= 0x94D049BB133111EB
    z ^= z >> 31
    return z
