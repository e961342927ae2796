"""Read a file of interactions in any format of `FORMATS`, gzipped or not."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .fields import chunks_of_lines
from .formats import FORMATS, DataError, JsonLines, described, detect
from .interactions import Interactions

_PIECE = 1 << 22          # bytes read at a time


def read(
    path: str | Path, format: str | None = None, columns: str | None = None, ratings: bool = False
) -> Interactions:
    """The interactions in the file at `path`, each user's in the order of time.

    The format is detected from the first lines (see `FORMATS`), unless `format` names it. `columns` describes any other
    table: a template of a line that shows the separator, such as `user;item;-;time`, or the names in its header,
    such as `user=client,item=sku,time=when`. Rows with a time are sorted by it, stably; otherwise the file's order is
    kept. Ids stay as they are, integers or strings. With `ratings`, these are read as well, and times are asked for.

    Raises DataError, naming the file and the line, for a file that is missing, empty, truncated, ragged, not text, or
    of no known format; with `ratings`, for one without a column of ratings or of times, or a rating that is no number.
    """
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise DataError(f"unknown format {format!r}, expected one of {', '.join(FORMATS)}")
    try:
        head = _head(path)
        name, reader = ("columns", described(columns, head)) if columns else detect(head, format)
        if ratings:
            _refuse_unrated(reader)
        table = reader.read(_checked(chunks_of_lines(pieces(path))), ratings)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    return Interactions.from_columns(table.users, table.items, table.times, name, table.ratings)


def read_text(path: str | Path) -> str:
    """The text in the file at `path`, unzipped where it is gzipped, with one line end at its end.

    Raises DataError, naming the file, for a file that is missing, empty, truncated, or not UTF-8 text.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise DataError("a directory, expected a file")
        text = b"".join(_checked(chunks_of_lines(pieces(path)))).decode()
        if not text.strip():
            raise DataError("empty")
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    return text


def _refuse_unrated(reader: Any) -> None:
    """JSON lines are asked one by one; a table has its columns in one place; sequences have neither."""
    lacking = [what for what in ("rating", "time") if getattr(reader, what, None) is None]
    if lacking and not isinstance(reader, JsonLines):
        raise DataError(
            f"no column of {' and none of '.join(f'{what}s' for what in lacking)} is known, and this model learns "
            "from ratings with times; --columns says which they are: user;item;rating;time as a line, or, where the "
            "file has a header, user=NAME,item=NAME,rating=NAME,time=NAME"
        )


def _head(path: Path) -> list[str]:
    """The first lines, from which the format is detected."""
    if path.is_dir():
        raise DataError("a directory, expected a file")
    for chunk in _checked(chunks_of_lines(pieces(path, 1 << 16))):
        head = chunk.decode().splitlines()[:100]
        if not head[0].strip():
            raise DataError("empty" if not chunk.strip() else "line 1 is blank")
        return head
    raise DataError("empty")


def pieces(path: Path, size: int = _PIECE) -> Iterator[bytes]:
    """The file's content without a byte order mark; unzipped where its first two bytes are gzip's."""
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            with gzip.open(file) if zipped else file as content:
                first = True
                while piece := content.read(size):
                    yield piece.removeprefix(b"\xef\xbb\xbf") if first else piece
                    first = False
    except FileNotFoundError:
        raise DataError("no such file") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DataError("not a whole gzip file: truncated or damaged") from None
    except OSError as error:
        raise DataError(str(error.strerror)) from None


def _checked(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same chunks without blank lines at the end of the file. Raises DataError where they are not UTF-8 text."""
    blank = b""
    for chunk in chunks:
        try:
            if b"\0" in chunk:
                raise DataError("not text")
            if not chunk.isascii():
                chunk.decode()
        except UnicodeDecodeError:
            raise DataError("not UTF-8 text: convert it first, as with `iconv -f latin1 -t utf8`") from None
        whole = chunk.rstrip() + b"\n"
        if whole == b"\n":
            blank += chunk
            continue
        yield blank + whole
        blank = chunk[len(whole) :]
