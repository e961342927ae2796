"""Split large delimited text into columns, with NumPy instead of a loop over lines.

A chunk of text becomes an array of bytes; a field lies between two separators. Eight bytes from any position are one
64-bit word, so a short field is a few words: numbers are computed from them, and ids are compared by them.
benchmarks/results/reading.json has time and memory for ten million lines.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..terminal import shortened
from .dates import by_day_or_month, in_seconds, iso_8601
from .distinct import distinct_integers

NEWLINE, BLANKS = 10, b" \t"
LONGEST_LINE = 1 << 24          # bytes of a line: a file without line ends is refused before it is read
LONGEST_FIELD = 256             # bytes of an id or a number: arrays of ids have the width of the longest
_ODD = 0x9E3779B97F4A7C15       # 2^64 divided by the golden ratio: products with it have well mixed high bits
_BEFORE, _AFTER = 16, 8         # bytes of 0 around a text: words may begin before it and end after it
_ROWS = 1 << 14                 # rows of CSV that become columns at a time


class DataError(ValueError):
    """A file that cannot be read as data; the message names the file, the line and what was expected."""


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """A context in which a DataError gets the file's name."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


class Text(NamedTuple):
    """A chunk of text, padded with 0 at both ends: its bytes, and the little-endian 64-bit word from each of them."""

    raw: np.ndarray
    words: np.ndarray

    @classmethod
    def of(cls, chunk: bytes) -> "Text":
        padded = bytes(_BEFORE) + chunk + bytes(_AFTER)
        words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
        return cls(np.frombuffer(padded, np.uint8), words)

    def split(self, separators: bytes, runs: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """-> where each field begins and ends (exclusive), and the number of fields of each line.

        Each byte of `separators` ends a field; with `runs` a run of them does, and blanks around a line are ignored.
        """
        inner = self.raw[_BEFORE:-_AFTER]
        ends = inner == NEWLINE
        for byte in separators:
            ends |= inner == byte
        last = np.flatnonzero(ends) + _BEFORE
        first = np.empty_like(last)
        first[:1], first[1:] = _BEFORE, last[:-1] + 1
        lines = np.flatnonzero(self.raw[last] == NEWLINE)
        counts = np.diff(lines, prepend=-1)
        full = last > first if runs else None
        if full is not None and not np.all(full):
            counts = np.diff(np.cumsum(full)[lines], prepend=0)
            first, last = first[full], last[full]
        return first, last, counts

    def trimmed(self, first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same fields without blanks at their ends."""
        first, last = first.copy(), last.copy()
        for ends, step in ((first, 1), (last, -1)):
            rows = np.flatnonzero(last > first)
            while len(rows):
                edge = self.raw[ends[rows] - (step < 0)]
                rows = rows[(edge == BLANKS[0]) | (edge == BLANKS[1])]
                ends[rows] += step
                rows = rows[last[rows] > first[rows]]
        return first, last

    def strings(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """The fields as fixed-width byte strings, (n,) of kind S."""
        length = last - first
        width = max(1, -(-int(np.max(length, initial=1)) // 8))
        words = np.zeros((len(first), width), "<u8")
        for place in range(width):
            has = np.flatnonzero(length > 8 * place) if place else np.arange(len(first))
            unused = 64 - 8 * np.clip(length[has] - 8 * place, 0, 8).astype(np.uint64)
            words[has, place] = self.words[first[has] + 8 * place] << unused >> unused
        return words.view(f"S{8 * width}").reshape(-1)

    def digits(self, first: np.ndarray, last: np.ndarray) -> np.ndarray | None:
        """The fields as int64 if each has 1 to 16 digits, nothing else, and no leading 0; else None."""
        length = last - first
        longest = int(np.max(length, initial=1))
        if np.any(self.raw[first[:1]] > ord("9")):              # text, as the first field shows
            return None
        if longest > 16 or np.any((self.raw[first] == ord("0")) & (length > 1)):
            return None
        value: np.ndarray | None = _eight_digits(self.words[last - 8], np.minimum(length, 8))
        if value is not None and longest > 8:
            high = _eight_digits(self.words[last - 16], np.clip(length - 8, 0, 8))
            value = None if high is None else value + 100_000_000 * high
        return value


class Column:
    """One column of a table, filled chunk by chunk; messages call a field `what`.

    A chunk of ids is kept as integers if all are plain integers, else as distinct strings and each row's index into
    them. A chunk of numbers is kept as int64, or as float64 where there are fractions.
    """

    dated = False         # the first field is a date, so all must be

    def __init__(self, what: str, number: bool = False, optional: bool = False) -> None:
        self.what, self.number, self.optional = what, number, optional      # optional: a field may be empty
        self._parts: list[Any] = []

    def add(self, text: Text, first: np.ndarray, last: np.ndarray, line_of: Callable[[int], int]) -> None:
        """Add the fields of `text` from `first` to before `last`; `line_of(i)` is the line of the i-th.

        Raises DataError for an empty field, one of more than LONGEST_FIELD bytes, and an invalid number.
        """
        length = last - first
        if np.any(length == 0) and not self.optional:
            raise DataError(f"line {line_of(int(np.argmin(length)))}: the {self.what} is empty")
        if np.any(length > LONGEST_FIELD):
            at, most = int(np.argmax(length > LONGEST_FIELD)), LONGEST_FIELD
            raise DataError(f"line {line_of(at)}: the {self.what} has {length[at]:,} bytes, expected at most {most}")
        as_text = self.dated or self.optional
        part: Any = None if as_text else text.digits(first, last)
        if part is None:
            strings = text.strings(first, last)
            part = None if as_text else integers(strings)
        if part is None:
            part = self._numbers(strings, line_of) if self.number else _grouped(strings)
        self._parts.append(part)

    def add_strings(self, fields: Sequence[str], lines: Sequence[int]) -> None:
        """Add fields as strings, with their lines. Raises DataError as `add`, and for a line end in a field."""
        joined = "\n".join(fields)
        if joined.count("\n") >= len(fields) or "\r" in joined or "\0" in joined:
            at = next(i for i, field in enumerate(fields) if set(field) & set("\n\r\0"))
            raise DataError(f"line {lines[at]}: {self.what} {shortened(fields[at])!r} has a line end or a NUL in it")
        try:
            text = Text.of(joined.encode() + b"\n")
        except UnicodeEncodeError as error:
            at = joined.count("\n", 0, error.start)
            raise DataError(f"line {lines[at]}: {self.what} {shortened(fields[at])!r} is not text") from None
        first, last, _ = text.split(b"", runs=False)
        self.add(text, first, last, lambda i: lines[i])

    def add_ids(self, ids: np.ndarray, rows: np.ndarray) -> None:
        """Add rows as `ids` returns them."""
        self._parts.append(ids[rows] if ids.dtype.kind == "i" else (np.char.encode(ids, "utf-8"), rows))

    def __len__(self) -> int:
        return sum(len(part[1] if isinstance(part, tuple) else part) for part in self._parts)

    def ids(self) -> tuple[np.ndarray, np.ndarray]:
        """-> the distinct ids, sorted (as integers if all are integers), and for each row the index of its id."""
        if not any(isinstance(part, tuple) for part in self._parts):
            return distinct_integers(self.values())
        grouped = [part if isinstance(part, tuple) else _as_strings(part) for part in self._parts]
        joined, among = _grouped(np.concatenate([strings for strings, _ in grouped]))
        order = np.argsort(joined)
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        among = rank[among]
        ends = np.cumsum([len(strings) for strings, _ in grouped]).tolist()
        rows = [among[end - len(strings) : end][row] for end, (strings, row) in zip(ends, grouped, strict=True)]
        return np.char.decode(joined[order], "utf-8"), np.concatenate(rows)     # in UTF-8, bytes sort as characters do

    def values(self) -> np.ndarray:
        """int64, or float64 where there are fractions: float32 would merge different seconds since 1970."""
        return np.concatenate([np.empty(0, np.int64), *self._parts])

    expected = "a finite number"

    def _numbers(self, strings: np.ndarray, line_of: Callable[[int], int]) -> np.ndarray:
        if (values := _reals(strings)) is None:
            raise self._odd(strings, line_of, _reals, self.expected)
        return values

    def _odd(
        self, strings: np.ndarray, line_of: Callable[[int], int], good: Callable[[np.ndarray], Any], expected: str
    ) -> DataError:
        """The error for the first field for which `good` returns None."""
        at = next(i for i in range(len(strings)) if good(strings[i : i + 1]) is None)
        field = shortened(strings[at].decode(errors="replace"))
        return DataError(f"line {line_of(at)}: {self.what} {field!r} is not {expected}")


class Times(Column):
    """A column of times: numbers, or dates, in UTC unless they have a zone, as seconds since 1970: see `dates`.

    The first field decides whether they are numbers or dates, and the whole column whether the day or the month of
    04/12/2023 comes first.
    """

    expected = "a finite number, nor a date such as 2023-12-03 11:17:37 or 03.12.2023"

    def __init__(self) -> None:
        super().__init__("time", number=True)
        self._read: Callable[[np.ndarray], np.ndarray | None] | None = None      # how the file's first field is read

    def values(self) -> np.ndarray:
        if self._read is not by_day_or_month:
            return super().values()
        try:
            return in_seconds(np.concatenate(self._parts))
        except ValueError as error:
            raise DataError(str(error)) from None

    def _numbers(self, strings: np.ndarray, line_of: Callable[[int], int]) -> np.ndarray:
        if self._read is None:
            ways = (by_day_or_month, iso_8601, _reals)
            above = any(len(part) for part in self._parts)           # integers, which `add` reads
            self._read = _reals if above else next((way for way in ways if way(strings[:1]) is not None), None)
            self.dated = self._read not in (None, _reals)
        values = self._read(strings) if self._read else None
        if values is not None:
            return values
        likewise = "a date" if self.dated else "a finite number"
        expected = f"{likewise}, as those above are" if self._read else self.expected
        raise self._odd(strings, line_of, self._read or _reals, expected)


def columns(
    chunks: Iterable[bytes], separator: bytes, width: int, wanted: dict[int, Column], first_line: int = 1
) -> None:
    """Fill the `wanted` columns, by position, of a table of `width` columns whose lines count from `first_line`.

    Each chunk ends at a line end. A separator that includes a blank stands for any run of its bytes. Any other is one
    byte; then fields are stripped of blanks, and from the first quote on, the module csv reads the rest.
    Raises DataError for a line with more or fewer fields, blank lines included, and for a field that a column rejects.
    """
    runs, line, rest = b" " in separator, first_line, iter(chunks)
    blanks = [bytes([blank]) for blank in BLANKS if blank not in separator]
    for chunk in rest:
        if not runs and b'"' in chunk:
            return _quoted(chain([chunk], rest), separator.decode(), width, wanted, line)
        text = Text.of(chunk)
        first, last, counts = text.split(separator, runs)
        if np.any(counts != width):
            at = int(np.argmax(counts != width))
            raise _ragged(line + at, int(counts[at]), chunk.split(b"\n", at + 1)[at].decode(), width)
        trim = not runs and any(blank in chunk for blank in blanks)
        for place, column in wanted.items():
            begin, end = first[place::width], last[place::width]
            column.add(text, *(text.trimmed(begin, end) if trim else (begin, end)), line.__add__)
        line += len(counts)
    return None


def lists(chunks: Iterable[bytes], separators: bytes, heads: Column, rest: Column) -> tuple[np.ndarray, np.ndarray]:
    """Split lines of any number of fields: `heads` gets the first field of each line, `rest` the others.

    -> the lines that are not blank, and the number of other fields of each. Raises DataError as `Column.add`.
    """
    counts, lines, line = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 1
    for chunk in chunks:
        text = Text.of(chunk)
        first, last, count = text.split(separators, runs=True)
        places = np.repeat(np.arange(line, line + len(count)), count)
        head = np.zeros(len(first), dtype=bool)
        head[(np.cumsum(count) - count)[count > 0]] = True
        for column, which in ((heads, head), (rest, ~head)):
            column.add(text, first[which], last[which], places[which].__getitem__)
        counts.append(count[count > 0] - 1)
        lines.append(places[head])
        line += len(count)
    return np.concatenate(lines), np.concatenate(counts)


def _quoted(chunks: Iterable[bytes], separator: str, width: int, wanted: dict[int, Column], line: int) -> None:
    """`columns` by the module csv, which parses quotes."""
    rows = _csv_rows(chunks, separator, width, line)
    while some := list(islice(rows, _ROWS)):
        lines = [at for at, _ in some]
        for place, column in wanted.items():
            column.add_strings([row[place].strip(BLANKS.decode()) for _, row in some], lines)


def _csv_rows(chunks: Iterable[bytes], separator: str, width: int, line: int) -> Iterator[tuple[int, list[str]]]:
    text = (one + "\n" for chunk in chunks for one in chunk.decode().split("\n")[:-1])
    reader = csv.reader(text, delimiter=separator, strict=True, skipinitialspace=True)
    at = line
    try:
        for row in reader:
            if len(row) != width:
                raise _ragged(at, len(row), separator.join(row), width)
            yield at, row
            at = line + reader.line_num
    except csv.Error as error:
        raise DataError(f"line {at} is no line of CSV: {error}") from None


def _ragged(line: int, fields: int, text: str, width: int) -> DataError:
    return DataError(f"line {line}: {fields} fields in {shortened(text)!r}, expected {width}")


def _reals(strings: np.ndarray) -> np.ndarray | None:
    """The byte strings as float64; None where one is no finite number."""
    plain = np.isin(strings.view(np.uint8), np.frombuffer(b"0123456789.eE+-\0", np.uint8))     # no 1_000, no nan
    try:
        values = strings.astype(np.float64) if np.all(plain) else None
    except ValueError:
        return None
    return values if values is not None and np.all(np.isfinite(values)) else None


def integers(column: np.ndarray) -> np.ndarray | None:
    """The byte strings as int64 if each is a plain integer ("7", "-7", not "007" or "+7") that fits; else None."""
    try:
        value = column.astype(np.int64)
    except (ValueError, OverflowError):
        return None
    return value if np.array_equal(value.astype("S"), column) else None


def chunks_of_lines(read: Iterable[bytes]) -> Iterator[bytes]:
    """Chunks of `read` that end at line ends, CRLF as LF. Raises DataError for a line longer than LONGEST_LINE."""
    parts: list[bytes] = []              # of a line that has not ended
    length, line = 0, 1
    for piece in read:
        end = piece.rfind(b"\n") + 1
        length += piece.find(b"\n") if end else len(piece)
        if length > LONGEST_LINE:
            raise DataError(f"line {line} is longer than {LONGEST_LINE:,} bytes")
        if end:
            chunk = b"".join([*parts, piece[:end]])
            yield chunk.replace(b"\r\n", b"\n") if b"\r" in chunk else chunk
            line += lines_in(chunk)
            parts, length = [], len(piece) - end
        parts.append(piece[end:])
    if rest := b"".join(parts):
        yield (rest + b"\n").replace(b"\r\n", b"\n")


def lines_in(chunk: bytes) -> int:
    """The number of line ends, several times as fast as bytes.count."""
    return int(np.count_nonzero(np.frombuffer(chunk, np.uint8) == NEWLINE))


def _eight_digits(words: np.ndarray, length: np.ndarray) -> np.ndarray | None:
    """The number in the last `length` bytes of each word, as int64; None where a byte is no digit.

    Pairs of digits become numbers below 100, pairs of these become numbers below 10,000, and pairs of these the result,
    in parallel within the word: D. Lemire, "Quickly parsing eight digits", 2018.
    """
    unused = 64 - 8 * length.astype(np.uint64)
    digit = (words ^ 0x3030303030303030) >> unused << unused
    if np.any((digit + 0x7676767676767676 | digit) & 0x8080808080808080):          # a byte above 9
        return None
    digit = digit * 2561 >> 8 & 0x00FF00FF00FF00FF
    digit = digit * 6553601 >> 16 & 0x0000FFFF0000FFFF
    return (digit * 42949672960001 >> 32).view(np.int64)


def _grouped(strings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """-> the distinct byte strings, in any order, and for each entry its index among them.

    By a hash table: each slot keeps its last entry, and the equal entries are its group. The few entries that share a
    slot with a different string are sorted.
    """
    width = -(-strings.dtype.itemsize // 8)
    words = strings.astype(f"S{8 * width}", copy=False).view("<u8").reshape(len(strings), width)
    mixed = words[:, 0] * _ODD
    for place in range(1, width):
        mixed = (mixed ^ mixed >> 29 ^ words[:, place]) * _ODD
    places = mixed >> 63 - len(strings).bit_length()
    table = np.empty(2 << len(strings).bit_length(), np.int32)
    table[places] = np.arange(len(strings), dtype=np.int32)
    like = table[places]                                     # an entry of the same group
    other = np.flatnonzero(np.any(words[like] != words, axis=1))
    _, some, group = np.unique(strings[other], return_index=True, return_inverse=True)
    like[other] = other[some][group]
    heads = like == np.arange(len(strings))
    return strings[heads], (np.cumsum(heads, dtype=np.int32) - 1)[like]


def _as_strings(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, row = distinct_integers(part)
    return values.astype("S"), row
