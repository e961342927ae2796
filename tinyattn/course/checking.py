"""`check`: grade an answer to an exercise, at once and offline."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from .exercise import UNANSWERED, Exercise, Grade, Verdict
from .exercises import BY_NAME

_RECORD: ContextVar[list[Verdict] | None] = ContextVar("record", default=None)


def check(name: str, answer: Any = ..., *, hint: int = 0) -> Verdict:
    """Is `answer` right? -> a verdict: true if it is, else it shows where the answer is wrong.

    The verdict on a wrong answer says whether shape or values are wrong, and shows the smallest counterexample found,
    the known bug it looks like, and a tutor's question. `hint` 1 adds a hint, 2 a stronger one. `...` is no answer yet.
    Functions are tried in this process, on a few hundred small inputs, for a second or two.

    Raises ValueError for an unknown name, listing the near ones, and for another hint than 0, 1 or 2; ImportError
    without hypothesis, which draws the inputs.
    """
    exercise = find(name)
    if not isinstance(hint, int) or hint not in (0, 1, 2):
        raise ValueError(f"hint is {hint!r}, expected 0, 1 (a hint) or 2 (a stronger one)")
    grade = Grade(UNANSWERED, "not answered yet") if answer is ... else exercise.grader(answer)
    verdict = Verdict(exercise, grade, hint)
    record = _RECORD.get()
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


@contextlib.contextmanager
def recording() -> Iterator[list[Verdict]]:
    """The verdicts given in the block, in their order."""
    record: list[Verdict] = []
    token = _RECORD.set(record)
    try:
        yield record
    finally:
        _RECORD.reset(token)
