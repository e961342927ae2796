"""Which queries may look at which keys: a boolean array, True = may look, or a `Mask`, which has a few fields."""

import functools
import math
import operator
from dataclasses import dataclass
from numbers import Integral

from ..backend import Array, get_xp, is_numpy


def causal_mask(n: int, like: Array) -> Array:
    """True where key j <= query i: a position sees itself and its past.

    Shapes: n a number -> (n, n) boolean, in the module of the array `like`.
    """
    return get_xp(like).tri(n, dtype=bool)


@dataclass(frozen=True, eq=False)
class Mask:
    """A query may look at the keys that every field allows. `Mask()` allows all.

    An attention without a score matrix reads the fields; others call `array`.
    Shapes: lengths (B,), allowed onto (..., n, m). Raises ValueError for a window that is not a whole number of at
    least 1 and for lengths of another shape, TypeError for lengths that are no integers, and an `allowed` that is not
    boolean.
    """

    causal: bool = False             # query i looks at keys 0 to i
    window: int | None = None        # W: query i looks at keys i - W + 1 to i + W - 1
    lengths: Array | None = None     # the number of keys of each sequence; those after them are padding
    allowed: Array | None = None     # boolean, True = may look: any other pattern

    def __post_init__(self) -> None:
        if self.window is not None and (not isinstance(self.window, Integral) or self.window < 1):
            raise ValueError(f"window is {self.window!r}, expected a whole number of at least 1")
        for name, kinds, expected in (("lengths", "iu", "integers (B,)"), ("allowed", "b", "a boolean array")):
            x = getattr(self, name)
            if x is not None and (getattr(x, "dtype", None) is None or x.dtype.kind not in kinds):
                found = x.dtype if hasattr(x, "dtype") else type(x).__name__
                raise TypeError(f"{name} is {found}, expected {expected}")
        if self.lengths is not None and self.lengths.ndim != 1:
            raise ValueError(f"lengths has shape {self.lengths.shape}, expected (B,), one a sequence")

    @property
    def only_causal(self) -> bool:
        """Is it the causal mask and nothing else: no window, no lengths, no array?"""
        return self.causal and self.window is None and self.lengths is None and self.allowed is None

    def array(self, n: int, m: int, like: Array) -> Array | None:
        """One boolean array that broadcasts to (..., n, m), in the module of `like`; None if every pair is allowed.

        With `lengths` it has axes for sequences and heads: (B, 1, n, m), or (B, 1, 1, m) with `lengths` alone.
        """
        if self.only_causal:
            return get_xp(like).tri(n, m, dtype=bool)
        return self._rows(get_xp(like).arange(n)[:, None], m, self.allowed, like)

    def keys(self, m: int, like: Array) -> Array | None:
        """Which keys are not padding, by the lengths alone: (B, 1, m), for all heads; None without lengths."""
        if self.lengths is None:
            return None
        xp = get_xp(like)
        return (xp.arange(m) < xp.asarray(self.lengths)[:, None])[:, None, :]

    def row(self, at: Array, n: int, like: Array) -> Array | None:
        """What query `at` of each sequence may look at. Shapes: at (B,), keys n -> onto (B, heads, 1, n), or None."""
        xp, allowed = get_xp(like, at), self.allowed
        if allowed is not None:
            heads = allowed.shape[-3] if allowed.ndim > 2 else 1
            if allowed.ndim < 2 or allowed.shape[-2] == 1:              # the same keys for every query
                allowed = xp.broadcast_to(allowed, (len(at), heads, 1, n))
            else:
                allowed = xp.broadcast_to(allowed, (len(at), heads, allowed.shape[-2], n))
                allowed = xp.take_along_axis(allowed, at[:, None, None, None], axis=2)
        return self._rows(at[:, None, None, None], n, allowed, like)

    def rows(self, queries: Array, m: int, like: Array) -> Array | None:
        """What some queries, the same in all sequences, may look at. Shapes: queries (1, n, 1), their positions -> onto
        (..., n, m), or None."""
        return self._rows(queries, m, self.allowed, like)

    def reach(self, queries: slice, m: int) -> slice:
        """The range of the m keys that `causal` and `window` allow for these queries."""
        first, stop = 0, m
        if self.window is not None:
            first, stop = queries.start - self.window + 1, queries.stop + self.window - 1
        if self.causal:
            stop = queries.stop
        return slice(max(first, 0), min(stop, m))

    def tile(
        self, queries: slice, keys: slice, shape: tuple[int, ...], like: Array, at: tuple[int, ...] = ()
    ) -> Array | bool:
        """The part of the mask for these queries and keys; True or False if all its entries are known to be.

        `shape` is that of the whole mask. `at` picks one entry of the leading axes: a sequence and a head.
        Shapes: shape (..., n, m) -> (queries, keys), or with the leading axes.
        """
        xp = get_xp(like)
        query, key = xp.arange(queries.start, queries.stop)[:, None], xp.arange(keys.start, keys.stop)
        far = math.inf if self.window is None else self.window
        parts = []
        if self.causal and keys.stop > queries.start + 1:
            parts.append(key <= query)
        if queries.stop - 1 - keys.start >= far:
            parts.append(key > query - far)
        if not self.causal and keys.stop - 1 - queries.start >= far:
            parts.append(key < query + far)
        if self.lengths is not None:
            if not at:
                parts.append((key < xp.asarray(self.lengths)[:, None])[:, None, None, :])
            else:
                length = self.lengths[at[-2]]                   # the last axes are sequences and heads
                if keys.start >= length:
                    return False
                if keys.stop > length:
                    parts.append(key < length)
        if self.allowed is not None:
            part = xp.broadcast_to(self.allowed, shape)[at][..., queries, keys]
            if is_numpy(xp) and not part.any():                 # not on a device, where this would wait for it
                return False
            parts.append(part)
        return functools.reduce(operator.and_, parts) if parts else True

    def _rows(self, query: Array, m: int, allowed: Array | None, like: Array) -> Array | None:
        key, real = get_xp(like).arange(m), self.keys(m, like)
        parts = [] if allowed is None else [allowed]
        if self.causal:
            parts.append(key <= query)
        if self.window is not None:
            parts.append(key > query - self.window)
            if not self.causal:
                parts.append(key < query + self.window)
        if real is not None:
            parts.append(real[..., None, :])
        return functools.reduce(operator.and_, parts) if parts else None


def as_mask(mask: Mask | Array | None) -> Mask:
    """A boolean array as a `Mask`; None allows all pairs. Shapes: mask onto (..., n, m)."""
    return mask if isinstance(mask, Mask) else Mask(allowed=mask)
