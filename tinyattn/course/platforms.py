"""Chapters for nbgrader and otter. grading/for_*.py makes both give the marks of `tinyattn course grade`."""

import json
import re
from pathlib import Path
from typing import Any

from .. import __version__
from .chapters import BEGIN, Chapter
from .notebook import as_built, text_of, write_new

CONFIG = '''"""nbgrader's configuration of this course, by tinyattn."""

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "tinyattn"
c.ClearSolutions.code_stub = {"python": "# your turn"}
# nbgrader's Execute would run answers beside the gradebook; this runs them in a closed-off process.
c.Autograde.autograde_preprocessors = [
    "tinyattn.course.grading.for_nbgrader.ClosedOff",
    "nbgrader.preprocessors.SaveAutoGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]
'''
GRADED = {"grade": True, "solution": False, "locked": True}
ANSWER = {"grade": False, "solution": True, "locked": False}


def build_nbgrader(chapters: list[Chapter], to: Path) -> list[Path]:
    """Write a folder for nbgrader: source/NAME/NAME.ipynb of each chapter, and nbgrader_config.py. -> the files.

    Raises ValueError, before any write, if this would change a file. Each file is written whole or not at all.
    """
    config = to / "nbgrader_config.py"
    files = {to / "source" / c.path.stem / f"{c.path.stem}.ipynb": text_of(for_nbgrader(c)) for c in chapters}
    if not config.is_file() or config.read_text(encoding="utf-8", errors="replace") != CONFIG:
        files[config] = CONFIG
    return write_new(files, to, "name another folder")


def for_nbgrader(chapter: Chapter) -> Any:
    """The solved chapter with nbgrader's metadata: cells with a solution are answers, cells with `check` are graded."""
    made = as_built(chapter, marked=True)
    points = {exercise.name: exercise.difficulty for exercise in chapter.exercises}
    for cell in made.cells:
        checked = re.match(r"check\(\"(\w+)\", \w+\)$", cell.source)
        if checked:
            name = checked[1]
            cell.source = f'verdict = check("{name}", {name})\nprint(verdict)\n{points[name]} * bool(verdict)  # points'
            about = GRADED | {"grade_id": name, "points": points[name]}
        elif BEGIN in cell.source:
            about = ANSWER | {"grade_id": f"answer-{cell.id}"}
        else:
            continue
        cell.metadata["nbgrader"] = about | {"schema_version": 3, "task": False, "cell_type": cell.cell_type}
    return made


def build_otter(chapters: list[Chapter], to: Path) -> list[Path]:
    """Write a folder for each chapter: the student's notebook, and the files that `otter generate` reads. -> the files.

    Raises ValueError, before any write, if one of the files exists. Each file is written whole or not at all.
    """
    files: dict[Path, str] = {}
    for chapter in chapters:
        folder = to / chapter.path.stem
        names = [exercise.name for exercise in chapter.exercises]
        plugin = {"tinyattn.course.grading.for_otter.ClosedOff": {"exercises": names}}
        files[folder / f"{chapter.path.stem}.ipynb"] = text_of(as_built(chapter))
        files[folder / "otter_config.json"] = json.dumps({"plugins": [plugin], "show_stdout": True}, indent=2) + "\n"
        files[folder / "requirements.txt"] = f"tinyattn[check,notebooks]=={__version__}\n"
        for exercise in chapter.exercises:
            files[folder / "tests" / f"{exercise.name}.py"] = _otter_test(exercise.name, exercise.difficulty)
    return write_new(files, to, "name another folder")


def _otter_test(name: str, points: int) -> str:
    case = {"code": f">>> verdicts[{name!r}]\n'right'", "hidden": False, "locked": False}
    suite = {"cases": [case], "scored": True, "setup": "", "teardown": "", "type": "doctest"}
    test = {"name": name, "points": points, "suites": [suite]}
    return f"OK_FORMAT = True\n\ntest = {test!r}\n"
