"""File formats of interactions, detected from the first lines. A new format is one entry in FORMATS."""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ..terminal import shortened
from .dates import iso_8601, look_like_times
from .fields import BLANKS, Column, DataError, columns, lists
from .guess import flag, named_flag, refusal_of_unread, template_flag
from .json_lines import JsonLines
from .names import PLAIN_NAMES, USUAL_NAMES, plain
from .table import Table

_PAIR, _UNIT = b"::", b"\x1f"         # the separator of MovieLens' files, and a byte that replaces it


@dataclass(frozen=True)
class Delimited:
    """A table of fields, and the positions of its columns."""

    separators: bytes               # blanks, one byte, or ::; see `columns`
    width: int
    user: int
    item: int
    time: int | None = None
    header: str = ""                # the first line, if it names the columns
    rating: int | None = None
    names: tuple[str, ...] = ()     # of the columns, from the header or a template

    def wanted(self, ratings: bool = False, label: str | None = None) -> dict[str, int]:
        """The places of the columns to read; `label` names one more. Raises DataError for a label that is no column."""
        places = {"user": self.user, "item": self.item, "time": self.time, "rating": self.rating if ratings else None}
        if label is not None:
            there = list(map(plain, self.names))
            if plain(label) not in there:
                raise DataError(f"no column {label}; expected one of {', '.join(self.names) or 'those of a header'}")
            if there.index(plain(label)) in places.values():
                raise DataError(f"column {label} is read as user, item, time or rating, expected another one")
            places["label"] = there.index(plain(label))
        return {name: place for name, place in places.items() if place is not None}

    def fill(self, chunks: Iterable[bytes], places: dict[str, int], read: dict[str, Column]) -> None:
        """Add the rows to the columns at `places`."""
        if self.header:
            rest = iter(chunks)
            chunks = chain([next(rest, b"").partition(b"\n")[2]], rest)
        split = _in_pairs if self.separators == _PAIR else columns
        wanted = {place: read[name] for name, place in places.items()}
        split(chunks, self.separators, self.width, wanted, 2 if self.header else 1)

    def columns_read(self) -> str:
        """The columns that are read, then the others: by name, or without a header by place."""
        known = {"user": self.user, "item": self.item, "rating": self.rating, "time": self.time}
        places = {place: what for what, place in known.items() if place is not None}
        if not self.header:
            last = max(places)
            return ", ".join(places.get(place, "-") for place in range(last + 1))
        names = self.fields(self.header)
        read = ", ".join(f"{what} ({shortened(names[place])})" for place, what in sorted(places.items()))
        unread = ", ".join(name for place, name in enumerate(names) if place not in places)
        untimed = "; no times: the file's order is taken" if self.time is None else ""
        return read + untimed + (f"; not read: {shortened(unread)}" if unread else "")

    def fields(self, line: str) -> list[str]:
        return fields_of(line, "" if b" " in self.separators else self.separators.decode())

    def refuse_header_again(self, table: Table, rows: slice) -> None:
        """Raise DataError where the header is repeated in this file's rows of the table."""
        if not self.header or {table.users[0].dtype.kind, table.items[0].dtype.kind} != {"U"}:
            return
        named = self.fields(self.header)
        again = np.ones(len(table.users[1][rows]), dtype=bool)
        for (ids, row), place in ((table.users, self.user), (table.items, self.item)):
            again &= row[rows] == (int(np.searchsorted(ids, named[place])) if named[place] in ids else -1)
        if np.any(again):
            raise DataError(f"line {int(np.argmax(again)) + 2}: the header is repeated")


class Sequences:
    """One user a line, then the user's items, oldest first."""

    header = ""

    def columns_read(self) -> str:
        return "user, items"

    def wanted(self, ratings: bool = False, label: str | None = None) -> dict[str, int]:
        if label is not None:
            raise DataError(f"no column {label}: lines of a user and items have no others")
        return {"user": 0, "item": 1}

    def fill(self, chunks: Iterable[bytes], places: dict[str, int], read: dict[str, Column]) -> None:
        users = Column("user")
        lines, counts = lists(chunks, BLANKS, users, read["item"])
        if not np.any(counts):
            raise DataError("users and no items: expected `user item item ...` a line")
        ids, user = users.ids()
        order = np.argsort(user, kind="stable")
        same = np.flatnonzero(np.diff(user[order]) == 0)
        if len(same):
            first, second = lines[np.sort(order[same[0] : same[0] + 2])].tolist()
            raise DataError(f"lines {first} and {second} are of the same user, {ids[user[order[same[0]]]].item()!r}")
        read["user"].add_ids(ids, np.repeat(user, counts))


class Format(NamedTuple):
    """`sniff(first lines)` returns an object whose `read` reads such a file, or None for another format."""

    example: str
    sniff: Callable[[list[str]], Any]
    by_name: Callable[[list[str]], Any] | None = None    # instead of `sniff`, for a format that was named


def _sniff_header(*separators: str) -> Callable[[list[str]], Any]:
    """A header that names a column of users, split at the first of these separators in it; "" is blanks."""

    def sniff(head: list[str]) -> Any:
        for separator in separators:
            names = fields_of(_uncommented(head[0]), separator)
            if len(names) > 1:
                there = set(map(plain, names))
                needed = ["user"] if separator in ("\t", ",") else ["user", "item"]
                return named(head, separator) if all(there & set(PLAIN_NAMES[what]) for what in needed) else None
        return None

    return sniff


def _sniff_fields(separator: str, width: int, time: int | None) -> Callable[[list[str]], Any]:
    """A table without a header, of `width` fields in the first line: user, item, a rating if there are four, time."""
    table = Delimited(separator.encode() or BLANKS, width, 0, 1, time, rating=2 if width == 4 else None)

    def sniff(head: list[str]) -> Any:
        other = separator != "," and any(mark in head[0] for mark in ",;|")
        return None if other or len(table.fields(head[0])) != width else table

    return sniff


def _sniff_sequences(head: list[str]) -> Any:
    """Lines of different lengths, each of a different user. If a user comes twice, the file is a ragged table."""
    rows = [fields for line in head if (fields := fields_of(line, ""))]
    firsts = {row[0] for row in rows}
    lengths = {len(row) for row in rows}
    several = min(lengths) > 1 and (len(lengths) > 1 or max(lengths) > 4)
    if any(line.count("\t") > 1 and " " in line.strip() for line in head):       # fields with blanks inside
        return None
    return Sequences() if several and len(firsts) == len(rows) and "," not in head[0] else None


def _named_sequences(head: list[str]) -> Any:
    """Lines of a user and items; where all lengths are equal, `_sniff_sequences` would reject them as a table."""
    return Sequences() if all(len(fields_of(line, "")) != 1 for line in head) and "," not in head[0] else None


FORMATS = {
    "inter": Format("user_id:token<TAB>item_id:token<TAB>timestamp:float  (RecBole, typed header)",
                    lambda head: named(head, "\t") if ":token" in head[0] else None),
    "amazon-json": Format('{"reviewerID": .., "asin": .., "unixReviewTime": ..}  (one object a line)',
                          lambda head: JsonLines(head) if head[0].lstrip().startswith("{") else None),
    "movielens-csv": Format("userId,movieId,rating,timestamp  (header)", _sniff_header(",")),
    "gru4rec": Format("SessionId<TAB>ItemId<TAB>Time  (header)", _sniff_header("\t")),
    "header": Format("user item time  (header, also after #; columns separated by blanks, ; | or ::)",
                     _sniff_header("::", ";", "|", "")),
    "movielens-1m": Format("1::1193::5::978300760  (UserID::MovieID::Rating::Timestamp)",
                           lambda head: (Delimited(_PAIR, 4, 0, 1, 3, rating=2)
                                         if all(line.count("::") == 3 for line in head) else None)),
    "amazon-csv": Format("A1,B000,5.0,1370000000  (user,item,rating,timestamp)", _sniff_fields(",", 4, 3)),
    "movielens-100k": Format("1<TAB>242<TAB>3<TAB>881250949  (user, item, rating, time)", _sniff_fields("\t", 4, 3)),
    "sequences": Format("u i1 i2 i3 ...  (one user a line: S3Rec, STOSA)", _sniff_sequences, _named_sequences),
    "pairs": Format("u i  (one interaction a line, in order: SASRec)", _sniff_fields("", 2, None)),
    "triples": Format("u i t  (user, item, time)", _sniff_fields("", 3, 2)),
}  # fmt: skip


def detect(head: list[str], name: str | None = None) -> tuple[str, Any]:
    """-> the name and the reader of the format, which is `name` or is detected from the first lines.

    Raises DataError where no format fits, where `name` does not, and where line 1 seems to be an unknown header.
    """
    for known, form in FORMATS.items():
        sniff = form.by_name or form.sniff if name == known else form.sniff
        reader = sniff(head) if name in (None, known) else None
        if reader is not None:
            _refuse_header(head, reader)
            _refuse_exchanged(head, reader)
            _refuse_unread_times(head, reader)
            return known, reader
    if name is not None:
        raise _refused(head, f": that is not {name}, which looks like: {FORMATS[name].example}")
    if head[0].lstrip().startswith("["):
        raise _refused(head, ", as of a JSON array: expected an object on each line, as `jq -c '.[]'` writes them")
    if not set(head[0].strip()) & set(" \t;|,:"):
        raise _refused(head, ": one column, expected a user and an item at least")
    lists = "" if separator_of(head[0]) else "; or, if a line is a user and the user's items, --format sequences"
    raise _refused(head, f", and its columns are not known; if these are right, add {_flag(head)}{lists}")


def _refused(head: list[str], why: str) -> DataError:
    return DataError(f"line 1 is {shortened(head[0])!r}{why}")


def _refuse_header(head: list[str], reader: Any) -> None:
    """Raise DataError where line 1 would be read as ids, but seems to be a header or a comment: it has a usual name,
    words where all other lines have numbers, the only word for a time, or the only #."""
    if isinstance(reader, JsonLines) or (isinstance(reader, Delimited) and reader.header):
        return
    table = reader if isinstance(reader, Delimited) else Delimited(BLANKS, 2, 0, 1)
    places = table.user, table.item
    rows = [table.fields(line) for line in head]
    if len(rows[0]) <= max(places):
        return                                             # ragged: `columns` names the line
    ids = [[row[place] for place in places] for row in rows if len(row) > max(places)]
    usual = any(plain(name) in PLAIN_NAMES["user"] + PLAIN_NAMES["item"] for name in ids[0])
    numbers = [[_is_integer(field) for field in row] for row in ids]
    words = not any(numbers[0]) and len(ids) > 1 and all(map(all, numbers[1:]))
    times = [row[table.time] for row in rows if table.time is not None and len(row) == len(rows[0]) > table.time]
    timeless = len(times) > 1 and times[0].isidentifier() and not any(map(str.isidentifier, times[1:]))
    comment = head[0].startswith("#") and not any(line.startswith("#") for line in head[1:])
    if usual or words or timeless or comment:
        if comment and not (usual or words or timeless):
            raise _refused(head, ", which seems to be a comment: remove it")
        raise _refused(head, f", which seems to be a header; if these are its columns, add {_flag(head)}")


def _refuse_exchanged(head: list[str], reader: Any) -> None:
    """Raise DataError where a table without a header would have dates as items, or times as ratings."""
    if not isinstance(reader, Delimited) or reader.header:
        return
    rows = [row for line in head if len(row := reader.fields(line)) == reader.width]
    items, users = ([row[place] for row in rows] for place in (reader.item, reader.user))
    if any(all(iso_8601(np.array([field.encode()])) is not None for field in ids) for ids in (items, users)):
        raise _refused(head, f": its users or items would be dates; if these are its columns, add {_flag(head)}")
    if reader.rating is not None and reader.time is not None:
        ratings, times = ([row[place] for row in rows] for place in (reader.rating, reader.time))
        if look_like_times(ratings) and not look_like_times(times):
            which = flag(reader.separators.decode().join(["user", "item", "time", "rating"]))
            raise _refused(head, f": its ratings would be times, and its times ratings; add {which}")


def _refuse_unread_times(head: list[str], reader: Any) -> None:
    """Raise DataError where a table's order would be the file's, although a column looks like times."""
    if isinstance(reader, JsonLines):
        columns = {str(name): [str(value)] for name, value in reader.first.items() if isinstance(value, str | int)}
        untimed = "time" not in reader.names
        there = {plain(name): name for name in reversed(columns)}
        known = {what: there[plain(name)] for what in ("user", "item") for name in reversed(reader.names[what])
                 if plain(name) in there}  # fmt: skip
    elif isinstance(reader, Delimited) and reader.header:
        columns, names = _by_name(head, reader.fields), reader.fields(reader.header)
        untimed, known = reader.time is None, {"user": names[reader.user], "item": names[reader.item]}
    else:
        return
    if untimed and (refusal := refusal_of_unread(columns, known)):
        raise DataError(refusal)


def _by_name(head: list[str], split: Callable[[str], list[str]]) -> dict[str, list[str]]:
    """The fields of the first lines by the names in line 1."""
    names = split(_uncommented(head[0]))
    rows = [row for line in head[1:] if len(row := split(line)) == len(names)]
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _flag(head: list[str]) -> str:
    """The `--columns` that probably reads these lines."""
    separator = separator_of(head[0])

    def split(line: str) -> list[str]:
        return fields_of(line, separator)

    first = split(_uncommented(head[0]))
    if any(_is_number(field) or look_like_times([field]) for field in first):
        rows = [row for line in head[1:] if len(row := split(line)) == len(first)]
        return template_flag([first, *rows], separator)
    return named_flag(_by_name(head, split))


def separator_of(line: str) -> str:
    """The separator that a line shows, "" for blanks."""
    return next((separator for separator in ("::", "\t", ";", "|", ",") if separator in line), "")


def _uncommented(header: str) -> str:
    return header.removeprefix("#").strip(" ")


def _is_integer(field: str) -> bool:
    return field.removeprefix("-").isdecimal()


def _is_number(field: str) -> bool:
    return field.removeprefix("-").replace(".", "", 1).isdecimal()


def fields_of(line: str, separator: str) -> list[str]:
    """The fields of one line, stripped of blanks; none if its quotes are not CSV's. "" separates at blanks."""
    if not separator:
        return [field for field in line.replace("\t", " ").split(" ") if field]
    if '"' not in line or len(separator) != 1:
        return [field.strip(" \t") for field in line.split(separator)]
    try:
        reader = csv.reader([line], delimiter=separator, strict=True, skipinitialspace=True)
        return [field.strip(" \t") for field in next(reader)]
    except csv.Error:
        return []


def named(head: list[str], separator: str, names: dict[str, str] | None = None) -> Delimited:
    """The columns of a header, by `names` or their usual names. Raises DataError for a missing or repeated one."""
    header = _uncommented(head[0])
    fields = fields_of(header, separator)
    lowered = [field.lower().split(":")[0] for field in fields]
    if len(set(lowered)) < len(lowered):
        twice = next(name for name, count in Counter(lowered).items() if count > 1)
        raise DataError(f"line 1: the header names {shortened(twice)} twice")
    there, places = list(map(plain, fields)), {}
    chosen = {what: plain(name) for what, name in (names or {}).items()}
    for what, usual in PLAIN_NAMES.items():
        if what in ("time", "rating") and (names or {}).get(what) == "-":
            continue
        wanted = (chosen[what],) if what in chosen else [name for name in usual if name not in chosen.values()]
        place = next((there.index(name) for name in wanted if name in there), None)
        if place is None and what in chosen:
            raise DataError(f"line 1: the header {shortened(header.strip())!r} has no column {(names or {})[what]}")
        if place is None and what in ("user", "item"):
            guess = f"if these are right, add {named_flag(_by_name(head, lambda line: fields_of(line, separator)))}"
            raise DataError(f"line 1: no column {USUAL_NAMES[what][0]} in {shortened(header.strip())!r}; {guess}")
        if place is not None:
            places[what] = place
    if len(set(places.values())) < len(places):
        raise DataError(f"line 1: two of {', '.join(places)} are the same column of the header {shortened(header)!r}")
    user, item = places["user"], places["item"]
    separators = separator.encode() or BLANKS
    time, rating = places.get("time"), places.get("rating")
    return Delimited(separators, len(fields), user, item, time, header, rating, tuple(fields))


def described(columns_spec: str, head: list[str]) -> Delimited | JsonLines:
    """The columns of `--columns`: a template of a line such as `user;item;-;time`, or names: `user=client,item=sku`.

    A template shows the separator, a TAB also as \\t; names require a header, which shows the separator. `time=-` reads
    no times.
    Raises DataError for a text that is neither, and for a template where line 1 is a header.
    """
    if "=" in columns_spec:
        pairs = [pair.partition("=")[::2] for pair in columns_spec.split(",")]
        names = dict(pairs)
        if len(names) < len(pairs) or not {"user", "item"} <= set(names) <= set(USUAL_NAMES):
            raise DataError(
                f"--columns {columns_spec!r}: expected user=NAME,item=NAME and perhaps time=NAME, rating=NAME"
            )
        is_json = head[0].lstrip().startswith("{")
        reader = JsonLines(head, names) if is_json else named(head, separator_of(head[0]), names)
        if "time" not in names:
            _refuse_unread_times(head, reader)
        return reader
    columns_spec = columns_spec.replace(r"\t", "\t")         # a TAB is hard to type
    separator = next((c for c in columns_spec if not (c.isalnum() or c in "_-")), "")
    separator = "::" if separator == ":" and "::" in columns_spec else separator
    fields = columns_spec.split(separator if separator != " " else None) if separator else [columns_spec]
    counts = {what: fields.count(what) for what in USUAL_NAMES}
    good = counts["user"] == counts["item"] == 1 and max(counts.values()) == 1
    if not good or not separator.isascii() or not (separator.isprintable() or separator == "\t") or separator == '"':
        raise DataError(f"--columns {columns_spec!r}: expected a line such as user;item;-;time, or user=NAME,item=NAME")
    time, rating = (fields.index(what) if counts[what] else None for what in ("time", "rating"))
    separators = BLANKS if separator == " " else separator.encode()
    user, item = fields.index("user"), fields.index("item")
    table = Delimited(separators, len(fields), user, item, time, "", rating, tuple(fields))
    _refuse_header(head, table)
    return table


def _in_pairs(chunks: Iterable[bytes], pair: bytes, width: int, wanted: dict[int, Column], first_line: int) -> None:
    """`columns` of a table whose separator is ::, replaced by one byte."""

    def by_one() -> Iterator[bytes]:
        for chunk in chunks:
            if _UNIT in chunk:
                raise DataError("not text")
            yield chunk.replace(pair, _UNIT)

    try:
        columns(by_one(), _UNIT, width, wanted, first_line)
    except DataError as error:
        raise DataError(str(error).replace(repr(_UNIT)[2:-1], pair.decode())) from None
