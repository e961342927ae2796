"""Grades a number, or an array of numbers."""

import functools
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from numbers import Rational
from operator import itemgetter
from typing import Any

import numpy as np

from ..exercise import RIGHT, WRONG, Grade
from .calling import Listed, described

TINY = 1e-9             # absolute tolerance for rounding errors
ROUNDED = ", as it is rounded: all digits are asked for."


@dataclass(frozen=True)
class Number:
    """Grades a number, or an array of numbers, by comparison with what the library computes.

    `compute(**values)` returns the right value; the keywords are the values that vary from student to student.
    `tolerance` is relative to the largest entry. With `exactly`, the answer must be that whole number, up to
    rounding errors. `computed` ends the verdict on a right answer, with {} for the library's value. `tempting` are
    common wrong answers, each with a question and perhaps a diagnosis; they come from the chapter's TOML file.
    """

    compute: Callable[..., Any]
    tolerance: float = 0.0
    computed: str = "The library computes {}."
    exactly: bool = False
    tempting: Listed = ()

    asks = "a number"

    def __call__(self, answer: Any) -> Grade:
        expected = _once(self.compute)
        wanted = "a number" if expected.ndim == 0 else _counted(expected)
        try:
            got = np.asarray(answer)
            if got.dtype == object and all(isinstance(x, Rational | Decimal) for x in got.flat):
                got = got.astype(float)
        except ValueError:
            return Grade(WRONG, f"{reprlib.repr(answer)} has rows of different lengths, expected {wanted}")
        except Exception:  # a tensor that NumPy cannot read
            got = np.asarray(None)
        if got.dtype.kind not in "iuf":
            return Grade(WRONG, f"{described(answer)} is no answer here, expected {wanted}")
        if expected.ndim == 0 and got.size == 1:
            got = got.reshape(())
        if got.shape != expected.shape:
            if max(got.ndim, expected.ndim) < 2:
                return Grade(WRONG, f"{_counted(got)}, expected {expected.size}.")
            return Grade(WRONG, f"wrong shape: {got.shape}, expected {wanted}")
        if not np.all(np.isfinite(got)):
            return Grade(WRONG, f"{reprlib.repr(answer)} is not finite")
        got = _whole(got) if self.exactly else got
        if self._near(got, expected):
            return Grade(RIGHT, f"right. {self.computed.format(shown(expected))}")
        others = ((np.asarray(other, float), hints) for other, *hints in self.tempting)
        near = [(float(np.max(np.abs(got - other))), hints) for other, hints in others if self._near(got, other)]
        question, diagnosis = [*min(near, key=itemgetter(0), default=(0.0, [""]))[1], ""][:2]      # of the nearest
        if self.exactly and np.any(got != np.round(got)):
            says = f"{got[got != np.round(got)][0]:.15g} is not a whole number."      # enough digits to see it
        elif expected.ndim == 0:
            rounded = self.exactly and _rounded(float(got), float(expected))
            says = f"{shown(got)} is too {'large' if got > expected else 'small'}{ROUNDED if rounded else '.'}"
        else:
            at = np.unravel_index(int(np.argmax(np.abs(got - expected))), expected.shape)
            says = f"right shape, wrong values: look again at entry {[int(i) for i in at]}."
        return Grade(WRONG, says, question=question, diagnosis=diagnosis)

    def _near(self, got: np.ndarray, expected: np.ndarray) -> bool:
        if got.shape != expected.shape:
            return False
        if self.exactly:
            return bool(np.array_equal(got, _whole(expected)))
        allowed = self.tolerance * float(np.max(np.abs(expected))) + TINY
        return bool(np.max(np.abs(got - expected)) <= allowed)


def _whole(x: np.ndarray) -> np.ndarray:
    """x rounded, where it is a whole number up to rounding errors, as 8 ** (1 / 3) is; else x."""
    return np.where(np.abs(x - np.round(x)) <= TINY, np.round(x), x)


def _rounded(got: float, expected: float) -> bool:
    """Whether `got` is `expected` to fewer digits, and within one per cent of it."""
    digits = range(1, len(f"{abs(expected):.0f}"))
    return abs(got - expected) < 0.01 * abs(expected) and got in {round(expected, -n) for n in digits}


def shown(x: np.ndarray) -> str:
    """A number as text, with all digits if it is whole; up to six numbers as "1, 2 and 3"."""
    if x.ndim == 0:
        whole = abs(x) < 2.0**53 and x == np.round(x)
        return f"{float(x):,.0f}" if whole else f"{float(x):.4g}"
    if x.ndim > 1 or x.size > 6:
        return np.array2string(x, precision=4)
    *first, last = map(shown, map(np.asarray, x))
    return f"{', '.join(first)} and {last}" if first else last


def _counted(x: np.ndarray) -> str:
    if x.ndim > 1:
        return f"numbers of shape {x.shape}"
    return "one number" if x.ndim == 0 else f"{x.size} number{'s' * (x.size != 1)}"


@functools.cache
def _once(compute: Callable[[], Any]) -> np.ndarray:
    """compute(), kept: some of the numbers are means of many draws."""
    return np.array(compute(), float)
