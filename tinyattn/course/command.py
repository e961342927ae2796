"""The command `tinyattn course`."""

import argparse
from pathlib import Path

from .chapters import Chapter, chapters, problems
from .exercise import RIGHT, UNANSWERED, WRONG
from .notebook import build, expect_new
from .platforms import build_nbgrader, build_otter
from .road import road, time_of
from .slides import write_slides
from .status import SOLVED, TRIED, UNTOUCHED, progress
from .tables import table
from .update import update
from .variants import as_seed, class_list


def run(options: argparse.Namespace) -> int:
    """-> exit code: 0 done, 1 where an exercise is broken or a notebook cannot be read.

    Raises ValueError for an unknown chapter, or a folder without notebooks.
    """
    if options.what == "status":
        return _status(Path(options.folder))
    if options.what == "grade":
        return _grade(options)
    chosen = chapters(options.chapters)
    if options.what == "list":
        return _list(chosen)
    if options.what == "check":
        return _check(chosen)
    if options.what == "slides":
        print(write_slides(chosen[0], Path(options.html or f"{chosen[0].path.stem}.html")))
        return 0
    return _build(options)


def _build(options: argparse.Namespace) -> int:
    if options.to is None:
        if any((options.seed, options.people, options.update, options.solutions, options.install)) or (
            options.audience != "student"
        ):
            raise ValueError("--nbgrader and --otter take only chapters; the other options need --to")
        write, folder = (build_nbgrader, options.nbgrader) if options.nbgrader else (build_otter, options.otter)
        print(*write(chapters(options.chapters), Path(folder)), sep="\n")
        return 0
    to, instructor = Path(options.to), options.audience == "instructor"
    seed = None if options.seed is None else as_seed(options.seed)
    if options.people and options.seed is not None:
        raise ValueError("--class names a seed for each person; leave --seed out")
    if options.update and (options.people or options.solutions or instructor or options.install):
        raise ValueError("--update is for one learner: leave out --class, --solutions, --for and --install")
    if options.update:
        print(*update(options.chapters, to, seed), sep="\n")
        return 0
    people = class_list(Path(options.people)) if options.people else {}
    folders: dict[Path, int | None] = {to / name: number for name, number in people.items()} or {to: seed}
    wanted = [f"{chapter.path.stem}.ipynb" for chapter in chapters(options.chapters)]
    if people:                                               # a list that has grown: those who are new get theirs
        missing = {folder: n for folder, n in folders.items() if not all((folder / name).exists() for name in wanted)}
        if len(missing) < len(folders):
            have = len(folders) - len(missing)
            print(f"{have} of {len(folders)} people have their notebooks, which stay as they are")
        folders = missing
        for folder in folders:
            expect_new([folder / name for name in wanted], "name another folder, or fewer chapters")
    for folder, number in folders.items():
        for path in build(chapters(options.chapters, number), folder, options.solutions, instructor, options.install):
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
    """Print a line for each chapter, then the exercises that were tried and are not solved."""
    states, unread = progress(folder, chapters())
    rows: list[list[object]] = []
    for each in states:
        counts = [each.count(state) for state in (SOLVED, TRIED, UNTOUCHED)]
        rows.append([*each.chapter.title.split(" · ", 1), *counts, each.minutes_left])
    print(table("no. | chapter | solved | tried | untouched | minutes left", rows))
    tried = [name for each in states for name, state in each.exercises.items() if state == TRIED]
    if tried:
        print(f"tried, and not solved yet: {', '.join(tried)}")
    solved, total = sum(each.count(SOLVED) for each in states), sum(len(each.exercises) for each in states)
    hours, minutes = divmod(sum(each.minutes_left for each in states), 60)
    print(f"{solved} of {total} exercises are solved; {hours} h {minutes:02} min of the announced time are left")
    print(*unread, sep="\n", end="\n" if unread else "")
    return 1 if unread else 0


def _grade(options: argparse.Namespace) -> int:
    """Grade, then print a row for each exercise."""
    from ..sandbox import Limits
    from .grading.marks import answers_of, grade

    to = Path(options.csv)
    if to.suffix != ".csv":
        raise ValueError(f"--csv {to}: expected a name that ends in .csv")
    limits = Limits(fenced=not options.unfenced)
    people = class_list(Path(options.people)) if options.people else {}
    folders = [Path(folder) for folder in options.folders]
    records = grade(folders, to, options.chapter, options.workers, limits, people=people)
    counts: dict[str, list[int]] = {}
    for mark in (mark for record in records for mark in record["marks"]):
        count = counts.setdefault(mark["exercise"], [0] * 4)
        count[[RIGHT, WRONG, UNANSWERED].index(mark["outcome"])] += 1
        count[3] += bool(mark["flags"])
    print(table("exercise | right | wrong | not answered | flagged", [[name, *row] for name, row in counts.items()]))
    if missing := sorted(people.keys() - {record["person"] for record in records}):
        print(f"in the class list, without a submission: {', '.join(missing)}")
    people_of = f"{len(records)} {'person' if len(records) == 1 else 'people'}"
    troubled = sum(bool(record["problems"]) for record in records)
    noted = f", {troubled} with problems" if troubled else ""
    print(f"{to}: {people_of}{noted}; {answers_of(to)}: every answer with its verdict")
    return 0


def _check(chosen: list[Chapter]) -> int:
    """Check that every stub fails and every solution passes. -> exit code."""
    faults = []
    for chapter in chosen:
        wrong, count = problems(chapter), len(chapter.exercises)
        faults += wrong
        passed = f"{chapter.path.name:32} {count} stubs fail, {count} solutions pass"
        print("\n".join(wrong) if wrong else passed, flush=True)
    if not faults:
        total = sum(len(chapter.exercises) for chapter in chosen)
        print(f"{total} exercises: {total} stubs fail, {total} solutions pass")
    return 1 if faults else 0
