"""Times in text, as seconds since 1970: ISO 8601, and dates such as 04/12/2023 and 04.12.2023."""

import re

import numpy as np

_DATE = b"0000-00-00T00:00:00."      # the form of a date, 0 for any digit; more digits may follow
_BY_DAY_OR_MONTH = re.compile(
    rb"(\d\d?)([./-])(\d\d?)\2(\d{4})(?:[ T](\d\d?):(\d\d)(?::(\d\d))?(?: ?([AaPp])[Mm])?)?"
)
_EARLIEST, _LATEST = 631_152_000, 2_051_222_400      # 1990 and 2035 in seconds since 1970
_UNITS = (1.0, 1e3, 1e6, 1e9)                         # how many a second has
_SAMPLE = 20                                        # values that decide whether a column looks like times


def iso_8601(strings: np.ndarray) -> np.ndarray | None:
    """Dates in ISO 8601 as seconds since 1970 in UTC, int64 if all are whole; None if one is no such date.

    A zone is Z, UTC, GMT, or an offset such as +02:00; 2023/12/03 is read, too. The form is checked here, as NumPy
    would also accept "now", and a month without a day.
    """
    for other, usual in ((b" UTC", b"Z"), (b" GMT", b"Z"), (b"/", b"-")):
        if np.any(strings.view(np.uint8) == other[-1]):
            strings = np.char.replace(strings, other, usual)
    each = strings.view(np.uint8).reshape(len(strings), -1).copy()
    row, length = np.arange(len(strings)), np.char.str_len(strings)
    zone = each[row, length - 1] == ord("Z")
    length = length - zone
    each[row[zone], length[zone]] = 0
    if (offset := _offsets(each, length)) is None:
        return None
    form = np.where((each >= ord("0")) & (each <= ord("9")), ord("0"), np.where(each == ord(" "), ord("T"), each))
    wanted = np.frombuffer(_DATE.ljust(each.shape[1], b"0"), np.uint8)[: each.shape[1]]
    other = (form != wanted) & (np.arange(each.shape[1]) < length[:, None])
    if np.any(other) or not np.all(np.isin(length, (10, 13, 16, 19)) | (length > 20)):     # to a day, an hour, ...
        return None
    try:
        micro = each.view(strings.dtype).reshape(-1).astype("M8[us]").astype(np.int64) - offset * 60_000_000
    except ValueError:
        return None
    return seconds(micro)


def _offsets(each: np.ndarray, length: np.ndarray) -> np.ndarray | None:
    """The minutes of offsets such as +02:00 or -0530, which are removed from both arrays; None if one is invalid."""
    every, minutes = np.arange(len(each)), np.zeros(len(each), np.int64)
    for form in ("00:00", "0000"):
        size = len(form) + 1
        at = np.maximum(length - size, 0)
        sign = np.where(each[every, at] == ord("+"), 1, np.where(each[every, at] == ord("-"), -1, 0))
        (rows,) = np.nonzero((sign != 0) & (length >= 13 + size))
        if not len(rows):
            continue
        tail = each[rows[:, None], at[rows][:, None] + np.arange(1, size)]
        digits = tail[:, [place for place, c in enumerate(form) if c == "0"]].astype(np.int64) - ord("0")
        if np.any((digits < 0) | (digits > 9)) or (":" in form and np.any(tail[:, 2] != ord(":"))):
            return None
        minutes[rows] = sign[rows] * (digits @ [600, 60, 10, 1])
        each[rows[:, None], at[rows][:, None] + np.arange(size)] = 0
        length[rows] -= size
    return minutes


def seconds(micro: np.ndarray) -> np.ndarray:
    """Microseconds as seconds: int64 if all are whole, else float64."""
    return micro // 1_000_000 if not np.any(micro % 1_000_000) else micro / 1e6


def by_day_or_month(strings: np.ndarray) -> np.ndarray | None:
    """Dates with the year last as integers (n, 5); None where one is no such date.

    The columns: first number, second number, year, seconds of the day, and 1 where points separate the numbers. A time
    of day may follow, of 24 hours or with AM or PM.
    """
    rows = []
    for text in strings.tolist():
        if (match := _BY_DAY_OR_MONTH.fullmatch(text)) is None:
            return None
        first, mark, second, year, hour, minute, second_of_minute, half = match.groups()
        h, m, s = int(hour or 0), int(minute or 0), int(second_of_minute or 0)
        if half:
            if not 1 <= h <= 12:
                return None
            h = h % 12 + 12 * (half in b"Pp")
        if h > 23 or m > 59 or s > 59:
            return None
        rows.append((int(first), int(second), int(year), 3600 * h + 60 * m + s, mark == b"."))
    return np.array(rows, np.int64)


def in_seconds(rows: np.ndarray) -> np.ndarray:
    """The rows of `by_day_or_month`, of a whole column, as seconds since 1970: int64 (n,).

    The day comes first if points separate the numbers, or if a first number is above 12. The month comes first if a
    second number is above 12. Raises ValueError, with an example, if neither or both hold, and for a date that does not
    exist.
    """
    first, second, year, clock, points = rows.T
    by_day, by_month = (first > 12) | (points == 1), second > 12
    if np.any(by_day) and np.any(by_month):
        one, other = (shown_date(rows[np.argmax(which)]) for which in (by_day, by_month))
        raise ValueError(f"time {one} has the day first, and {other} the month: expected one order in the column")
    if len(rows) and not np.any(by_day | by_month):
        raise ValueError(
            f"times such as {shown_date(rows[0])} may have the day or the month first, and no number above 12 shows "
            "which: write them as 2023-12-31"
        )
    day, month = (first, second) if np.any(by_day) else (second, first)
    begins = (year - 1970).astype("M8[Y]").astype("M8[M]") + (month - 1)
    date = begins.astype("M8[D]") + (day - 1)
    wrong = (month < 1) | (month > 12) | (day < 1) | (date.astype("M8[M]") != begins)
    if np.any(wrong):
        raise ValueError(f"time {shown_date(rows[np.argmax(wrong)])} is no date")
    return date.astype(np.int64) * 86_400 + clock


def shown_date(row: np.ndarray) -> str:
    mark = "." if row[4] else "/"
    return mark.join(f"{number:02}" for number in row[:3].tolist())


def look_like_times(values: list[str]) -> bool:
    """Are these values of a column dates, or times from 1990 to 2035 in one of the units of `unit_of`?"""
    values = [value for value in values[:_SAMPLE] if value]
    if not values:
        return False
    strings = np.array([value.encode("utf-8", "surrogatepass") for value in values])
    try:
        numbers = strings.astype(np.float64)
    except ValueError:
        return any(way(strings) is not None for way in (iso_8601, by_day_or_month))
    return unit_of(numbers) is not None


def unit_of(numbers: np.ndarray) -> float | None:
    """How many units a second has, 1, 1e3, 1e6 or 1e9, if all numbers are times from 1990 to 2035; else None."""
    return next((u for u in _UNITS if np.all((_EARLIEST * u <= numbers) & (numbers < _LATEST * u))), None)


def unit_of_each(numbers: np.ndarray) -> np.ndarray:
    """`unit_of` each number alone, and 0 for None. Shapes: (n,) -> (n,)."""
    return np.sum([u * ((_EARLIEST * u <= numbers) & (numbers < _LATEST * u)) for u in _UNITS], axis=0)
