"""Converts between the data's ids and the numbers 1, 2, 3, ... that models use (0 is padding)."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from ..terminal import quoted, shortened
from .distinct import signed


class Vocabulary:
    """A sorted list of distinct ids, integers or strings; id `ids[i]` has the number i + 1."""

    def __init__(self, ids: np.ndarray, what: str = "item"):
        """`ids` must be sorted and distinct; error messages call them `what` ids."""
        self.ids = signed(ids, f"{what} id")
        self.what = what

    def __len__(self) -> int:
        return len(self.ids)

    def numbers(self, ids: Iterable[Any]) -> np.ndarray:
        """The numbers of `ids`. Raises ValueError, naming the first unknown id, and for an argument that is no list."""
        try:
            ids = list(ids)
        except TypeError:
            raise ValueError(f"{shortened(repr(ids))} is no list of {self.what} ids") from None
        if not ids:
            return np.empty(0, dtype=np.int64)
        wanted = np.array(ids) if self.ids.dtype.kind != "U" and set(map(type, ids)) == {int} else None
        if wanted is None or wanted.dtype.kind != "i":                 # other types, and integers beyond 64 bits
            wanted = np.array([self._convert(i) for i in ids])
        place = self.ids.searchsorted(wanted)
        known = self.ids[np.minimum(place, len(self.ids) - 1)] == wanted
        if not known.all():
            raise ValueError(self._unknown(ids[int(np.argmin(known))]))
        return place + 1

    def numbers_or_zero(self, ids: np.ndarray) -> np.ndarray:
        """The numbers of `ids`, 0 for an unknown one. As in `numbers`, 7 equals "7"."""
        if (ids.dtype.kind == "U") != (self.ids.dtype.kind == "U"):
            return np.array([self.number_or_zero(i) for i in ids.tolist()], dtype=np.int64)
        place = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[place] == ids, place + 1, 0)

    def number_or_zero(self, value: Any) -> int:
        """The number of an id, 0 for an unknown one."""
        try:
            return int(self.numbers([value])[0])
        except ValueError:
            return 0

    def decode(self, numbers: np.ndarray) -> np.ndarray:
        """The ids of `numbers` (each in 1..len)."""
        return self.ids[np.asarray(numbers) - 1]

    def _convert(self, value: Any) -> Any:
        """The value as an id of the same type. Raises ValueError where it can be none."""
        if self.ids.dtype.kind == "U":
            if "\0" not in str(value):               # NumPy drops a NUL at the end, which would match another id
                return str(value)
        else:
            with suppress(TypeError, ValueError, OverflowError, np.ma.MaskError):     # OverflowError: infinity
                number = int(value)
                same = str(number) == value.strip() if isinstance(value, str) else number == value     # not 1_2, 3.5
                if same and -(2**63) <= number < 2**63 and not isinstance(value, bool | np.bool_):
                    return number
        raise ValueError(self._unknown(value))

    def _unknown(self, value: Any) -> str:
        some = ", ".join(map(quoted, self.ids[:3].tolist())) + (", ..." if len(self.ids) > 3 else "")
        return f"unknown {self.what} id {shortened(quoted(value))}: the {len(self.ids):,} known ids are {some}"


def refuse_nul(texts: Iterable[str], what: str) -> None:
    """Raise ValueError for a text with a NUL: NumPy drops one at the end of a string, which would merge two ids."""
    for text in texts:
        if (place := text.find("\0")) >= 0:
            where = "" if len(text) <= 60 else f", its character {place + 1:,}"
            raise ValueError(f"{what} {shortened(text)!r} has a NUL in it{where}")


def refuse_masked(values: Any) -> None:
    """Raise ValueError for masked values: NumPy would use the numbers under the mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{np.ma.count_masked(values):,} of {values.size:,} values are masked, expected none")


def refuse_no_text(text: Any) -> None:
    """Raise ValueError for a text that is no string, such as a list of texts, and for an empty one."""
    if not isinstance(text, str):
        raise ValueError(f"the text is {shortened(repr(text))}, expected a string")
    if not text:
        raise ValueError("the text is empty: expected at least one character")
