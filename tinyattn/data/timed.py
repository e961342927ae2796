"""Histories whose items have times, for models that read them."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from .dates import unit_of, unit_of_each


@dataclass(frozen=True, eq=False)
class TimedHistory:
    """Item numbers, oldest first, and their times in seconds. Shapes: items (n,), seconds (n,) float64.

    Raises ValueError for more or fewer times than items, and for times that run backwards or are not finite.
    """

    items: np.ndarray
    seconds: np.ndarray

    def __post_init__(self) -> None:
        if len(self.items) != len(self.seconds):
            raise ValueError(f"{len(self.seconds):,} times for {len(self.items):,} items, expected one each")
        before, after = self.seconds[:-1], self.seconds[1:]
        ends = (float(self.seconds[0]), float(self.seconds[-1])) if len(self.seconds) else ()
        if not ((after >= before).all() and all(map(math.isfinite, ends))):
            refuse_backwards(self.seconds, after - before)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, part: slice) -> "TimedHistory":
        make = TimedHistory if (part.step or 1) < 0 else TimedHistory.ordered
        return make(self.items[part], self.seconds[part])

    @classmethod
    def ordered(cls, items: np.ndarray, seconds: np.ndarray) -> Self:
        """Of times that are known to be in order, and are not checked again: a batch has many histories."""
        history = object.__new__(cls)
        history.__dict__.update(items=items, seconds=seconds)
        return history

    def without(self, j: int) -> "TimedHistory":
        """The history without its j-th item."""
        return TimedHistory(np.delete(self.items, j), np.delete(self.seconds, j))


def refuse_backwards(seconds: np.ndarray, steps: np.ndarray) -> None:
    """Raise ValueError for a time that is not finite, and for one that comes before the time of the item before it.

    Shapes: seconds (n,), steps (n - 1,): from each time to the next, 0 between histories.
    """
    if not np.all(np.isfinite(seconds)):
        raise ValueError(f"time {seconds[np.argmin(np.isfinite(seconds))]} of a history is not a finite number")
    if np.any(steps < 0):
        at = int(np.argmax(steps < 0))
        times = f"time {seconds[at + 1]:.16g} follows {seconds[at]:.16g}"
        raise ValueError(f"times of a history run backwards: {times}; expected the oldest item first")


def in_seconds(times: np.ndarray) -> np.ndarray:
    """Times as float64, in seconds if `unit_of` recognises their unit, else unchanged. Shapes: (n,) -> (n,).

    Raises ValueError for times beyond 2^63, and for dates in a finer unit among others, as a part would be divided.
    """
    seconds = times.astype(np.float64) / (unit_of(times) or 1.0)
    far, units = np.abs(seconds) > 2.0**63, unit_of_each(seconds)
    if np.any(far):
        raise ValueError(f"time {seconds[np.argmax(far)]} is beyond 2^63 and no time")
    if np.any(units > 1):
        unit = units[at := np.argmax(units > 1)]
        one, other = (f"{seconds[place]:.16g}" for place in (at, np.argmax(units != unit)))
        raise ValueError(f"time {one} is a date in seconds / {unit:.0f}, and {other} is none: expected one unit; "
                         "--since and --until, with a number, leave out rows")  # fmt: skip
    return seconds
