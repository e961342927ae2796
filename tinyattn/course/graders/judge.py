"""Grades a property that the reader writes, by functions that the exercise lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..exercise import RIGHT, WRONG, Grade
from .calling import described, no_function, run_answer

RUNS = 3                # of a property, which may draw random inputs


@dataclass(frozen=True)
class Judged:
    """A function of which the property is true, or false if it is not `right`; what is asked of a reader who errs."""

    says: str
    f: Callable[..., Any]
    right: bool = True
    question: str = ""
    diagnosis: str = ""


@dataclass(frozen=True)
class Judge:
    """Grades a property: `answer(f, *given)` is true of the right functions of `listed`, and false of the wrong ones.

    It returns whether the property holds; or it asserts, and returns nothing where it does. `holds` is the library's.
    """

    listed: tuple[Judged, ...]
    holds: Callable[..., bool]
    given: tuple[Any, ...] = ()

    asks = "a property"

    def reference(self) -> Callable[..., Any]:
        """The library's own property."""
        return self.holds

    def kindly(self, answer: Callable[..., Any]) -> Callable[..., bool]:
        """The answer for further use: it returns True or False."""

        def holds(*args: Any) -> bool:
            try:
                told = answer(*args)
            except AssertionError:
                return False
            return told is None or bool(told)

        return holds

    def __call__(self, answer: Any) -> Grade:
        if not callable(answer):
            return no_function(answer)
        nothing = True
        for one in self.listed:
            for _ in range(RUNS):
                told = self._ask(answer, one.f)
                if isinstance(told, Grade):
                    return told
                nothing &= told is None
                if (told is not False) != one.right:
                    return self._misjudged(one, nothing)
        right = sum(one.right for one in self.listed)
        wrong = len(self.listed) - right
        return Grade(RIGHT, f"right. It is true of {_counted(right)} right, and false of {_counted(wrong)} wrong.")

    def _ask(self, answer: Callable[..., Any], f: Callable[..., Any]) -> Any:
        """True, False, None where it returned nothing, or the grade of an answer that cannot be asked."""
        try:
            told = run_answer(answer, f, *self.given)
        except AssertionError:
            return False
        if told is None or isinstance(told, Grade):
            return told
        if isinstance(told, bool | np.bool_):
            return bool(told)
        says = f"it returns {described(told)}, expected True or False. np.all or bool around it?"
        return Grade(WRONG, says)

    def _misjudged(self, one: Judged, nothing: bool) -> Grade:
        if one.right:
            return Grade(WRONG, "it is false of what is right.", (f"  {one.says}",), one.question, one.diagnosis)
        if nothing:
            return Grade(WRONG, "it always returns None, expected True or False. Is the `return` missing?")
        return Grade(WRONG, "it is true of what is wrong.", (f"  {one.says}",), one.question, one.diagnosis)


def _counted(n: int) -> str:
    return f"{n} that {'is' if n == 1 else 'are'}"
