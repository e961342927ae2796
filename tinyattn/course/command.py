"""The command `tinyattn course`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .chapters import Chapter, chapters, problems
from .notebook import build
from .road import road, time_of
from .status import SOLVED, TRIED, UNTOUCHED, progress
from .tables import table


def run(options: argparse.Namespace) -> int:
    """-> exit code: 0 done, 1 where an exercise is broken or a notebook cannot be read.

    Raises ValueError for an unknown chapter, or a folder without notebooks.
    """
    if options.what == "status":
        return _status(Path(options.folder))
    chosen = chapters(options.chapters)
    if options.what == "list":
        return _list(chosen)
    if options.what == "check":
        return _check(chosen)
    for path in build(chosen, Path(options.to), options.solutions):
        print(path)
    return 0


def _list(chosen: list[Chapter]) -> int:
    if len(chosen) == len(chapters()):
        print(f"{road()}\n")
    for chapter in chosen:
        print(f"{chapter.title}   ({time_of(chapter)})")
        for exercise in chapter.exercises:
            print(f"    {exercise.name:28} {exercise.label}")
    return 0


def _status(folder: Path) -> int:
    """A line a chapter, then what has been tried and is not solved."""
    found, unread = progress(folder, chapters())
    rows: list[list[object]] = []
    for each in found:
        counts = [each.count(state) for state in (SOLVED, TRIED, UNTOUCHED)]
        rows.append([*each.chapter.title.split(" · ", 1), *counts, each.minutes_left])
    print(table("no. | chapter | solved | tried | untouched | minutes left", rows))
    tried = [name for each in found for name, state in each.exercises.items() if state == TRIED]
    if tried:
        print(f"tried, and not solved yet: {', '.join(tried)}")
    solved, total = sum(each.count(SOLVED) for each in found), sum(len(each.exercises) for each in found)
    hours, minutes = divmod(sum(each.minutes_left for each in found), 60)
    print(f"{solved} of {total} exercises are solved; {hours} h {minutes:02} min of the announced time are left")
    print(*unread, sep="\n", end="\n" if unread else "")
    return 1 if unread else 0


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
