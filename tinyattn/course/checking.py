"""`check`: grade an answer to an exercise, at once and offline."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from .exercise import DIAGNOSIS, QUESTION, RIGHT, SOLUTION, UNANSWERED, Exercise, Grade, Verdict
from .exercises import BY_NAME

HINTS = (0, QUESTION, DIAGNOSIS, SOLUTION)
_RECORD: ContextVar[list[Verdict] | None] = ContextVar("record", default=None)
_ACCEPTED: ContextVar[dict[str, Any]] = ContextVar("accepted")
_HERE: dict[str, Any] = {}           # answers accepted in this process


def check(name: str, answer: Any = ..., *, hint: int = 0) -> Verdict:
    """Is `answer` right? -> a verdict: true if it is, else it shows where the answer is wrong.

    The verdict on a wrong answer says whether shape or values are wrong, and shows the smallest counterexample found,
    with what is expected and what was got. `hint` 1 adds a question that leads, 2 the diagnosis, 3 the solution and its
    reason. `...` is no answer yet. Functions are tried in this process, on a few hundred small inputs, for a second or
    two. A right answer is handed back by `yours(name)`, further down and in later chapters.

    Raises ValueError for an unknown name, listing the near ones, and for another hint than 0 to 3; ImportError
    without hypothesis, which draws the inputs.
    """
    from .answers import keep
    from .chapters import solution_of

    exercise = find(name)
    if isinstance(hint, bool) or hint not in HINTS:
        raise ValueError(f"hint is {hint!r}, expected 0, 1 (a question), 2 (the diagnosis) or 3 (the solution)")
    grade = Grade(UNANSWERED, "not answered yet") if answer is ... else exercise.grader(answer)
    record = _RECORD.get()
    if grade.outcome == RIGHT:
        accepted()[name] = answer
        not_kept = keep(name, answer) if record is None and callable(answer) else ""
        grade = replace(grade, note=not_kept or grade.note)
    asked = hint == SOLUTION and grade.outcome != RIGHT
    verdict = Verdict(exercise, grade, hint, solution_of(exercise) if asked else "")
    if record is not None:
        record.append(verdict)
    return verdict


def find(name: str) -> Exercise:
    """The exercise of that name. Raises ValueError, listing the near ones, if there is none."""
    if not isinstance(name, str) or name not in BY_NAME:
        said = str(getattr(name, "__name__", name))                  # the answer was passed in place of the name
        near = difflib.get_close_matches(said, BY_NAME, n=3, cutoff=0.5)
        told = f"near: {', '.join(near)}" if near else "`tinyattn course list` names them all"
        raise ValueError(f"no exercise is called {name!r}; {told}")
    return BY_NAME[name]


def accepted() -> dict[str, Any]:
    """The answers that `check` called right in this process, by exercise."""
    return _ACCEPTED.get(_HERE)


@contextlib.contextmanager
def recording() -> Iterator[list[Verdict]]:
    """The verdicts given in the block, in their order; answers accepted in it are forgotten at its end."""
    record: list[Verdict] = []
    token, kept = _RECORD.set(record), _ACCEPTED.set({})
    try:
        yield record
    finally:
        _RECORD.reset(token)
        _ACCEPTED.reset(kept)
