"""File formats of interactions, detected from the first lines. A new format is one entry in FORMATS."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .fields import RaggedError, columns, integers, lists
from .names import ITEM_NAMES, RATING_NAMES, TIME_NAMES, USER_NAMES


class DataError(ValueError):
    """A file that cannot be read as interactions; the message names the file, the line and what was expected."""


class Table(NamedTuple):
    """The interactions of a file, one a row; `times` is None where the file's order is the order in time.

    `ratings` is None where they were not asked for, or the file has none.
    """

    users: np.ndarray
    items: np.ndarray
    times: np.ndarray | None
    ratings: np.ndarray | None = None


@dataclass(frozen=True)
class Delimited:
    """A table of fields and where its columns are. Any run of bytes in `separators` separates two fields."""

    separators: bytes
    width: int
    user: int
    item: int
    time: int | None = None
    header: str = ""                # the first line, if it names the columns
    rating: int | None = None

    def read(self, chunks: Iterable[bytes], ratings: bool = False) -> Table:
        skipped = 1 if self.header else 0
        wanted = [self.user, self.item] + ([] if self.time is None else [self.time])
        wanted += [self.rating] if ratings and self.rating is not None else []
        try:
            found = columns(_without_first_line(chunks) if skipped else chunks, self.separators, self.width, wanted)
        except RaggedError as error:
            shown = error.text if len(error.text) <= 40 else error.text[:37] + "..."
            raise DataError(
                f"line {error.line + 1 + skipped}: {error.found} fields in {shown!r}, expected {self.width}"
            ) from None
        if not len(found[0]):
            raise DataError("a header and no interactions")
        if self.header:
            again = found[0] == self.header.split(self.separators[:1].decode())[self.user].strip().encode()
            if np.any(again):
                raise DataError(f"line {int(np.argmax(again)) + 2}: the header stands there again")
        times = None if self.time is None else _numbers(found[2], 1 + skipped, "time")
        if not ratings or self.rating is None:
            return Table(found[0], found[1], times)
        return Table(found[0], found[1], times, _numbers(found[-1], 1 + skipped, "rating").astype(np.float64))


class Sequences:
    """One user a line, then the user's items, oldest first."""

    def read(self, chunks: Iterable[bytes], ratings: bool = False) -> Table:
        users, counts, items = lists(chunks, b" \t")
        if not len(items):
            raise DataError("users and no items: expected `user item item ...` a line")
        order = np.argsort(users, kind="stable")
        same = np.flatnonzero(users[order][1:] == users[order][:-1])
        if len(same):
            first, second = sorted(order[same[0] : same[0] + 2].tolist())
            raise DataError(f"lines {first + 1} and {second + 1} are of the same user, {users[first].decode()}")
        return Table(np.repeat(users, counts), items, None)


class JsonLines:
    """One object a line, JSON or, in old dumps, a Python literal: `ast.literal_eval`, never `eval`."""

    def read(self, chunks: Iterable[bytes], ratings: bool = False) -> Table:
        names = [USER_NAMES, ITEM_NAMES, TIME_NAMES] + ([RATING_NAMES] if ratings else [])
        rows: list[list[str]] = []
        number = 0
        for chunk in chunks:
            for line in chunk.decode().split("\n")[:-1]:
                number += 1
                row = _object(line, number)
                try:
                    rows.append([str(_pick(row, usual)) for usual in names])
                except KeyError as error:
                    raise DataError(f"line {number}: no {error.args[0]} in {', '.join(map(str, row))}") from None
        users, items, times, *rest = (np.char.encode(np.array(column), "utf-8") for column in zip(*rows, strict=True))
        rated = _numbers(rest[0], 1, "rating").astype(np.float64) if rest else None
        return Table(users, items, _numbers(times, 1, "time"), rated)


class Format(NamedTuple):
    """`sniff(first lines)` gives an object whose `read` reads such a file, or None for another format."""

    example: str
    sniff: Callable[[list[str]], Any]


def _sniff_json(head: list[str]) -> Any:
    return JsonLines() if head[0].lstrip().startswith("{") else None


def _sniff_inter(head: list[str]) -> Any:
    return named(head[0], "\t") if ":token" in head[0] else None


def _sniff_movielens_1m(head: list[str]) -> Any:
    if all(line.count("::") == 3 for line in head):
        return Delimited(b":", 4, 0, 1, 3, rating=2)
    return None


def _sniff_header(separator: str, *, users: tuple[str, ...]) -> Callable[[list[str]], Any]:
    def sniff(head: list[str]) -> Any:
        names = [name.strip().lower() for name in head[0].split(separator)]
        return named(head[0], separator) if len(names) > 1 and set(names) & set(users) else None

    return sniff


def _sniff_fields(separators: str, width: int, time: int | None) -> Callable[[list[str]], Any]:
    """A table without a header, of `width` fields in the first line: user, item, a rating if there are four, time."""
    rating = 2 if width == 4 else None

    def sniff(head: list[str]) -> Any:
        if separators == ",":
            return Delimited(b",", width, 0, 1, time, rating=rating) if head[0].count(",") == width - 1 else None
        if "," in head[0] and separators == "\t":
            return None
        fields = head[0].split() if separators == " \t" else head[0].split(separators)
        return Delimited(separators.encode(), width, 0, 1, time, rating=rating) if len(fields) == width else None

    return sniff


def _sniff_sequences(head: list[str]) -> Any:
    """Lines of different lengths, each with another user. Where a user comes twice, it is a ragged table."""
    rows = [line.split() for line in head if line.strip()]
    firsts = {row[0] for row in rows}
    lengths = {len(row) for row in rows}
    several = min(lengths) > 1 and (len(lengths) > 1 or max(lengths) > 4)
    return Sequences() if several and len(firsts) == len(rows) and "," not in head[0] else None


FORMATS = {
    "inter": Format("user_id:token<TAB>item_id:token<TAB>timestamp:float  (RecBole, typed header)", _sniff_inter),
    "amazon-json": Format('{"reviewerID": .., "asin": .., "unixReviewTime": ..}  (one object a line)', _sniff_json),
    "movielens-1m": Format("1::1193::5::978300760  (UserID::MovieID::Rating::Timestamp)", _sniff_movielens_1m),
    "movielens-csv": Format("userId,movieId,rating,timestamp  (header)", _sniff_header(",", users=USER_NAMES)),
    "gru4rec": Format("SessionId<TAB>ItemId<TAB>Time  (header)", _sniff_header("\t", users=USER_NAMES)),
    "amazon-csv": Format("A1,B000,5.0,1370000000  (user,item,rating,timestamp)", _sniff_fields(",", 4, 3)),
    "movielens-100k": Format("1<TAB>242<TAB>3<TAB>881250949  (user, item, rating, time)", _sniff_fields("\t", 4, 3)),
    "sequences": Format("u i1 i2 i3 ...  (one user a line: S3Rec, STOSA)", _sniff_sequences),
    "pairs": Format("u i  (one interaction a line, in order: SASRec)", _sniff_fields(" \t", 2, None)),
    "triples": Format("u i t  (user, item, time)", _sniff_fields(" \t", 3, 2)),
}


def detect(head: list[str], name: str | None = None) -> tuple[str, Any]:
    """-> the format's name and its reader, detected from the first lines, or those of the format `name`.

    Raises DataError where no format fits, or the one named does not.
    """
    for known, form in FORMATS.items():
        reader = form.sniff(head) if name in (None, known) else None
        if reader is not None:
            return known, reader
    shown = head[0] if len(head[0]) <= 60 else head[0][:57] + "..."
    if name is not None:
        raise DataError(f"line 1 is {shown!r}: that is not {name}, which looks like: {FORMATS[name].example}")
    known = ", ".join(FORMATS)
    raise DataError(f"line 1 is {shown!r}, which looks like none of {known}; --columns says what its columns are")


def named(header: str, separator: str, names: dict[str, str] | None = None) -> Delimited:
    """The columns that a header names; `names` maps user, item, time and rating to unusual names.

    Raises DataError where a column is missing or named twice.
    """
    found = [name.strip().strip('"').split(":")[0] for name in header.split(separator)]
    lowered = [name.lower() for name in found]
    if len(set(lowered)) < len(lowered):
        twice = next(name for name in lowered if lowered.count(name) > 1)
        raise DataError(f"line 1: the header names {twice} twice")
    places = {}
    known = {"user": USER_NAMES, "item": ITEM_NAMES, "time": TIME_NAMES, "rating": RATING_NAMES}
    for what, usual in known.items():
        wanted = (names[what].lower(),) if names and what in names else usual
        place = next((lowered.index(name) for name in wanted if name in lowered), None)
        if place is None and (what in ("user", "item") or (names and what in names)):
            raise DataError(f"line 1: the header {header.strip()!r} has no column {wanted[0]}")
        if place is not None:
            places[what] = place
    user, item, time, rating = (places.get(what) for what in known)
    assert user is not None
    assert item is not None
    return Delimited(separator.encode(), len(found), user, item, time, header, rating)


def described(columns_spec: str, head: list[str]) -> Delimited:
    """The columns of `--columns`: a template of a line such as `user;item;-;time`, or names: `user=client,item=sku`.

    A template also shows the separator. With names the file has a header, and the separator is detected from it.
    Raises DataError for a text that is neither.
    """
    if "=" in columns_spec:
        names = dict(pair.split("=", 1) for pair in columns_spec.split(",") if "=" in pair)
        separator = next((s for s in ("\t", ";", "|", ",", " ") if s in head[0]), ",")
        if not {"user", "item"} <= set(names) <= {"user", "item", "time", "rating"}:
            raise DataError(
                f"--columns {columns_spec!r}: expected user=NAME,item=NAME and perhaps time=NAME, rating=NAME"
            )
        return named(head[0], separator, names)
    separator = next((c for c in columns_spec if not (c.isalnum() or c in "_-")), "")
    fields = [name for name in columns_spec.split(separator) if name] if separator else [columns_spec]
    if fields.count("user") != 1 or fields.count("item") != 1 or fields.count("time") > 1 or not separator.isascii():
        raise DataError(f"--columns {columns_spec!r}: expected a line such as user;item;-;time, or user=NAME,item=NAME")
    time, rating = (fields.index(what) if fields.count(what) == 1 else None for what in ("time", "rating"))
    user, item = fields.index("user"), fields.index("item")
    return Delimited(separator.encode(), len(fields), user, item, time, rating=rating)


def _numbers(column: np.ndarray, first_line: int, what: str) -> np.ndarray:
    """int64, or float64 where there are fractions. In float32, different seconds since 1970 would be equal."""
    whole = integers(column)
    if whole is not None:
        return whole
    try:
        values = column.astype(np.float64)
    except ValueError:
        values = np.array([_float_or_nan(field) for field in column.tolist()])
    if not np.all(np.isfinite(values)):
        at = int(np.argmin(np.isfinite(values)))
        field = column[at].decode(errors="replace")
        raise DataError(f"line {at + first_line}: {what} {field!r} is not a finite number")
    return values


def _float_or_nan(field: bytes) -> float:
    try:
        return float(field)
    except ValueError:
        return float("nan")


def _without_first_line(chunks: Iterable[bytes]) -> Iterable[bytes]:
    first = True
    for chunk in chunks:
        yield chunk.split(b"\n", 1)[1] if first else chunk
        first = False


def _object(line: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        try:
            row = ast.literal_eval(line)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise DataError(f"line {number} is neither JSON nor a Python literal") from None
    if not isinstance(row, dict):
        raise DataError(f"line {number} is no object")
    return row


def _pick(row: dict[str, Any], names: tuple[str, ...]) -> Any:
    lowered = {str(name).lower(): value for name, value in row.items()}
    for name in names:
        if name in lowered:
            return lowered[name]
    raise KeyError(names[0])
