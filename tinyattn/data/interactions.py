"""Interactions: all users' sequences in one flat array, and the offset of each user."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from ..terminal import shortened
from .dates import seconds, unit_of
from .distinct import distinct, distinct_integers, signed
from .fields import DataError, Times, integers
from .guess import unread_times
from .names import PLAIN_NAMES, USUAL_NAMES, plain
from .timed import TimedHistory, in_seconds, refuse_backwards
from .vocabulary import Vocabulary, refuse_masked, refuse_nul


@dataclass(frozen=True)
class Interactions:
    """All users' sequences, oldest item first. Items are numbers 1..n_items; `items.ids` has the file's ids."""

    flat: np.ndarray          # (N,) item numbers, user after user
    offsets: np.ndarray       # (n_users + 1,): user u (from 0) owns flat[offsets[u]:offsets[u + 1]]
    items: Vocabulary
    users: Vocabulary
    notes: dict[str, Any] = field(default_factory=dict)      # format, ties, k_core: for `report`, not data
    times: np.ndarray | None = None      # (N,) times, if known; ascending within a user
    ratings: np.ndarray | None = None    # (N,) float64: the user's rating of the item, if requested

    @property
    def n_items(self) -> int:
        return len(self.items)

    @property
    def n_users(self) -> int:
        return len(self.offsets) - 1

    def __len__(self) -> int:
        return len(self.flat)

    @property
    def sizes(self) -> dict[str, int]:
        return {"users": self.n_users, "items": self.n_items, "interactions": len(self)}

    @property
    def owner(self) -> np.ndarray:
        """(N,): the user of each interaction, counted from 0."""
        return np.repeat(np.arange(self.n_users), self.lengths)

    @property
    def rated(self) -> tuple[np.ndarray, np.ndarray]:
        """(ratings, times) of data that has both."""
        assert self.ratings is not None
        assert self.times is not None
        return self.ratings, self.times

    def sequence(self, u: int) -> np.ndarray:
        """The item numbers of user u, counted from 0, oldest first. A view."""
        return self.flat[self.offsets[u] : self.offsets[u + 1]]

    @cached_property
    def seconds(self) -> np.ndarray:
        """(N,) float64: `in_seconds` of `times`. Raises ValueError without times, and if they run backwards."""
        if self.times is None:
            raise ValueError("the model reads times, and these interactions have none: use data with a time column, or "
                             "--position t5, which reads places alone")  # fmt: skip
        refuse_backwards(seconds := in_seconds(self.times), np.diff(seconds) * (self.owner[1:] == self.owner[:-1]))
        return seconds

    def timed(self, u: int, count: int | None = None) -> TimedHistory:
        """The first `count` items of user u, counted from 0, by default all, with their times."""
        items = self.sequence(u)[:count]
        return TimedHistory.ordered(items, self.seconds[self.offsets[u] :][: len(items)])

    @property
    def lengths(self) -> np.ndarray:
        """(n_users,): how many interactions each user has."""
        return np.diff(self.offsets)

    @property
    def identical(self) -> int:
        """The number of rows that repeat the user, item and time of an earlier row; 0 without times."""
        if self.times is None:
            return 0
        order = np.lexsort((self.flat, self.times, self.owner))
        same = [part[order][1:] == part[order][:-1] for part in (self.owner, self.times, self.flat)]
        return int(np.sum(same[0] & same[1] & same[2]))

    @property
    def span(self) -> str:
        """The first and the last day, where times are seconds, milliseconds or microseconds since 1970; else ""."""
        if self.times is None or not len(self) or (unit := unit_of(self.times)) is None:
            return ""
        days = (datetime.fromtimestamp(float(end) / unit, UTC) for end in (np.min(self.times), np.max(self.times)))
        return " to ".join(f"{day:%Y-%m-%d}" for day in days)

    def k_core(self, k: int) -> "Interactions":
        """The k-core: users and items with at least k interactions among them. ValueError if it is empty, or k < 1."""
        if k < 1:
            raise ValueError(f"k of the k-core is {k}, expected at least 1")
        owner, keep, left = self.owner, np.ones(len(self), dtype=bool), len(self) + 1
        while left > (left := int(np.sum(keep))):            # as long as the last round removed some
            of_user = np.bincount(owner[keep], minlength=self.n_users)
            of_item = np.bincount(self.flat[keep], minlength=self.n_items + 1)
            keep = keep & (of_user[owner] >= k) & (of_item[self.flat] >= k)
        if not np.any(keep):
            raise ValueError(f"the {k}-core is empty: no users and items with {k} interactions among themselves remain")
        core = self.where(keep)
        return replace(core, notes=core.notes | {"k_core": k, "removed": len(self) - int(np.sum(keep))})

    def where(self, keep: np.ndarray) -> "Interactions":
        """The interactions where `keep` (N,) is true, with the users and items that they have."""
        users, user = np.unique(self.owner[keep], return_inverse=True)
        items, item = np.unique(self.flat[keep], return_inverse=True)
        offsets = offsets_of(np.bincount(user, minlength=len(users)))
        notes = {name: note for name, note in self.notes.items() if name != "ties"}  # counted over all users
        kept = self._rows(keep) | {"flat": (item + 1).astype(np.int32)}
        catalogue = Vocabulary(self.items.decode(items), "item")
        people = Vocabulary(self.users.decode(users + 1), "user")
        return Interactions(offsets=offsets, items=catalogue, users=people, notes=notes, **kept)

    def newest(self, count: int) -> "Interactions":
        """Only the newest `count` items of each user; the catalogue stays."""
        place = np.arange(len(self)) - np.repeat(self.offsets[1:], self.lengths)             # -1: a user's last item
        offsets = offsets_of(np.minimum(self.lengths, count))
        return replace(self, **self._rows(place >= -count), offsets=offsets, notes={})

    def first_users(self, count: int) -> "Interactions":
        """Only the first `count` users; the catalogue stays."""
        offsets = self.offsets[: count + 1]
        users = Vocabulary(self.users.ids[:count], "user")
        return Interactions(offsets=offsets, items=self.items, users=users, **self._rows(slice(offsets[-1])))

    def _rows(self, chosen: Any) -> dict[str, Any]:
        arrays = {name: getattr(self, name) for name in ("flat", "times", "ratings")}
        return {name: None if values is None else values[chosen] for name, values in arrays.items()}

    def report(self) -> dict[str, Any]:
        """A summary for `tinyattn data`: sizes, density, lengths, repeats of an item by a user, and `notes`."""
        lengths, owner = self.lengths, self.owner
        again = (self.flat[1:] == self.flat[:-1]) & (owner[1:] == owner[:-1])
        return {
            **self.sizes,
            "density": len(self) / (self.n_users * self.n_items),
            "length": {
                "least": int(np.min(lengths)),
                "median": float(np.median(lengths)),
                "mean": float(np.mean(lengths)),
                "most": int(np.max(lengths)),
            },
            "users with fewer than 3": int(np.sum(lengths < 3)),
            "repeats": len(self) - len(distinct(owner * (self.n_items + 1) + self.flat)),
            "repeats of the last one": int(np.sum(again)),
            "identical rows": self.identical,
            "first and last": self.span,
            **self.notes,
        }

    def in_numbers_of(self, items: Vocabulary) -> "Interactions":
        """The same interactions, with the item numbers of another vocabulary. ValueError names an id that it lacks."""
        if np.array_equal(self.items.ids, items.ids):
            return self
        flat = items.numbers_or_zero(self.items.ids)[self.flat - 1].astype(np.int32)
        if not np.all(flat):
            items.numbers(self.items.decode(self.flat[flat == 0]).tolist())          # raises
        return replace(self, flat=flat, items=items)

    def fingerprint(self, timed: bool = False) -> str:
        """A digest of sequences and ids, which does not depend on the file format.

        Times determine the order of each user's items. Their values are part of the digest only with ratings, or with
        `timed`.
        """
        digest = hashlib.sha256()
        parts = [self.flat.astype(np.int64), self.offsets.astype(np.int64), self.items.ids, self.users.ids]
        if self.ratings is not None or timed:
            parts += [part.astype(np.float64) for part in (self.ratings, self.times) if part is not None]
        for part in parts:
            digest.update(str(part.dtype.kind).encode())
            digest.update("\n".join(map(str, part.tolist())).encode() if part.dtype.kind == "U" else part.tobytes())
        return digest.hexdigest()[:16]

    @classmethod
    def from_columns(
        cls, users: np.ndarray, items: np.ndarray, times: np.ndarray | None = None, format: str = "columns",
        ratings: np.ndarray | None = None,
    ) -> "Interactions":  # fmt: skip
        """From columns with one interaction per row: ids as integers, strings or UTF-8 bytes.

        Each user's rows keep their order, or are sorted (stably) by `times`. `format` goes to `notes`.
        Raises ValueError for columns of different lengths or without rows, and for a time that is not finite.
        """
        columns = {"users": users, "items": items, "times": times, "ratings": ratings}
        rows = {what: len(column) for what, column in columns.items() if column is not None}
        if times is not None and times.dtype.kind == "f":
            _all_finite(times)
        if len(set(rows.values())) > 1:
            counts = ", ".join(f"{count:,} {what}" for what, count in rows.items())
            raise ValueError(f"columns of {counts}: expected as many of each")
        if not len(users):
            raise ValueError("no interactions: expected at least one row")
        return cls.from_numbered(_numbered(users), _numbered(items), times, format, ratings)

    @classmethod
    def from_numbered(
        cls, users: tuple[np.ndarray, np.ndarray], items: tuple[np.ndarray, np.ndarray],
        times: np.ndarray | None = None, format: str = "columns", ratings: np.ndarray | None = None,
    ) -> "Interactions":  # fmt: skip
        """As `from_columns`, with ids as a pair: the distinct ids, sorted, and each row's index into them."""
        (user_ids, user), (item_ids, item) = users, items
        order = _in_order(user, times)
        offsets = offsets_of(np.bincount(user, minlength=len(user_ids)))
        flat = (item[order] + 1).astype(np.int32)
        notes: dict[str, Any] = {"format": format}
        if times is not None:
            times = times[order]
            notes["ties"] = _tie_rate(times, flat, offsets)
        ratings = None if ratings is None else ratings[order]
        return cls(flat, offsets, Vocabulary(item_ids, "item"), Vocabulary(user_ids, "user"), notes, times, ratings)

    @classmethod
    def of(cls, data: Any) -> "Interactions":
        """From sequences, an array or a DataFrame; `Interactions` are returned unchanged.

        - a list of sequences of item ids, one per user, oldest first
        - an array with one interaction per row and two or three columns: user, item and perhaps time
        - a DataFrame of pandas or Polars, or an Arrow table, whose columns have usual names (user_id, item_id, rating,
          timestamp)

        Times are numbers or `datetime64`, whose unit is kept. Python's dates and ISO 8601 texts become seconds since
        1970. Ratings are dropped unless all are finite numbers.
        Raises ValueError, saying what was expected, for anything else.
        """
        if isinstance(data, Interactions):
            return data
        if hasattr(data, "collect"):
            raise ValueError(f"a {type(data).__name__} has no rows yet: pass what its collect() returns")
        if hasattr(data, "columns"):
            return cls._from_frame(data)
        if isinstance(data, np.ndarray) and data.ndim == 2:
            if data.shape[1] not in (2, 3):
                raise ValueError(f"an array of shape {data.shape}, expected columns user, item and perhaps time")
            refuse_masked(data)
            data = np.asarray(data)
            times = as_times(data[:, 2]) if data.shape[1] == 3 else None
            return cls.from_columns(_ids(data[:, 0], "user"), _ids(data[:, 1], "item"), times)
        return cls.from_sequences(data)

    @classmethod
    def _from_frame(cls, frame: Any) -> "Interactions":
        names = getattr(frame, "column_names", frame.columns)             # an Arrow table's columns are arrays
        there, known = {plain(str(name)): name for name in reversed(names)}, {}
        for what, usual in PLAIN_NAMES.items():
            name = next((there[name] for name in usual if name in there), None)
            if name is not None:
                known[what] = name
            elif what in ("user", "item"):
                raise ValueError(f"no {what} column among {', '.join(map(str, names))}: call it {USUAL_NAMES[what][0]}")
        columns = {what: _column(frame, name) for what, name in known.items()}
        if "time" not in columns:
            _refuse_unread_times(frame, [name for name in names if name not in known.values()])
        times = as_times(columns["time"]) if "time" in columns else None
        user, item = (_ids(columns[what], what) for what in ("user", "item"))
        return cls.from_columns(user, item, times, ratings=_numbers_or_none(columns.get("rating")))

    @classmethod
    def from_sequences(cls, sequences: Iterable[Sequence[Any]]) -> "Interactions":
        """From one sequence of item ids per user, oldest first. Users are numbered 1, 2, 3, ...

        Raises ValueError if there is no item, or unless ids are all integers or all strings.
        """
        expected = "expected a list of sequences, one a user, such as [[3, 5, 2], [5, 7]]"
        try:
            sequences = list(sequences)
        except TypeError:                    # not iterable, or an array without axes
            raise ValueError(f"{shortened(repr(sequences))} is no data: {expected}") from None
        if not all(np.ndim(s) == 1 and not isinstance(s, str) for s in sequences):
            raise ValueError(expected)
        for sequence in sequences:
            refuse_masked(sequence)
        arrays = [signed(np.asarray(s), "item id") for s in sequences]
        arrays = [a if a.size else a.astype(np.int64) for a in arrays]
        if not sum(a.size for a in arrays):
            raise ValueError("no interactions: expected at least one non-empty sequence of item ids")
        kinds = {a.dtype.kind for a in arrays if a.size}
        strings = [i for a, s in zip(arrays, sequences, strict=True) if a.dtype.kind == "U" for i in s]
        if not all(isinstance(i, str) for i in strings) or kinds not in ({"i"}, {"U"}):
            raise ValueError("item ids must be all integers or all strings")
        refuse_nul(strings, "item id")
        item_ids, item = np.unique(np.concatenate([a for a in arrays if a.size]), return_inverse=True)
        users = Vocabulary(np.arange(1, len(arrays) + 1), "user")
        offsets = offsets_of([a.size for a in arrays])
        return cls((item + 1).astype(np.int32), offsets, Vocabulary(item_ids, "item"), users)


def _column(frame: Any, name: Any) -> np.ndarray:
    refuse_masked(frame[name])
    column = _array(frame, name)
    if column.ndim != 1:
        raise ValueError(f"column {name} has shape {column.shape}, expected one value a row")
    if column.dtype.kind == "U" and hasattr(frame[name], "to_list"):               # Polars', which has lost NULs
        refuse_nul(frame[name].to_list(), f"in column {name},")
    return column


def _array(frame: Any, name: Any) -> np.ndarray:
    try:
        return np.asarray(frame[name])
    except Exception as error:                     # each package raises errors of other types
        raise ValueError(f"column {name} is no array of NumPy: {shortened(str(error), 300)}") from None


def _refuse_unread_times(frame: Any, names: list[Any]) -> None:
    """Raise ValueError if one of these columns, which are not read, looks like times."""
    columns = {}
    for name in names:
        column = _array(frame, name)
        if column.ndim == 1:
            is_time = column.dtype.kind == "M" or any(isinstance(value, date) for value in column[:1].tolist())
            columns[str(name)] = ["2000-01-01"] if is_time else [str(value) for value in column[:20].tolist()]
    if time := unread_times(columns):
        raise ValueError(
            f"column {time} looks like times, and is not known as such: call it {USUAL_NAMES['time'][0]}, or leave it "
            "out to keep the rows' order"
        )


def offsets_of(lengths: Any) -> np.ndarray:
    """Where sequences of these lengths begin when concatenated, and where the last one ends: (n + 1,)."""
    return np.concatenate([[0], np.cumsum(lengths)])


def _numbered(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """-> the distinct ids, sorted (as integers if all are integers), and for each row the index of its id."""
    if ids.dtype.kind == "S":
        whole = integers(ids)
        ids = np.char.decode(ids, "utf-8") if whole is None else whole
    return distinct_integers(ids) if ids.dtype.kind == "i" else np.unique(ids, return_inverse=True)


def _in_order(user: np.ndarray, times: np.ndarray | None) -> np.ndarray:
    """The order that sorts the rows by user, then by time, stably."""
    if times is None:
        return np.argsort(user, kind="stable")
    if times.dtype.kind == "i" and len(times):
        first = int(np.min(times))
        span = int(np.max(times)) - first + 1
        if (int(np.max(user)) + 1) * span < 2**63:              # one sort key for both: several times as fast
            return np.argsort(user * np.int64(span) + (times.astype(np.int64) - first), kind="stable")
    return np.lexsort((times, user))


def _tie_rate(times: np.ndarray, flat: np.ndarray, offsets: np.ndarray) -> float:
    """The share of users with two or more interactions whose last two are different items at the same time."""
    ends = offsets[1:][np.diff(offsets) >= 2]
    tied = (times[ends - 1] == times[ends - 2]) & (flat[ends - 1] != flat[ends - 2])
    return float(np.mean(tied)) if len(ends) else 0.0


def _ids(column: np.ndarray, what: str) -> np.ndarray:
    """A column of ids as integers or strings. Whole floats become integers, as an array with times may hold floats."""
    exact = 2 ** min(np.finfo(column.dtype).nmant + 1, 63) if column.dtype.kind == "f" else 0
    if exact and np.all(np.abs(column) < exact) and np.all(column == np.round(column)):
        return column.astype(np.int64)             # from `exact` on, several integers share a float
    if column.dtype.kind == "O":                   # from a DataFrame of several types
        if all(isinstance(i, str) for i in column.tolist()):
            refuse_nul(column.tolist(), f"{what} id")
            return column.astype(str)
        if all(isinstance(i, int) for i in column.tolist()):
            column = np.array(column.tolist())
    if column.dtype.kind not in "iuU":
        raise ValueError(f"{what} ids are {column.dtype}, expected integers or strings")
    return signed(column, f"{what} id")


def _numbers_or_none(ratings: np.ndarray | None) -> np.ndarray | None:
    """A frame's ratings, or None unless all are finite numbers: models that need ratings then refuse the data."""
    if ratings is None or ratings.dtype.kind not in "iuf" or not np.all(np.isfinite(ratings)):
        return None
    return ratings.astype(np.float64)


def as_times(column: np.ndarray) -> np.ndarray:
    """Numbers, dates or durations, in seconds or a unit of `unit_of`: int64 or float64. ValueError names the row."""
    values = column.tolist() if column.dtype.kind in "OSU" else []
    if column.dtype.kind == "S":
        values = column.astype(str).tolist()
    if values and all(isinstance(v, str) for v in values):
        return _parsed(values)
    if values and all(type(v) is int for v in values):             # as floats, large ones would lose digits
        column = np.array(values)
        if column.dtype.kind not in "iu":
            raise ValueError(f"time {shortened(str(max(values, key=abs)))} is no integer of 64 bits")
    dates = bool(values) and all(isinstance(v, date) for v in values)
    if dates:                                      # NumPy has no time zones
        if gone := [row for row, v in enumerate(values) if v != v]:             # pandas' NaT is a date
            raise ValueError(f"time NaT in row {gone[0]} is not a time")
        zoned = [v.astimezone(UTC).replace(tzinfo=None) if getattr(v, "tzinfo", None) else v for v in values]
        column = np.array(zoned, "M8[us]")
    if column.dtype.kind == "M":
        if np.any(np.isnat(column)):
            raise ValueError(f"time NaT in row {int(np.argmax(np.isnat(column)))} is not a time")
        known = not dates and unit_of(column.astype(np.int64))
        return column.astype(np.int64) if known else seconds(column.astype("M8[us]").astype(np.int64))
    if column.dtype.kind in "iu":
        return signed(column, "time").astype(np.int64)
    if column.dtype.kind not in "OUSfm":
        raise ValueError(f"times are {column.dtype}, expected numbers or dates")
    try:
        numbers = column / np.timedelta64(1, "s") if column.dtype.kind == "m" else column.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        row = next((row for row, v in enumerate(values) if not isinstance(v, Real)), 0)
        raise ValueError(f"time {shortened(str(values[row]))!r} in row {row} is no number, not all are dates") from None
    return _all_finite(numbers)


def _parsed(texts: list[str]) -> np.ndarray:
    """Times from texts, by the rules for files."""
    times = Times()
    try:
        times.add_strings([text.strip() for text in texts], range(len(texts)))
    except DataError as error:
        raise ValueError(str(error).replace("line", "row", 1)) from None
    return times.values()


def _all_finite(times: np.ndarray) -> np.ndarray:
    if not np.all(np.isfinite(times)):
        row = int(np.argmin(np.isfinite(times)))
        raise ValueError(f"time {times[row]} in row {row} is not a finite number")
    return times
