"""Accepted answers in the place of the library's functions: `--ops my-course/answers`, and `your_ops` in a notebook."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ..check.subject import Subject
from ..check.substitute import HEADS, Substitute, SubstituteError, of_subject, replaceable, substituted
from ..forms import readable
from .answers import FOLDER, MARK, find_answer, read_answer
from .exercise import RIGHT, Exercise
from .exercises import BY_NAME
from .graders import Function
from .session import using


@contextlib.contextmanager
def your_ops() -> Iterator[None]:
    """Inside of it models compute with your accepted answers, and with the library's readable ops where there is none.

    It prints a line for each op that is yours; further down the library's compute again.
    """
    found: dict[str, Substitute] = {}
    for exercise in BY_NAME.values():
        answer = find_answer(exercise)[0] if _op_of(exercise) else None
        if answer is not None:
            _add(found, _substitutes(exercise, answer, f"{FOLDER}/{exercise.name}.py"))
    for name, substitute in found.items():
        print(f"{name}: yours, {Path(substitute.origin.rpartition(':')[0]).stem}")
    print(f"{'all other ops' if found else 'every op'}: the library's, as its file says")
    with readable(), substituted(found.values()):
        yield


def read_answers(folder: Path, checked: bool = True) -> tuple[list[Substitute], tuple[str, ...]]:
    """-> substitutes, and in a line each the answers that a model cannot call.

    With `checked` each answer is graded once more. Raises SubstituteError for a folder without answers to ops, and for
    one whose answer is not right.
    """
    if not (folder / MARK).is_file():
        raise SubstituteError(f"{folder} is no folder of accepted answers: `tinyattn course build` makes one")
    found: dict[str, Substitute] = {}
    notes = []
    for exercise in filter(_op_of, BY_NAME.values()):
        path = folder / f"{exercise.name}.py"
        if path.is_file():
            why = _add(found, _substitutes(exercise, _graded(exercise, path, checked), str(path)))
            notes += [f"  {path} is not used: {why}"] if why else []
    if not found:
        expected = ", ".join(f"{exercise.name}.py" for exercise in filter(_op_of, BY_NAME.values()))
        why = "".join(f"\n{note}" for note in notes)
        raise SubstituteError(f"{folder} has no accepted answer that is an op of a model: expected {expected}{why}")
    return list(found.values()), tuple(notes)


def _op_of(exercise: Exercise) -> str:
    """The library's name of the op that an exercise asks for, or ""."""
    grader = exercise.grader
    if not isinstance(grader, Function) or replaceable().get(grader.known.function) is not grader.known:
        return ""
    return grader.function


def _graded(exercise: Exercise, path: Path, checked: bool) -> Callable[..., Any]:
    """The answer in a file. Raises SubstituteError where it cannot be used, or is not right any more."""
    try:
        text = path.read_text(encoding="utf-8")
        with contextlib.chdir(path.resolve().parent.parent), using(exercise.name):      # an answer may use others
            answer = read_answer(exercise.name, text)
            right = not checked or exercise.grader(answer).outcome == RIGHT
    except Exception as error:
        raise SubstituteError(f"{path} cannot be used: {type(error).__name__}: {error}") from None
    if not right:
        raise SubstituteError(f"{path} is no longer right: --unchecked computes with it all the same")
    return answer


def _substitutes(exercise: Exercise, answer: Callable[..., Any], file: str) -> list[Substitute] | str:
    """The answer as a substitute, or why a model cannot call it.

    Of multi-head attention forward and backward share a cache: the library's backward of four matrices comes with it.
    """
    grader = exercise.grader
    assert isinstance(grader, Function)
    spec = grader.known
    parts = {spec.function: getattr(spec.ours(), spec.function)}
    parts[f"{spec.function}_backward"] = getattr(spec.ours(), f"{spec.function}_backward")
    op = Subject(SimpleNamespace(**parts | {grader.function: grader.kindly(answer)}), spec)
    if "mask" in op.lacks:
        return "it takes no mask, and a model that predicts the next item has one"
    try:
        made = {part.name: part for part in of_subject(op)}
    except SubstituteError as error:
        return str(error)
    line = answer.__code__.co_firstlineno if hasattr(answer, "__code__") else 1
    own = replace(made[grader.function], origin=f"{file}:{line}")
    return [own, made[f"{HEADS}_backward"]] if grader.function == HEADS else [own]


def _add(found: dict[str, Substitute], substitutes: list[Substitute] | str) -> str:
    """Take up what is not there yet: of two answers for one op the first counts. -> why one cannot be used, or ""."""
    if isinstance(substitutes, str):
        return substitutes
    for part in substitutes:
        found.setdefault(part.name, part)
    return ""
