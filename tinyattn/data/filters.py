"""Which rows of a file count: by rating, by the value of a column, by time."""

import re
from dataclasses import dataclass, fields

import numpy as np

from ..terminal import shortened
from .dates import by_day_or_month, in_seconds, iso_8601, unit_of
from .fields import DataError
from .table import Table

_WHERE = re.compile(r"""\s*(?P<column>[^=!'"]+?)\s*(?P<sign>==|!=)\s*(?P<quote>['"]?)(?P<value>.*?)(?P=quote)\s*""")


@dataclass(frozen=True, kw_only=True)
class Filters:
    """Rows that count meet all conditions that are not None.

    min_rating: the rating is at least this. where: `column == value` or `column != value`, with the column's name in
    the header, or in the template of --columns, and the value as the file writes it, perhaps in quotes. since, until:
    the time is at or after `since`, and before `until`; dates, or numbers as in the file.
    """

    min_rating: float | None = None
    where: str | None = None
    since: str | None = None
    until: str | None = None

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) is not None for field in fields(self))

    @property
    def condition(self) -> tuple[str, bool, str] | None:
        """The column of `where`, whether it must be equal, and the value. Raises DataError for another text."""
        if self.where is None:
            return None
        if (match := _WHERE.fullmatch(self.where)) is None:
            raise DataError(f"where is {shortened(self.where)!r}, expected a column and a value: event == 'purchase'")
        return match["column"], match["sign"] == "==", match["value"]

    def kept(self, table: Table) -> Table:
        """The rows that count. Raises DataError where the table lacks a column, and where no row is left."""
        keep = np.ones(len(table.users[1]), dtype=bool)
        if self.min_rating is not None:
            if table.ratings is None:
                raise DataError("min_rating needs ratings, and no column of ratings is known: name it by --columns")
            keep &= table.ratings >= self.min_rating
        if self.condition is not None:
            assert table.labels is not None
            column, equal, value = self.condition
            values, row = table.labels
            keep &= np.isin(row, np.flatnonzero(values.astype(str) == value)) == equal
            if not np.any(keep):
                seen = ", ".join(map(repr, values[:5].astype(str).tolist()))
                raise DataError(f"where {column} {'==' if equal else '!='} {value!r} leaves no row; it has {seen}")
        for name, text in (("since", self.since), ("until", self.until)):
            if text is not None:
                if table.times is None:
                    raise DataError(f"{name} needs times, and no column of times is known: name it by --columns")
                moment = moment_of(name, text, table.times)
                keep &= table.times >= moment if name == "since" else table.times < moment
        if not np.any(keep):
            raise DataError(f"no row of {len(keep):,} is left by {self}")
        return table.rows(keep)

    def __str__(self) -> str:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)


def moment_of(name: str, text: str, times: np.ndarray) -> float:
    """The time that a text names, in the unit of `times`. Raises DataError for a text that is no date and no number."""
    strings = np.array([text.strip().encode() or b"-"])
    try:
        return float(strings[0])
    except ValueError:
        pass
    seconds = iso_8601(strings)
    if seconds is None and (rows := by_day_or_month(strings)) is not None:
        try:
            seconds = in_seconds(rows)
        except ValueError as error:
            raise DataError(f"{name}: {error}") from None
    if seconds is None:
        raise DataError(f"{name} is {shortened(text)!r}, expected a date like 2023-12-31, or a number as in the file")
    if (unit := unit_of(times)) is None:
        raise DataError(f"{name} is the date {text}, and the times are no dates: {times[0]}; expected such a number")
    return float(seconds[0] * unit)
