"""Measure how long each chapter is, and whether its exercises are fair: right and wrong answers are graded.

    python benchmarks/course.py              all chapters
    python benchmarks/course.py 3 4          these chapters; the others keep their earlier results
    python benchmarks/course.py --sizes      only the lengths, after a change of text; no answer is graded
    python benchmarks/course.py --seconds    the lengths, and the running time of the cells; no answer is graded

For each exercise that asks for code, tests/course/answers/ has at least five right answers in different styles, and ten
wrong ones. Writes benchmarks/results/course.json and course.md.
"""

import argparse
import contextlib
import io
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from threadpoolctl import threadpool_limits
from tqdm import tqdm

from benchmarks.machine import RESULTS, describe_code, made_on, write_pages, write_result
from tests.course.answers import found, title
from tinyattn.course.chapters import (
    SECONDS_A_FORMULA,
    SECONDS_A_LINE,
    SECONDS_A_PREDICTION,
    WORDS_A_MINUTE,
    Cell,
    Chapter,
    chapters,
)
from tinyattn.course.exercise import RIGHT
from tinyattn.course.exercises import BY_NAME
from tinyattn.course.session import recording

RESULT, PAGE = RESULTS / "course.json", RESULTS / "course.md"
JUDGED = (
    "Chapters 00 to 09 and 12 to 18 were worked through once by a reviewer in the role of a newcomer, who answered "
    "every exercise in several ways (2026-11-22). These reviewers expect a newcomer to take longer than is computed: "
    "20 to 25 minutes for 00, 100 to 120 for 01, 75 to 90 for 02, 110 to 130 for 03, 80 to 95 for 04, "
    "100 to 115 for 07, 115 to 135 for 18, and about ten more for each of the others. The chapters 00 to 06, 08 and 09 "
    "were shortened after that, and 17 was rewritten."
)
SLOW = 5  # seconds; the text above a slower cell says how long it takes
KEPT = ("machine", "seconds", "slow cells")  # entries that a row keeps if only the lengths are measured again
CODE = ("tinyattn/course", "tests/course/answers", "notebooks")


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chapters", nargs="*", type=int, metavar="NN", help="chapters by number (default: all)")
    parser.add_argument("--sizes", action="store_true", help="measure only the lengths; keep grades and seconds")
    parser.add_argument("--seconds", action="store_true", help="measure lengths and seconds; keep grades")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # wrong answers raise warnings
    chosen = chapters(options.chapters)
    measured = json.loads(RESULT.read_text())["chapters"] if RESULT.exists() else {}
    right, wrong = found()
    names = [e.name for chapter in chosen for e in chapter.exercises if e.name in right]
    there = [f"{chapter.number:02}" for chapter in chapters()]
    kept = {n: {key: row[key] for key in KEPT if key in row} for n, row in measured.items()}
    if options.sizes or options.seconds:
        graded = {name: answers for row in measured.values() for name, answers in row["answers"].items()}
    else:
        with tqdm(names, unit="exercise") as bar:
            graded = {name: graded_answers(name, right[name], wrong[name]) for name in bar}
        machine = describe_code(*CODE)
        kept = {number: {"machine": machine} for number in there}
    for chapter in chosen:
        number = f"{chapter.number:02}"
        taken = {} if options.sizes else seconds_of(chapter)
        measured[number] = measured_chapter(chapter, graded) | kept.get(number, {}) | taken
    result = {"chapters": {n: measured[n] for n in there if n in measured}}
    write_result(RESULT, result)
    write_pages(__file__, pages())
    print(page(result))


def measured_chapter(chapter: Chapter, graded: dict[str, Any]) -> dict[str, Any]:
    """The chapter's row: its size, and the grades of the answers to its exercises."""
    size = chapter.size()
    return {
        "title": chapter.title,
        "words": size.words,
        "lines": size.lines,
        "formulas": size.formulas,
        "predictions": size.predictions,
        "exercises": len(chapter.exercises),
        "minutes of exercises": size.exercises,
        "minutes": size.minutes,
        "answers": {e.name: graded[e.name] for e in chapter.exercises if e.name in graded},
    }


def seconds_of(chapter: Chapter) -> dict[str, Any]:
    """CPU seconds of the reader's notebook, with those of child processes, and of each slow cell."""
    space: dict[str, Any] = {"__name__": "__main__"}
    taken = {}
    with recording(), contextlib.redirect_stdout(io.StringIO()), threadpool_limits(1):    # spinning threads would count
        for cell in chapter.cells:
            if not cell.is_text:
                before = os.times()[:4]
                exec(compile(cell.text, chapter.path.name, "exec", dont_inherit=True), space)
                taken[name_of(cell)] = sum(os.times()[:4]) - sum(before)
    slow = {name: round(seconds, 1) for name, seconds in taken.items() if seconds > SLOW}
    return {"seconds": round(sum(taken.values())), "slow cells": slow}


def name_of(cell: Cell) -> str:
    """The first line of the cell's code that is not a comment."""
    return next((line for line in cell.text.split("\n") if line and not line.startswith("#")), "")


def graded_answers(name: str, right: tuple[Any, ...], wrong: tuple[Any, ...]) -> dict[str, Any]:
    """Counts and lists of right answers refused, wrong ones accepted, and bugs named rightly or wrongly."""
    grader = BY_NAME[name].grader
    refused = [title(answer) for answer in right if grader(answer).outcome != RIGHT]
    judged = [(title(answer), bug, grader(answer)) for answer, bug in wrong]
    return {
        "right": len(right),
        "right ones refused": refused,
        "wrong": len(wrong),
        "wrong ones accepted": [which for which, _, grade in judged if grade.outcome == RIGHT],
        "in the zoo": sum(bool(bug) for _, bug, _ in judged),
        "named rightly": sum(bug in grade.named for _, bug, grade in judged if bug),
        "named wrongly": [which for which, bug, grade in judged if grade.named and bug not in grade.named],
        "own question": sum(bool(grade.question) for *_, grade in judged),
    }


def page(result: dict[str, Any]) -> str:
    """The page of the results."""
    rows = result["chapters"].values()
    answers = [(row["title"], name, counted) for row in rows for name, counted in row["answers"].items()]
    counts = {key: sum(_count(counted[key]) for *_, counted in answers) for key in answers[0][2]} if answers else {}
    lines = [
        "# The course in numbers",
        "",
        "| chapter | words | lines of code | exercises | minutes: reading | exercises | together | seconds to run |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        reading = row["minutes"] - row["minutes of exercises"]
        cells = (row["words"], row["lines"], row["exercises"], reading, row["minutes of exercises"], row["minutes"])
        shown = [*(f"{cell:,}" for cell in cells), str(row.get("seconds", "-"))]
        lines.append(f"| {row['title']} | " + " | ".join(shown) + " |")
    lines += [
        "",
        f"Minutes are computed: {WORDS_A_MINUTE} words a minute, {SECONDS_A_LINE} s for a line of code that is shown, "
        f"{SECONDS_A_FORMULA} s for a displayed formula, {SECONDS_A_PREDICTION} s for a prediction, and the announced "
        "time of each exercise. Words are those of the text without formulas; lines are those of the reader's notebook "
        "that are neither blank, nor comments, nor folded away. Seconds are a processor's, for the reader's notebook, "
        "with all of its processes.",
        "",
        JUDGED,
        "",
        "## Are the exercises fair?",
        "",
        f"Of {counts.get('right', 0)} right answers in different styles, {counts.get('right ones refused', 0)} are "
        f"refused. Of {counts.get('wrong', 0)} wrong ones, {counts.get('wrong ones accepted', 0)} are accepted. "
        f"{counts.get('in the zoo', 0)} wrong ones have a bug of the zoo: {counts.get('named rightly', 0)} are named, "
        f"{counts.get('named wrongly', 0)} are named wrongly; {counts.get('own question', 0)} of the wrong ones get a "
        "question of their own, the others the exercise's.",
        "",
        "| exercise | right | accepted | wrong | refused | in the zoo | named | named wrongly | own question |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for _, name, counted in answers:
        counted = (
            counted["right"], counted["right"] - len(counted["right ones refused"]), counted["wrong"],
            counted["wrong"] - len(counted["wrong ones accepted"]), counted["in the zoo"], counted["named rightly"],
            len(counted["named wrongly"]), counted["own question"],
        )  # fmt: skip
        lines.append(f"| `{name}` | " + " | ".join(map(str, counted)) + " |")
    machines = [row["machine"] for row in rows if "machine" in row]
    lines += ["", f"Made by `python benchmarks/course.py` on {made_on(*machines)}.", ""]
    return "\n".join(lines)


def _count(value: Any) -> int:
    return len(value) if isinstance(value, list) else value


if __name__ == "__main__":
    main()
