"""Split large delimited text into columns, with NumPy instead of a loop over lines.

A chunk of text becomes an array of bytes; a field is a run of bytes that are neither separator nor newline; a column is
copied into fixed-width byte strings, one byte position at a time. benchmarks/results/reading.json has time and memory
for ten million lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

NEWLINE = 10


class RaggedError(ValueError):
    """A line has too many or too few fields; `line` counts from 0."""

    def __init__(self, line: int, found: int, text: bytes) -> None:
        super().__init__(line, found, text)
        self.line, self.found, self.text = line, found, text.decode(errors="replace")


def columns(chunks: Iterable[bytes], separators: bytes, width: int, wanted: list[int]) -> list[np.ndarray]:
    """The `wanted` columns of a table of `width` columns, as arrays of byte strings.

    Each chunk ends at a line end. Any run of bytes in `separators` separates two fields.
    Raises RaggedError for a line with more or fewer fields, blank lines included.
    """
    parts: list[list[np.ndarray]] = [[] for _ in wanted]
    lines = 0
    for chunk in chunks:
        text = np.frombuffer(chunk, dtype=np.uint8)
        first, last, counts, ends = _split(text, separators)
        if np.any(counts != width):
            at = int(np.argmax(counts != width))
            begin = int(ends[at - 1]) + 1 if at else 0
            raise RaggedError(lines + at, int(counts[at]), chunk[begin : int(ends[at])])
        for part, column in zip(parts, wanted, strict=True):
            part.append(_gather(text, first[column::width], last[column::width]))
        lines += len(counts)
    return [np.concatenate(part) if part else np.empty(0, "S1") for part in parts]


def lists(chunks: Iterable[bytes], separators: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split lines of any number of fields: -> first fields, how many others each line has, the others of all lines."""
    heads, counts, rest = [], [], []
    for chunk in chunks:
        text = np.frombuffer(chunk, dtype=np.uint8)
        first, last, count, _ = _split(text, separators)
        begins = (np.cumsum(count) - count)[count > 0]
        heads.append(_gather(text, first[begins], last[begins]))
        counts.append(count[count > 0] - 1)
        follows = np.ones(len(first), dtype=bool)
        follows[begins] = False
        rest.append(_gather(text, first[follows], last[follows]))
    return np.concatenate(heads), np.concatenate(counts), np.concatenate(rest)


def integers(column: np.ndarray) -> np.ndarray | None:
    """The column as int64 where every field is a plain integer ("7", "-7", not "007" or "+7") that fits; else None."""
    width = column.dtype.itemsize
    digits = np.frombuffer(np.ascontiguousarray(column), dtype=np.uint8).reshape(len(column), width)
    if not len(column):
        return None
    negative = digits[:, 0] == ord("-")
    length = np.sum(digits != 0, axis=1) - negative
    leading = np.where(negative, digits[:, min(1, width - 1)], digits[:, 0])
    if np.any(length < 1) or np.any(length > 18) or np.any((leading == ord("0")) & ((length > 1) | negative)):
        return _integers_one_by_one(column)
    value = np.zeros(len(column), dtype=np.int64)
    for place in range(width):
        digit = digits[:, place]
        used = digit != 0
        if place == 0:
            used = used & ~negative
        plain = (digit >= ord("0")) & (digit <= ord("9"))
        if not np.all(plain | ~used):
            return None
        value = np.where(used, 10 * value + (digit.astype(np.int64) - ord("0")), value)
    return np.where(negative, -value, value)


def _integers_one_by_one(column: np.ndarray) -> np.ndarray | None:
    """`integers` for columns with fields of more than 18 digits, which may or may not fit into int64."""
    try:
        value = column.astype("U").astype(np.int64)
    except (ValueError, OverflowError, UnicodeDecodeError):
        return None
    return value if np.array_equal(value.astype("S"), column) else None


def chunks_of_lines(read: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes that `read` yields, as chunks that end at line ends; CRLF becomes LF."""
    rest = b""
    for piece in read:
        piece = rest + piece
        cut = piece.rfind(b"\n") + 1
        rest = piece[cut:]
        if cut:
            yield piece[:cut].replace(b"\r\n", b"\n")
    if rest:
        yield rest.replace(b"\r\n", b"\n") + b"\n"


def _split(text: np.ndarray, separators: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """-> where each field begins and ends (exclusive), the number of fields of each line, where each line ends."""
    inside = text != NEWLINE
    for byte in separators:
        inside &= text != byte
    edges = np.flatnonzero(np.diff(inside, prepend=False, append=False))
    first, last = edges[::2], edges[1::2]
    ends = np.flatnonzero(text == NEWLINE)
    return first, last, np.diff(np.searchsorted(first, ends), prepend=0), ends


def _gather(text: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The fields text[first[i]:last[i]] as fixed-width byte strings."""
    length = last - first
    width = max(int(np.max(length, initial=1)), 1)
    fields = np.zeros((len(first), width), dtype=np.uint8)
    for place in range(width):
        has = np.flatnonzero(length > place)
        fields[has, place] = text[first[has] + place]
    return fields.reshape(-1).view(f"S{width}")
