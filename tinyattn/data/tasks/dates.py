"""Dates in everyday forms become dates in ISO 8601: "3rd of May 1999" becomes "1999-05-03".

Ambiguous forms have one meaning. 03/05/99, 3.5.1999 and 03.05.99 have the day first, as in most of the world; after a
year of four digits, as in 1999/05/03, the month is second. A year of two digits is 1969 to 2068, as in POSIX.
"""

import datetime
from dataclasses import dataclass

import numpy as np

from ...options import option
from .task import Task

# {d} and {dd} the day, {th} the day with its ending, {m} and {mm} the month, {yyyy} and {yy} the year
FORMS = (
    "{th} of {Month} {yyyy}", "the {th} of {Month}, {yyyy}", "{d} {Month} {yyyy}", "{d} {Mon} {yyyy}",
    "{Month} {d}, {yyyy}", "{Month} {th}, {yyyy}", "{Mon} {d} {yyyy}", "{Mon}. {d}, {yyyy}", "{Mon} {th} '{yy}",
    "{Weekday}, {d} {Month} {yyyy}", "{Weekday} {th} of {Month} {yyyy}", "{Day}, {Mon} {d}, {yyyy}",
    "{Day} {d} {Mon} {yy}", "{th} {Mon} {yy}", "{dd}/{mm}/{yyyy}", "{d}/{m}/{yyyy}", "{dd}/{mm}/{yy}",
    "{d}.{m}.{yyyy}", "{dd}.{mm}.{yy}", "{d}-{Mon}-{yyyy}", "{yyyy}/{mm}/{dd}", "{yyyy}-{m}-{d}",
    "{yyyy} {Month} {d}", "{dd}{mm}{yyyy}",
)  # fmt: skip
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
CASES = (str, str, str.lower, str.upper)           # half of all dates keep their case
SHORT_YEARS = range(1969, 2069)                    # years of two digits


@dataclass(frozen=True, kw_only=True)
class Dates(Task):
    """A date in one of 24 forms, in upper, lower or mixed case, becomes a date in ISO 8601."""

    first: int = option(1900, "the first year", at_least=1000, at_most=9999)
    last: int = option(2099, "the last year", at_least=1000, at_most=9999)

    name = "dates"
    title = "dates: as people write them, and as ISO 8601 does"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.first > self.last:
            raise ValueError(f"first is {self.first} and last {self.last}, expected first <= last")

    def pair(self, rng: np.random.Generator) -> tuple[str, str]:
        first, last = (datetime.date(*day).toordinal() for day in ((self.first, 1, 1), (self.last, 12, 31)))
        date = datetime.date.fromordinal(int(rng.integers(first, last + 1)))
        forms = [form for form in FORMS if date.year in SHORT_YEARS or "{yy}" not in form]
        case = CASES[rng.integers(len(CASES))]
        return case(in_form(date, forms[rng.integers(len(forms))])), date.isoformat()


def in_form(date: datetime.date, form: str) -> str:
    d, m, y = date.day, date.month, date.year
    weekday, month = WEEKDAYS[date.weekday()], MONTHS[m - 1]
    ending = "th" if d in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(d % 10, "th")
    return form.format(
        d=d, dd=f"{d:02}", th=f"{d}{ending}", m=m, mm=f"{m:02}", yyyy=f"{y}", yy=f"{y % 100:02}",
        Month=month, Mon=month[:3], Weekday=weekday, Day=weekday[:3],
    )  # fmt: skip
