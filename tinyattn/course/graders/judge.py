"""Grades a property that the reader writes, by right and wrong functions that the exercise lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..exercise import RIGHT, WRONG, Grade
from .calling import as_truth, ask_property, no_function

RUNS = 3                # of a property, which may draw random inputs


@dataclass(frozen=True)
class Judged:
    """A function, `right` if the property is true of it, and the hints for an answer that misjudges it."""

    says: str
    f: Callable[..., Any]
    right: bool = True
    question: str = ""
    diagnosis: str = ""


@dataclass(frozen=True)
class Judge:
    """Grades a property: `answer(f, *given)` is true of the right functions of `listed`, and false of the wrong ones.

    An answer returns a bool, or asserts and returns nothing. `holds` is the library's property.
    """

    listed: tuple[Judged, ...]
    holds: Callable[..., bool]
    given: tuple[Any, ...] = ()

    asks = "a property"

    def reference(self) -> Callable[..., Any]:
        return self.holds

    def kindly(self, answer: Callable[..., Any]) -> Callable[..., bool]:
        """The answer for later cells: it returns True or False."""
        holds = as_truth(answer)
        return lambda *args: bool(holds(*args))

    def __call__(self, answer: Any) -> Grade:
        if not callable(answer):
            return no_function(answer)
        nothing = True
        for one in self.listed:
            for _ in range(RUNS):
                holds, _ = ask_property(answer, one.f, *self.given)
                if isinstance(holds, Grade):
                    return holds
                nothing &= holds is None
                if (holds is not False) != one.right:
                    return self._misjudged(one, nothing)
        right = sum(one.right for one in self.listed)
        wrong = len(self.listed) - right
        return Grade(RIGHT, f"right. It is true of {_counted(right)} right, and false of {_counted(wrong)} wrong.")

    def _misjudged(self, one: Judged, nothing: bool) -> Grade:
        if one.right:
            return Grade(WRONG, "it is false of what is right.", (f"  {one.says}",), one.question, one.diagnosis)
        if nothing:
            return Grade(WRONG, "it always returns None, expected True or False. Is the `return` missing?")
        return Grade(WRONG, "it is true of what is wrong.", (f"  {one.says}",), one.question, one.diagnosis)


def _counted(n: int) -> str:
    return f"{n} that {'is' if n == 1 else 'are'}"
