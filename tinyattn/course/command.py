"""The command `tinyattn course`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .chapters import Chapter, chapters, problems
from .notebook import build


def run(options: argparse.Namespace) -> int:
    """-> exit code: 0 done, 1 where an exercise is broken. Raises ValueError for an unknown chapter."""
    chosen = chapters(options.chapters)
    if options.what == "list":
        return _list(chosen)
    if options.what == "check":
        return _check(chosen)
    for path in build(chosen, Path(options.to), options.solutions):
        print(path)
    return 0


def _list(chosen: list[Chapter]) -> int:
    for chapter in chosen:
        minutes = sum(exercise.minutes for exercise in chapter.exercises)
        print(f"{chapter.title}   ({len(chapter.exercises)} exercises, {minutes} min)")
        for exercise in chapter.exercises:
            print(f"    {exercise.name:24} {exercise.label}")
    return 0


def _check(chosen: list[Chapter]) -> int:
    """Every stub must fail and every solution pass."""
    found = []
    for chapter in chosen:
        wrong = problems(chapter)
        found += wrong
        print(f"{chapter.path.name:32} {_counted(chapter)}" if not wrong else "\n".join(wrong), flush=True)
    if not found:
        total = sum(len(chapter.exercises) for chapter in chosen)
        print(f"{total} exercises: {total} stubs fail, {total} solutions pass")
    return 1 if found else 0


def _counted(chapter: Chapter) -> str:
    count = len(chapter.exercises)
    return f"{count} stubs fail, {count} solutions pass"
