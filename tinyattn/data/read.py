"""Read a file of interactions: `user item` text, RecBole .inter, either one gzipped."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np

from .interactions import Interactions


class DataError(ValueError):
    """A file that cannot be read as interactions; the message names the file, the line and what was expected."""


def read(path: str | Path) -> Interactions:
    """The interactions in the file at `path`; the format is known by its first line.

    - `user item`, one interaction a line, each user's in chronological order (SASRec's own format)
    - RecBole .inter: TAB-separated, typed header with `user_id:token`, `item_id:token` and optionally
      `timestamp:float`, by which each user's rows are then sorted, stably

    Raises DataError for a file that is missing, empty, truncated or of another form.
    """
    path = Path(path)
    lines = _text(path).splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise DataError(f"{path} is empty: expected one `user item` a line")
    if ":token" in lines[0]:
        return _read_inter(path, lines)
    columns = _columns(path, lines, first=1, width=2, form="`user item`")
    return Interactions.from_columns(columns[0], columns[1])


def _read_inter(path: Path, lines: list[str]) -> Interactions:
    names = [name.split(":")[0] for name in lines[0].split()]
    for name in ("user_id", "item_id"):
        if name not in names:
            raise DataError(f"{path}, line 1: the header has no {name}:token")
    columns = dict(zip(names, _columns(path, lines[1:], first=2, width=len(names), form=lines[0]), strict=True))
    times = None
    if "timestamp" in columns:
        try:
            times = columns["timestamp"].astype(np.float64)
        except ValueError as error:
            raise DataError(f"{path}: a timestamp is no number ({error})") from None
        if not np.all(np.isfinite(times)):
            bad = int(np.argmin(np.isfinite(times)))
            raise DataError(f"{path}, line {bad + 2}: timestamp {columns['timestamp'][bad]} is not finite")
    return Interactions.from_columns(columns["user_id"], columns["item_id"], times)


def _columns(path: Path, lines: list[str], first: int, width: int, form: str) -> list[np.ndarray]:
    """The fields of `lines`, column by column. `first` is the number of the first line in the file."""
    if not lines:
        raise DataError(f"{path} has a header and no interactions")
    fields = [line.split() for line in lines]
    for number, row in enumerate(fields, start=first):
        if len(row) != width:
            raise DataError(f"{path}, line {number}: {len(row)} fields, expected {width} as in {form}")
    return [np.array(column) for column in zip(*fields, strict=True)]


def _text(path: Path) -> str:
    if path.is_dir():
        raise DataError(f"{path} is a directory, expected a file")
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.decompress(raw)
        except (EOFError, OSError, zlib.error):
            raise DataError(f"{path} is not a whole gzip file: truncated or damaged") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text") from None
    if "\0" in text:
        raise DataError(f"{path} is not text")
    return text
