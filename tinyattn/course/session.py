"""The state of `check`: recorded verdicts, accepted answers, and the exercises that are being graded."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from .exercise import Verdict

_RECORD: ContextVar[list[Verdict] | None] = ContextVar("record", default=None)
_ACCEPTED: ContextVar[dict[str, Any]] = ContextVar("accepted")
_GRADED: ContextVar[tuple[str, ...]] = ContextVar("graded", default=())
_HERE: dict[str, Any] = {}           # answers accepted in this process


def accepted() -> dict[str, Any]:
    """The answers accepted in this process, by exercise."""
    return _ACCEPTED.get(_HERE)


def recorded() -> list[Verdict] | None:
    """The verdicts recorded so far, where a chapter runs without a reader, inside `recording()`; else None."""
    return _RECORD.get()


@contextlib.contextmanager
def recording() -> Iterator[list[Verdict]]:
    """A block that records its verdicts, in order. Answers accepted in it are forgotten at its end."""
    verdicts: list[Verdict] = []
    before = _RECORD.set(verdicts), _ACCEPTED.set({})
    try:
        yield verdicts
    finally:
        _RECORD.reset(before[0])
        _ACCEPTED.reset(before[1])


@contextlib.contextmanager
def using(name: str) -> Iterator[None]:
    """A block that grades or reads an answer to `name`. Raises ValueError inside another such block of that name."""
    if name in _GRADED.get():
        raise ValueError(f"an answer to {name} cannot use yours({name!r}): it would be made of itself")
    before = _GRADED.set((*_GRADED.get(), name))
    try:
        yield
    finally:
        _GRADED.reset(before)
