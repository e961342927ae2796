"""An exercise, and the verdict on an answer to it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

SORTS = (
    "predict the number",
    "write the op",
    "derive the backward",
    "write the property that kills this bug",
    "find the bug",
)
RIGHT, WRONG, UNANSWERED = "right", "wrong", "unanswered"


@dataclass(frozen=True)
class Grade:
    """What a grader says of an answer: the outcome, a sentence, and lines that show why."""

    outcome: str
    says: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Exercise:
    """One exercise: `grader(answer)` grades an answer; `hints` are a hint and a stronger one, never the solution.

    `name` is also the answer's name in the chapter; `difficulty` is 1 to 3, `minutes` an estimate.
    """

    name: str
    sort: str
    difficulty: int
    minutes: int
    task: str
    grader: Callable[[Any], Grade]
    hints: tuple[str, str]

    def __post_init__(self) -> None:
        if self.sort not in SORTS:
            raise ValueError(f"{self.name}: sort is {self.sort!r}, expected one of {', '.join(SORTS)}")
        if self.difficulty not in (1, 2, 3) or self.minutes < 1:
            raise ValueError(f"{self.name}: difficulty {self.difficulty}, {self.minutes} min, expected 1 to 3, 1 up")
        if not self.name.isidentifier():
            raise ValueError(f"{self.name!r} is no name that an answer could have")

    @property
    def label(self) -> str:
        """Sort, difficulty and time, as chapters and lists show them."""
        return f"{self.sort}, {'★' * self.difficulty}{'☆' * (3 - self.difficulty)}, {self.minutes} min"


@dataclass(frozen=True)
class Verdict:
    """What `check` returns: true where the answer is right. It prints, and shows in a notebook, as text."""

    exercise: Exercise
    grade: Grade
    hint: int = 0

    def __bool__(self) -> bool:
        return self.grade.outcome == RIGHT

    def __str__(self) -> str:
        mark = {RIGHT: "✓", WRONG: "✗", UNANSWERED: "·"}[self.grade.outcome]
        lines = [f"{mark} {self.exercise.name}: {self.grade.says}", *self.grade.lines]
        if self:
            return "\n".join(_wrapped(lines))
        if self.grade.outcome == UNANSWERED:
            lines.append(f"  {self.exercise.task} ({self.exercise.label})")
        lines += [f"hint {i}: {text}" for i, text in enumerate(self.exercise.hints[: self.hint], start=1)]
        if self.hint < len(self.exercise.hints):
            which = "a hint" if self.hint == 0 else "a stronger hint"
            lines.append(f'  for {which}: check("{self.exercise.name}", {self.exercise.name}, hint={self.hint + 1})')
        return "\n".join(_wrapped(lines))

    __repr__ = __str__


def _wrapped(lines: list[str]) -> Iterator[str]:
    """Sentences wrapped at 100 characters; indented arrays are kept as they are."""
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if len(line) <= 100 or (indent >= 4 and "=" in line):
            yield line
        else:
            yield from textwrap.wrap(line, 100, subsequent_indent=" " * (indent + 2), break_on_hyphens=False)
