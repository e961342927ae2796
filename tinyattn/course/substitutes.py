"""Accepted answers in the place of the library's functions: `--ops my-course/answers`."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from ..check.subject import Subject
from ..check.substitute import HEADS, Substitute, SubstituteError, of_subject, replaceable
from .answers import MARK, read_answer
from .exercise import RIGHT, Exercise
from .exercises import BY_NAME
from .graders import Function
from .session import using


def read_answers(folder: Path, checked: bool = True) -> tuple[list[Substitute], tuple[str, ...]]:
    """-> substitutes, and in a line each the answers that a model cannot call.

    With `checked` each answer is graded once more. Of two answers for one op the first counts that takes a mask. Raises
    SubstituteError for a folder without answers to ops, and for one whose answer is not right.
    """
    if not (folder / MARK).is_file():
        raise SubstituteError(f"{folder} is no folder of accepted answers: `tinyattn course build` makes one")
    found: dict[str, Substitute] = {}
    notes = []
    for exercise in BY_NAME.values():
        path, name = folder / f"{exercise.name}.py", _op_of(exercise)
        if not name or not path.is_file():
            continue
        substitutes = _substitutes(exercise, path, checked)
        if isinstance(substitutes, str):
            notes.append(f"  {path} is not used: {substitutes}")
        elif name not in found:
            found |= {part.name: part for part in substitutes}
    if not found:
        why = "".join(f"\n{note}" for note in notes)
        raise SubstituteError(f"{folder} has no accepted answer that is an op of a model: expected {_expected()}{why}")
    return list(found.values()), tuple(notes)


def _op_of(exercise: Exercise) -> str:
    """The library's name of the op that an exercise asks for, or ""."""
    grader = exercise.grader
    if not isinstance(grader, Function) or replaceable().get(grader.known.function) is not grader.known:
        return ""
    return grader.function


def _expected() -> str:
    return ", ".join(f"{exercise.name}.py" for exercise in BY_NAME.values() if _op_of(exercise))


def _substitutes(exercise: Exercise, path: Path, checked: bool) -> list[Substitute] | str:
    """The answer as a substitute, or why a model cannot call it.

    Of multi-head attention forward and backward share a cache: the library's backward of four matrices comes with it.
    """
    grader = exercise.grader
    assert isinstance(grader, Function)
    spec = grader.known
    try:
        text = path.read_text(encoding="utf-8")
        with contextlib.chdir(path.resolve().parent.parent), using(exercise.name):      # an answer may use others
            answer = read_answer(exercise.name, text)
            if checked and grader(answer).outcome != RIGHT:
                raise SubstituteError(f"{path} is no longer right: --unchecked computes with it all the same")
    except SubstituteError:
        raise
    except Exception as error:
        raise SubstituteError(f"{path} cannot be used: {type(error).__name__}: {error}") from None
    parts = {spec.function: getattr(spec.ours(), spec.function)}
    parts[f"{spec.function}_backward"] = getattr(spec.ours(), f"{spec.function}_backward")
    op = Subject(SimpleNamespace(**parts | {grader.function: grader.kindly(answer)}), spec)
    if "mask" in op.lacks:
        return "it takes no mask, and a model that predicts the next item has one"
    try:
        made = {part.name: part for part in of_subject(op)}
    except SubstituteError as error:
        return str(error)
    own = replace(made[grader.function], origin=f"{path}:{answer.__code__.co_firstlineno}")
    return [own, made[f"{HEADS}_backward"]] if grader.function == HEADS else [own]
