"""Read a file of interactions in any format of `FORMATS`, gzipped or not, or in Parquet."""

from __future__ import annotations

import gzip
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from .fields import DataError, chunks_of_lines, lines_in, naming
from .filters import Filters
from .formats import FORMATS, JsonLines, described, detect
from .interactions import Interactions
from .parquet import MAGIC, csv_of

_PIECE = 1 << 20          # bytes read at a time: arrays made from them stay in a core's cache
LONGEST_TEXT = 1 << 28    # bytes of a text or a list, which are read whole: a small gzip file may hold any number
_MARK = "\ufeff".encode()  # a byte order mark in UTF-8


def read(
    path: str | Path, format: str | None = None, columns: str | None = None, ratings: bool = False, **filters: Any
) -> Interactions:
    """The interactions in the file at `path`, each user's in the order of time.

    The format is detected from the first lines (see `FORMATS`), unless `format` names it. `columns` describes any other
    table: a template of a line that shows the separator, such as `user;item;-;time`, or the names in its header,
    such as `user=client,item=sku,time=when`. Rows are sorted by time, stably; without times the file's order is kept.
    With `ratings`, these are read as well, and times are required. `filters` are the fields of `Filters`: which rows
    count.

    Raises DataError, naming the file and the line, for a file that is missing, empty, truncated, ragged, not text, or
    of no known format; with `ratings`, where ratings or times are missing, or a rating is no number; and where a filter
    needs a column that the file lacks, or leaves no row.
    """
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise DataError(f"unknown format {format!r}, expected one of {', '.join(FORMATS)}")
    chosen = Filters(**filters)
    with naming(path):
        head = _head(path)
        if format is not None and columns is not None:
            raise DataError(f"format is {format} and columns are {columns!r}, expected one of them")
        name, reader = ("columns", described(columns, head)) if columns is not None else detect(head, format)
        if ratings:
            _refuse_unrated(reader)
        label = chosen.condition[0] if chosen.condition else None
        table = reader.read(_lines(path), ratings or chosen.min_rating is not None, label)
        rows = len(table.users[1])
        table = chosen.kept(table) if chosen else table
    data = Interactions.from_numbered(table.users, table.items, table.times, name, table.ratings if ratings else None)
    data.notes["columns"] = reader.columns_read()
    if chosen:
        data.notes["rows left out"] = f"{rows - len(data):,} of {rows:,} by {chosen}"
    return data


def read_text(path: str | Path) -> str:
    """The text in a file, gzipped or not, with one line end at its end. Raises DataError, naming the file."""
    with naming(Path(path)):
        text = whole(Path(path)).replace(b"\r\n", b"\n").rstrip()
        if not text:
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


def _head(path: Path) -> list[str]:
    """The first lines, from which the format is detected."""
    for chunk in _lines(path, 1 << 16):
        head = chunk.decode().split("\n")[:-1][:100]
        if not head[0].strip():
            raise DataError("line 1 is blank")
        return head
    raise DataError("empty")


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


def pieces(path: Path, size: int = _PIECE) -> Iterator[bytes]:
    """The file's content, unzipped, without a byte order mark; of Parquet, as CSV.

    Raises DataError if it is unreadable or has a byte 0.
    """
    with open_regular(path) as file:
        try:
            magic = file.read(len(MAGIC))
            if magic == MAGIC:
                yield from csv_of(path)
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


def _lines(path: Path, size: int = _PIECE) -> Iterator[bytes]:
    """The file's lines, in chunks, without blank ones at the end.

    Raises DataError where they are not UTF-8 text, or contain a carriage return or a byte order mark.
    """
    blank, line = b"", 1
    for chunk in chunks_of_lines(pieces(path, size)):
        at = chunk.find(b"\r")
        if at >= 0:
            raise DataError(f"line {line + lines_in(chunk[:at])} has a carriage return in it")
        if not chunk.isascii():
            _utf8(chunk)
            at = (b"\n" + chunk).find(b"\n" + _MARK)
            if at >= 0:
                raise DataError(f"line {line + lines_in(chunk[:at])} begins with a byte order mark")
        line += lines_in(chunk)
        whole = len(chunk.rstrip())
        if not whole:
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
