"""Grades one submission, in a process that runs none of its code.

Answers run in a `Room`, which is another process. This process sends arguments there, and compares the arrays that come
back with what the library computes here. Verdicts follow from these comparisons alone: an answer's text, files and exit
code do not count.
"""

import contextlib
import re
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...check.subject import TooLongError
from ...sandbox import Answer, EndedError, Limits, Room, fence
from ...terminal import one_line
from ..exercise import RIGHT, UNANSWERED, WRONG, Exercise, Grade
from ..exercises import BY_NAME, varied
from ..graders import Judge, calling, function
from ..prose import folder as chapters_folder
from .again import guesses
from .flags import fingerprint, flags_of
from .submission import Slice, Source, answer_of, read_sources

MEMORY = 2**32  # the most bytes of this process: an answer may make the library allocate large arrays here
OTHERS = 5  # cases in the second check of a right answer
ABSENT = Grade(UNANSWERED, "not handed in")


def judge(
    send: Callable[[str, Any], None], folder: str, files: list[str], names: list[str], limits: Limits, seed: int | None
) -> None:  # fmt: skip
    """Send ("trying", name) and ("mark", dict) for each exercise of the submission in `folder`.

    `seed` is the person's seed in the class list; it is used for files without a seed.
    """
    with contextlib.suppress(ImportError):  # on Windows
        fence.limit(MEMORY)
    function.BRIEF, calling.PATIENCE = True, limits.call
    sources, problems = read_sources(Path(folder), files)
    seeds = sorted({s.seed for s in sources if s.chapter or s.seed is not None}, key=str)
    send("read", {"problems": problems, "chapters": sorted({s.chapter for s in sources if s.chapter}), "seeds": seeds})
    hidden = chapters_folder()
    with Room(Path(folder), limits, TooLongError, [hidden / "exercises"], hidden) as room:
        for name in names:
            send("trying", name)
            send("mark", graded(BY_NAME[name], sources, room, seed))


def graded(exercise: Exercise, sources: list[Source], room: Room, seed: int | None = None) -> dict[str, Any]:
    """The mark of one exercise, a dict of strings, numbers and lists."""
    began = time.monotonic()
    answer, why = answer_of(sources, exercise.name)
    flags: list[str] = []
    if answer is None or (why and not answer.is_stub):
        grade = Grade(WRONG, f"its cell cannot be read: {why}") if why else ABSENT
    elif answer.is_stub:
        grade = calling.UNWRITTEN
    else:
        source = next(source for source in sources if source.file == answer.file)
        exercise = varied(exercise, seed if source.seed is None else source.seed)
        grade, module = _grade(exercise, answer, room)
        flags = list(flags_of(exercise, answer, source, module))
    says = re.sub(r" \(line \d+ of [^)]*\)", "", " ".join((grade.says, *grade.lines[:1])) if "raise" in grade.says
                  else grade.says)  # fmt: skip
    return {
        "exercise": exercise.name,
        "outcome": grade.outcome,
        "points": exercise.difficulty if grade.outcome == RIGHT else 0,
        "of": exercise.difficulty,
        "verdict": one_line(says),
        "flags": flags,
        "file": answer.file if answer else "",
        "seconds": round(time.monotonic() - began, 1),
        "fingerprint": fingerprint(answer),
    }


def _grade(exercise: Exercise, answer: Slice, room: Room) -> tuple[Grade, str]:
    """-> the grade of an answer, which runs in the room; and the module of its value, as the room reports it."""
    called = Answer(room, answer.text, answer.asked)
    try:
        value, module = called.load()
    except TooLongError:
        return Grade(WRONG, f"its cells had not ended after {room.limits.define:g} seconds."), ""
    except NotImplementedError:
        return calling.UNWRITTEN, ""
    except (EndedError, Exception) as error:
        return Grade(WRONG, f"its cells raise {type(error).__name__}: {error}"), ""
    grader = exercise.grader.across_processes() if isinstance(exercise.grader, Judge) else exercise.grader
    grade = grader(value)  # with the cases of `check` in the notebook
    if grade.outcome != RIGHT:
        return grade, module
    with contextlib.suppress(TooLongError), _other_cases():
        other = grader(value) if value is called else grade
        if other.outcome != RIGHT:
            return replace(other, says=f"right in the cases of `check`, and wrong in others: {other.says}"), module
        says = guesses(grader, value, np.random.default_rng(secrets.randbits(64)))
        return (Grade(WRONG, says) if says else grade), module
    return Grade(WRONG, "it does not return in time."), module


@contextlib.contextmanager
def _other_cases() -> Iterator[None]:
    """In the `with` block, functions are graded with a few cases from a random seed."""
    before = function.SEED, function.EXAMPLES
    function.SEED, function.EXAMPLES = secrets.randbelow(2**31), OTHERS
    try:
        yield
    finally:
        function.SEED, function.EXAMPLES = before
