"""Read interactions from files or standard input: any format of `FORMATS`, gzipped or not, or Parquet."""

import gzip
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..files import is_same
from .dates import unit_of
from .fields import Column, DataError, chunks_of_lines, lines_in, naming
from .filters import Filters
from .formats import FORMATS, JsonLines, described, detect
from .interactions import Interactions
from .parquet import MAGIC, csv_of
from .table import Table, new_columns

_PIECE = 1 << 20          # bytes read at a time: arrays made from them stay in a core's cache
LONGEST_TEXT = 1 << 28    # bytes of a text or a list, which are read whole: a small gzip file may hold any number
_HEAD = 1 << 16           # bytes from which the format is detected
_IN_MEMORY = 1 << 26      # bytes of standard input; a longer one is copied to a temporary file
_MARK = "\ufeff".encode()  # a byte order mark in UTF-8
_UNITS = {1.0: "seconds", 1e3: "milliseconds", 1e6: "microseconds", 1e9: "nanoseconds"}
STDIN = Path("-")         # stands for standard input


def read(
    path: str | Path | Sequence[str | Path],
    format: str | None = None,
    columns: str | None = None,
    ratings: bool = False,
    **filters: Any,
) -> Interactions:
    """The interactions in the file at `path`, or in several files, each user's in the order of time.

    Several files are one table: all have a header, whose columns may be in any order, or none has. The path - is
    standard input, which is read once. Rows are sorted by time, stably; without times they keep the order of the files.

    The format is detected from the first lines (see `FORMATS`), unless `format` names it. `columns` describes any other
    table: a template of a line that shows the separator, such as `user;item;-;time`, or the names in its header,
    such as `user=client,item=sku,time=when`. With `ratings`, these are read as well, and times are required. `filters`
    are the fields of `Filters`, which select rows.

    Raises DataError, naming the file and the line, for a file that is missing, empty, truncated, ragged, not text, or
    of no known format; with `ratings`, if ratings or times are missing, or a rating is no number; if a filter needs a
    column that the file lacks, or leaves no row; and if only some files have times, or their units differ.
    """
    paths = [Path(path)] if isinstance(path, str | Path) else list(map(Path, path))
    if not paths:
        raise DataError("no files, expected one or more")
    if format is not None and format not in FORMATS:
        raise DataError(f"unknown format {format!r}, expected one of {', '.join(FORMATS)}")
    if format is not None and columns is not None:
        raise DataError(f"format is {format} and columns are {columns!r}, expected one of them")
    chosen = Filters(**filters)
    with naming(titled(paths)):
        label = chosen.condition[0] if chosen.condition else None
    parts, filled = list[_Part](), dict[str, Column]()
    for one in paths:
        with naming(titled([one])):
            head, chunks = _begun(one)
            reader: Any
            name, reader = ("columns", described(columns, head)) if columns is not None else detect(head, format)
            if ratings:
                _refuse_unrated(reader)
            wanted = reader.wanted(ratings or chosen.min_rating is not None, label)
            filled = filled or new_columns(wanted, label or "")
            if other := min(filled.keys() ^ wanted.keys(), default=""):
                only = f"a column of {other}s" if other in wanted else f"no column of {other}s"
                raise DataError(f"{only}, unlike {titled(paths[:1])}")
            begin = len(filled["user"])
            reader.fill(chunks, wanted, filled)
            parts.append(_Part(one, name, reader, slice(begin, len(filled["user"]))))
    with naming(titled(paths)):
        if not (rows := len(filled["user"])):
            raise DataError("a header and no interactions")
        table = Table.of(filled)
    if table.times is not None and len(parts) > 1:
        _refuse_other_units(parts, table.times)
    for part in parts:
        if part.reader.header:
            with naming(titled([part.path])):
                part.reader.refuse_header_again(table, part.rows)
    with naming(titled(paths)):
        table = chosen.kept(table) if chosen else table
    name = ", ".join(dict.fromkeys(part.name for part in parts))
    data = Interactions.from_numbered(table.users, table.items, table.times, name, table.ratings if ratings else None)
    data.notes["columns"] = " / ".join(dict.fromkeys(part.reader.columns_read() for part in parts))
    if again := sorted({str(one) for place, one in enumerate(paths) if any(is_same(one, x) for x in paths[:place])}):
        data.notes["read twice"] = ", ".join(again)
    if chosen:
        data.notes["rows left out"] = f"{rows - len(data):,} of {rows:,} by {chosen}"
    return data


def _refuse_other_units(parts: "Sequence[_Part]", times: np.ndarray) -> None:
    """Raise DataError for a file whose times are dates in other units than those of the first file with dates."""
    rows = {part.path: times[part.rows] for part in parts if part.rows.start < part.rows.stop}
    units = {path: unit for path, some in rows.items() if (unit := unit_of(some))}
    for path, unit in units.items():
        first = next(iter(units))
        if unit != units[first]:
            with naming(titled([path])):
                here, there = (f"{rows[one][0]} counts {_UNITS[units[one]]}" for one in (path, first))
                raise DataError(f"time {here}, and {there} in {titled([first])}: expected one unit")


class _Part(NamedTuple):
    """A file that was read: its format, and its rows in the table."""

    path: Path
    name: str
    reader: Any
    rows: slice


def titled(paths: Sequence[Path]) -> str:
    """Files in words: three names, or one and how many more."""
    names = ["standard input" if path == STDIN else str(path) for path in paths]
    return f"{names[0]} and {len(names) - 1:,} more files" if len(names) > 3 else ", ".join(names)


def read_text(path: str | Path) -> str:
    """The text in a file, gzipped or not, with one line end at its end. Raises DataError, naming the file."""
    with naming(Path(path)):
        if not (text := whole(Path(path)).replace(b"\r\n", b"\n").rstrip()):
            raise DataError("empty")
        return _utf8(text + b"\n")


def _refuse_unrated(reader: Any) -> None:
    """Raise DataError for a table without ratings or times, and for sequences; JSON lines are checked one by one."""
    lacking = [what for what in ("rating", "time") if getattr(reader, what, None) is None]
    if lacking and not isinstance(reader, JsonLines):
        raise DataError(
            f"no column of {' and none of '.join(f'{what}s' for what in lacking)} is known, and this model learns "
            "from ratings with times; --columns says which they are: user;item;rating;time as a line, or, where the "
            "file has a header, user=NAME,item=NAME,rating=NAME,time=NAME"
        )


def _begun(path: Path) -> tuple[list[str], Iterator[bytes]]:
    """-> the first lines, from which the format is detected, and all lines, in chunks."""
    chunks, first = _lines(path), b""
    while len(first) < _HEAD and (chunk := next(chunks, b"")):
        first += chunk
    if not first:
        raise DataError("empty")
    head = [line.decode() for line in first.split(b"\n", 100)[:-1]]
    if not head[0].strip():
        raise DataError("line 1 is blank")
    return head, chain([first], chunks)


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read its bytes. Raises DataError for a missing or irregular file: a pipe may never end."""
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise DataError("a directory, expected a file")
        if not stat.S_ISREG(kind):
            raise DataError("a pipe, a device or a socket, expected a regular file")
        return path.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        raise DataError("no such file") from None
    except OSError as error:
        raise DataError(str(error.strerror)) from None


def _opened(path: Path) -> Any:
    """The file, or a temporary copy of standard input, in which a reader of Parquet can move back and forth."""
    if path != STDIN:
        return open_regular(path)
    copy = tempfile.SpooledTemporaryFile(_IN_MEMORY)         # noqa: SIM115, `pieces` closes it
    shutil.copyfileobj(sys.stdin.buffer, copy)
    copy.seek(0)
    return copy


def pieces(path: Path, size: int = _PIECE, opened: Callable[[Path], Any] = open_regular) -> Iterator[bytes]:
    """The file's content, unzipped, without byte order mark, Parquet as CSV. DataError if unreadable or with NULs."""
    with opened(path) as file:
        try:
            magic = file.read(len(MAGIC))
            if magic == MAGIC:
                yield from csv_of(file, path)
                return
            zipped = magic[:2] == b"\x1f\x8b"
            file.seek(0)
            with gzip.open(file) if zipped else file as content:
                first = True
                while piece := content.read(size):
                    if b"\0" in piece:
                        raise DataError(_kind(piece) if first else "not text")
                    yield piece.removeprefix(_MARK) if first else piece
                    first = False
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise DataError("not a whole gzip file: truncated or damaged") from None
        except OSError as error:
            raise DataError(str(error.strerror)) from None


def _kind(start: bytes) -> str:
    """The error for a file that is no text, by its first bytes."""
    known = {b"PK\x03\x04": "a zip archive", b"BZh": "compressed by bzip2", b"\xfd7zXZ": "compressed by xz",
             b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}  # fmt: skip
    what = next((what for begin, what in known.items() if start.startswith(begin)), "")
    return f"{what}, expected UTF-8 text, gzipped or not" if what else "not text"


def whole(path: Path) -> bytes:
    """The content that `pieces` yields. Raises DataError for more than LONGEST_TEXT bytes."""
    content = bytearray()
    for piece in pieces(path):
        content += piece
        if len(content) > LONGEST_TEXT:
            raise DataError(f"more than {LONGEST_TEXT:,} bytes of text")
    return bytes(content)


def _lines(path: Path) -> Iterator[bytes]:
    """The file's lines, in chunks, without blank ones at the end.

    Raises DataError where they are not UTF-8 text, or contain a carriage return or a byte order mark.
    """
    blank, line = b"", 1
    for chunk in chunks_of_lines(pieces(path, _PIECE, _opened)):
        at = chunk.find(b"\r")
        if at >= 0:
            raise DataError(f"line {line + lines_in(chunk[:at])} has a carriage return in it")
        if not chunk.isascii():
            _utf8(chunk)
            at = (b"\n" + chunk).find(b"\n" + _MARK)
            if at >= 0:
                raise DataError(f"line {line + lines_in(chunk[:at])} begins with a byte order mark")
        line += lines_in(chunk)
        if not (whole := len(chunk.rstrip())):
            blank += chunk
            if len(blank) > _PIECE:
                raise DataError(f"more than {_PIECE:,} bytes of blank lines before line {line}")
            continue
        end = chunk.index(b"\n", whole) + 1
        yield blank + chunk[:end]
        blank = chunk[end:]


def _utf8(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise DataError("not UTF-8 text: convert it first, as with `iconv -f latin1 -t utf8`") from None
