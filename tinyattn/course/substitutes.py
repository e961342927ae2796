"""Use accepted answers as the ops of a model: `--ops my-course/answers`, and `your_ops` in a notebook."""

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
    """In the `with` block, models compute with your accepted answers, and with the library's readable ops for the rest.

    Prints a line for each op that is yours.
    """
    ops: dict[str, Substitute] = {}
    for exercise in BY_NAME.values():
        answer = find_answer(exercise)[0] if _op_of(exercise) else None
        if answer is not None:
            with contextlib.suppress(SubstituteError):
                for part in _substitutes(exercise, answer, f"{FOLDER}/{exercise.name}.py"):
                    ops.setdefault(part.name, part)
    for name, substitute in ops.items():
        print(f"{name}: yours, {Path(substitute.origin.rpartition(':')[0]).stem}")
    print(f"{'all other ops' if ops else 'every op'}: the library's, as its file says")
    with readable(), substituted(ops.values()):
        yield


def read_answers(folder: Path, checked: bool = True) -> tuple[list[Substitute], tuple[str, ...]]:
    """Read a folder of accepted answers. -> substitutes of ops, and a line for each answer that a model cannot call.

    With `checked`, each answer is graded again. Raises SubstituteError if the folder has no answer that is an op, and
    for a wrong answer.
    """
    if not (folder / MARK).is_file():
        raise SubstituteError(f"{folder} is no folder of accepted answers: `tinyattn course build` makes one")
    ops: dict[str, Substitute] = {}
    notes = []
    for exercise in filter(_op_of, BY_NAME.values()):
        path = folder / f"{exercise.name}.py"
        if path.is_file():
            answer = _graded(exercise, path, checked)
            try:
                for part in _substitutes(exercise, answer, str(path)):
                    ops.setdefault(part.name, part)
            except SubstituteError as error:
                notes.append(f"  {path} is not used: {error}")
    if not ops:
        expected = ", ".join(f"{exercise.name}.py" for exercise in filter(_op_of, BY_NAME.values()))
        why = "".join(f"\n{note}" for note in notes)
        raise SubstituteError(f"{folder} has no accepted answer that is an op of a model: expected {expected}{why}")
    return list(ops.values()), tuple(notes)


def _op_of(exercise: Exercise) -> str:
    """The name of the library's op that answers the exercise, or ""."""
    grader = exercise.grader
    if not isinstance(grader, Function) or replaceable().get(grader.known.function) is not grader.known:
        return ""
    return grader.function


def _graded(exercise: Exercise, path: Path, checked: bool) -> Callable[..., Any]:
    """The answer in a file. Raises SubstituteError if it cannot be used or is no longer right."""
    try:
        text = path.read_text(encoding="utf-8")
        with contextlib.chdir(path.resolve().parent.parent), using(exercise.name):      # answers may call others
            answer = read_answer(exercise.name, text)
            right = not checked or exercise.grader(answer).outcome == RIGHT
    except Exception as error:
        raise SubstituteError(f"{path} cannot be used: {type(error).__name__}: {error}") from None
    if not right:
        raise SubstituteError(f"{path} is no longer right: --unchecked computes with it all the same")
    return answer


def _substitutes(exercise: Exercise, answer: Callable[..., Any], file: str) -> list[Substitute]:
    """The answer as a substitute. Raises SubstituteError where a model cannot call it.

    Forward and backward of multi-head attention share a cache, so the library's backward comes with the forward.
    """
    grader = exercise.grader
    assert isinstance(grader, Function)
    spec = grader.known
    parts = {name: getattr(spec.ours(), name) for name in (spec.function, f"{spec.function}_backward")}
    op = Subject(SimpleNamespace(**parts | {grader.function: grader.wrapped(answer)}), spec)
    if "mask" in op.lacks:
        raise SubstituteError("it takes no mask, and a model that predicts the next item has one")
    made = {part.name: part for part in of_subject(op)}
    line = answer.__code__.co_firstlineno if hasattr(answer, "__code__") else 1
    yours = replace(made[grader.function], origin=f"{file}:{line}")
    return [yours, made[f"{HEADS}_backward"]] if grader.function == HEADS else [yours]
