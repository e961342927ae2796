"""Notes for the instructor below each solution: the right answers, the points, common mistakes and what to say."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from .chapters import Chapter
from .exercise import Exercise
from .graders import Checker, Function, Judge, Number, Property
from .graders.number import shown
from .prose import Prose


def notes(chapter: Chapter) -> dict[str, str]:
    """The notes in Markdown for a chapter's exercises, by the exercise's name."""
    strings = Prose(chapter.number, chapter.seed).strings
    return {e.name: "\n\n".join(_parts(e, strings.get(f"{e.name}.mistakes", {}))) for e in chapter.exercises}


def _parts(exercise: Exercise, mistakes: dict[str, list[Any]]) -> Iterator[str]:
    points = f"{exercise.difficulty} point{'s' * (exercise.difficulty > 1)}"
    yield f"**For the instructor: `{exercise.name}`** ({exercise.label}; {points} if right)"
    yield f"Right is {_right(exercise.grader)}."
    if mistakes:
        yield "Common mistakes, each with a question to ask and then a diagnosis to give:"
        yield "\n".join(f"- {_name(key, strings)}: {_words(strings)}" for key, strings in mistakes.items())
    yield f"For any other mistake: {' '.join(exercise.hints)}"
    if exercise.why:
        yield f"Why: {exercise.why}"


def _right(grader: Any) -> str:
    """A clause that says which answers a grader accepts."""
    match grader:
        case Number():
            about = f" (within {grader.tolerance:.2g} of its size)" if grader.tolerance else ""
            return f"{shown(np.asarray(grader.compute()))}{' (exactly)' if grader.exactly else about}"
        case Property():
            bugs = grader.planted_bugs()
            true_of = f", and still true where {'; '.join(bugs[2])}" if bugs[2] else ""
            return (f"a property that is true of every correct `{'` and `'.join(grader.gives)}`, and false where "
                    f"{'; '.join([bugs[0], *bugs[1]])}{true_of}")  # fmt: skip
        case Checker() | Judge():
            right, wrong = ("; ".join(str(one[1]) for one in listed) for listed in (grader.right, grader.wrong))
            kind = "a checker that accepts" if isinstance(grader, Checker) else "a property that is true of"
            return f"{kind} {right}; and not {wrong}"
        case Function():
            what = "the gradients of this" if grader.part == "backward" else "what gives this"
            is_op = isinstance(grader.spec, str)
            more = f" (`tinyattn check --as {grader.spec}` lists its properties)" if is_op else ""
            return f"{what}: {grader.known.says.rstrip('.')}{more}"
    raise TypeError(f"{type(grader).__name__} is no grader")


def _name(key: str, strings: list[Any]) -> str:
    return shown(np.asarray(strings[0])) if not isinstance(strings[0], str) else key.replace("_", " ")


def _words(strings: list[Any]) -> str:
    return " ".join(text for text in strings if isinstance(text, str) and " -> " not in text)
