"""An exercise, and the verdict on an answer to it."""

import textwrap
from collections.abc import Iterator
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
MARKS = {RIGHT: "✓", WRONG: "✗", UNANSWERED: "·"}
QUESTION, DIAGNOSIS, SOLUTION = 1, 2, 3          # levels of hints; each also shows the levels before it
_OFFERS = ("a question that leads", "the diagnosis", "the solution")


@dataclass(frozen=True)
class Grade:
    """A grader's result for an answer.

    `says` is a sentence; `lines` show the counterexample, the expected and the actual result. `question` and
    `diagnosis` are shown on request. `named` are the zoo's names of the bug, `note` is a remark on a right answer, and
    `not_kept` is the reason why a later notebook cannot use the answer.
    """

    outcome: str
    says: str
    lines: tuple[str, ...] = ()
    question: str = ""
    diagnosis: str = ""
    named: tuple[str, ...] = ()
    note: str = ""
    not_kept: str = ""


@dataclass(frozen=True)
class Exercise:
    """One exercise. `grader(answer)` gives a `Grade`; the classes of graders are in graders/.

    `name` is also the answer's name in the chapter; `difficulty` is 1 to 3, `minutes` an estimate. `hints` are a
    leading question and a diagnosis close to the solution. `why` is the reason for the solution, shown with it. `seed`
    is the seed that drew the exercise's numbers, or None for the chapter's own numbers.
    """

    name: str
    sort: str
    difficulty: int
    minutes: int
    task: str
    grader: Any
    hints: tuple[str, str]
    why: str = ""
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.sort not in SORTS:
            raise ValueError(f"{self.name}: sort is {self.sort!r}, expected one of {', '.join(SORTS)}")
        if self.difficulty not in (1, 2, 3) or self.minutes < 1:
            raise ValueError(f"{self.name}: difficulty {self.difficulty}, {self.minutes} min, expected 1 to 3, >= 1")
        if not self.name.isidentifier():
            raise ValueError(f"the exercise's name is {self.name!r}, expected a Python identifier")

    @property
    def label(self) -> str:
        """Sort, difficulty and time, as chapters and lists show them."""
        return f"{self.sort}, {'★' * self.difficulty}{'☆' * (3 - self.difficulty)}, {self.minutes} min"


@dataclass(frozen=True)
class Verdict:
    """What `check` returns: true where the answer is right. `print` and notebooks show it as text."""

    exercise: Exercise
    grade: Grade
    hint: int = 0
    solution: str = ""

    def __bool__(self) -> bool:
        return self.grade.outcome == RIGHT

    def __str__(self) -> str:
        grade, exercise = self.grade, self.exercise
        lines = [f"{MARKS[grade.outcome]} {exercise.name}: {grade.says}", *grade.lines]
        lines += [f"  {line}" for line in (grade.note, grade.not_kept) if line]
        if grade.outcome == UNANSWERED:
            lines.append(f"  {exercise.task} ({exercise.label})")
        if not self:
            lines += self._hints()
            if self.hint < SOLUTION:
                seed = "" if exercise.seed is None else f", seed={exercise.seed}"
                call = f'check("{exercise.name}", {exercise.name}{seed}, hint={self.hint + 1})'
                lines.append(f"  for {_OFFERS[self.hint]}: {call}")
        text = "\n".join(_wrapped(lines))
        return f"{text}\nthe solution:\n{self.solution}" if self.solution else text

    def _hints(self) -> Iterator[str]:
        grade, exercise = self.grade, self.exercise
        if self.hint >= QUESTION:
            question = grade.question or exercise.hints[0]
            yield f"{'question' if '?' in question else 'consider'}: {question}"
        if self.hint >= DIAGNOSIS:
            yield f"diagnosis: {' '.join(filter(None, (grade.diagnosis, exercise.hints[1])))}"
        if self.hint >= SOLUTION and exercise.why:
            yield f"why: {exercise.why}"

    __repr__ = __str__


def _wrapped(lines: list[str]) -> Iterator[str]:
    """Sentences wrapped at 100 characters; indented arrays are kept as they are."""
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if len(line) <= 100 or indent >= 4:
            yield line
        else:
            yield from textwrap.wrap(line, 100, subsequent_indent=" " * (indent + 2), break_on_hyphens=False)
