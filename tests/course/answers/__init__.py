"""Answers that readers write, right and wrong, to every exercise that asks for code; a file a chapter.

`RIGHT[name]` are right answers in different styles, at least eight. `WRONG[name]` are wrong ones, at least fifteen,
each with the zoo's name of its bug, which the diagnosis should give, or "" where the zoo has none and none should be
given. `benchmarks/course.py` tries and counts all of them, tests/course/test_answers.py the right ones and some others.
"""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

from tinyattn.course.checking import find


def found() -> tuple[dict[str, tuple[Callable[..., Any], ...]], dict[str, tuple[tuple[Callable[..., Any], str], ...]]]:
    """-> all right answers and all wrong ones, by exercise."""
    right: dict[str, Any] = {}
    wrong: dict[str, Any] = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        chapter = importlib.import_module(f"{__name__}.{module.name}")
        right |= chapter.RIGHT
        wrong |= chapter.WRONG
    return right, wrong


def listed(name: str) -> tuple[Callable[..., Any], ...]:
    """The wrong functions that an exercise lists."""
    return tuple(f for f, *_ in find(name).grader.tempting)


def title(answer: Any) -> str:
    """What an answer is called."""
    return getattr(answer, "__name__", type(answer).__name__)
