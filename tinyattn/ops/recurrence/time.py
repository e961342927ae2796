"""Layouts for recurrences: time as the first axis, and the chunks of a sequence side by side."""

import math
from collections.abc import Iterator

from ...backend import Array, get_xp

SHORTEST = 8            # least tokens in a chunk: with shorter chunks, passing states between them costs more


def time_first(x: Array) -> Array:
    """(..., n, d) -> (n, N, d), so that the numbers of one time are contiguous."""
    x = x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:]).swapaxes(0, 1)
    return get_xp(x).ascontiguousarray(x)


def time_last(x: Array, lead: list[int]) -> Array:
    """Undo `time_first`: (n, N, d) -> (..., n, d). A view."""
    return x.swapaxes(0, 1).reshape(*lead, x.shape[0], x.shape[2])


def spans(n: int, width: int, wide: int, most: int | None = None) -> Iterator[tuple[slice, int, int, int]]:
    """Cut n tokens into spans of pieces of chunks: -> tokens of the span, pieces, chunks per piece, tokens per chunk.

    A step of a loop over time has a fixed cost, and computes only `width` numbers. So chunks are computed side by side,
    up to `wide` numbers per step. A piece has up to `most` numbers, so that it stays in cache over several passes;
    without `most`, a span is one piece. The remaining tokens are further spans.
    """
    begin = 0
    while begin < n:
        left = n - begin
        chunks = max(1, min(wide // max(1, width), left // SHORTEST))
        length = left // chunks
        if most is not None:
            length = min(length, max(SHORTEST, most // max(1, width * chunks)))
        count = left // (chunks * length)
        yield slice(begin, begin + count * chunks * length), count, chunks, length
        begin += count * chunks * length


def side_by_side(x: Array, span: slice, chunks: int) -> Array:
    """(N, n, ...) -> (N, chunks, tokens per chunk, ...), a view, for a span of one piece."""
    part = x[:, span]
    return part.reshape(len(x), chunks, part.shape[1] // chunks, *x.shape[2:])


def steps_first(x: Array, span: slice, count: int, chunks: int) -> Array:
    """(N, n, d) -> (pieces, tokens per chunk, chunks, N, d), so that the numbers of one step are contiguous."""
    xp, N = get_xp(x), len(x)
    length = (span.stop - span.start) // (count * chunks)
    apart = x[:, span].reshape(N, count, chunks, length, x.shape[-1])
    return xp.ascontiguousarray(xp.transpose(apart, (1, 3, 2, 0, 4)))


def steps_last(x: Array) -> Array:
    """Undo `steps_first`: (pieces, tokens per chunk, chunks, N, ...) -> (N, tokens of the span, ...)."""
    count, length, chunks, N, *rest = x.shape
    together = get_xp(x).transpose(x, (3, 0, 2, 1, *range(4, x.ndim)))
    return together.reshape(N, count * chunks * length, *rest)
