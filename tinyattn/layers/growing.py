"""Rows that grow at their end: keys and values of past tokens, with room for later ones."""

import math
from typing import Any, NamedTuple

from ..backend import Array, get_xp


class GrowingRows(NamedTuple):
    """Rows `first` to `stop` of a buffer that has room behind them. Shapes: buffer (..., room, d).

    `append` writes behind existing rows, so older objects stay valid. Only the first `append` to an object shares the
    buffer; a second one, as for another continuation of the same text, copies it. A full buffer is copied into one
    twice as large: a row is copied about once on average.
    """

    buffer: Array
    first: int
    stop: int
    unclaimed: list[bool]            # empty after the first `append`

    @classmethod
    def none(cls, like: Array) -> "GrowingRows":
        """No rows, of the width and dtype of `like` (..., n, d)."""
        return cls(like[..., :0, :], 0, 0, [])

    @property
    def rows(self) -> Array:
        """A read-only view (..., n, d)."""
        return self.buffer[..., self.first : self.stop, :]

    @property
    def nbytes(self) -> int:
        """Bytes of the rows. The buffer may be twice as large, or even larger after `newest`."""
        *lead, _, d = self.buffer.shape
        return math.prod(lead) * (self.stop - self.first) * d * int(self.buffer.dtype.itemsize)

    def append(self, x: Array) -> "GrowingRows":
        """These rows and then x. Shapes: x (..., n, d)."""
        n, (buffer, first, stop, unclaimed) = x.shape[-2], self
        if stop + n > buffer.shape[-2] or not _claim(unclaimed):
            *lead, _, d = buffer.shape
            first, stop = 0, stop - first
            buffer = get_xp(x).empty((*lead, 2 * (stop + n), d), dtype=x.dtype)
            buffer[..., :stop, :] = self.rows
        buffer[..., stop : stop + n, :] = x
        return GrowingRows(buffer, first, stop + n, [True])

    def newest(self, n: int | None) -> "GrowingRows":
        """The last n rows; None: all. The others are dropped when the buffer is next copied."""
        return self if n is None else self._replace(first=max(self.first, self.stop - n))

    def without(self, begin: int, end: int) -> "GrowingRows":
        """All rows but those from `begin` to `end` - 1, copied into a new buffer; the same object if there are none."""
        if begin >= end:
            return self
        rows = self.rows
        return GrowingRows.none(rows).append(rows[..., :begin, :]).append(rows[..., end:, :])


def _claim(unclaimed: list[Any]) -> bool:
    """May the caller write behind the rows? Atomic: of two threads only one may."""
    try:
        return bool(unclaimed.pop())
    except IndexError:
        return False
