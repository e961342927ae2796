"""A learner's progress, read from a folder of notebooks. Nothing is executed."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..files import FileError, read_json
from .chapters import Chapter
from .exercise import MARKS, RIGHT, UNANSWERED, WRONG

_OUTCOMES = {mark: outcome for outcome, mark in MARKS.items()}
SOLVED, TRIED, UNTOUCHED = "solved", "tried", "untouched"
_STATES = {RIGHT: SOLVED, WRONG: TRIED, UNANSWERED: UNTOUCHED}


@dataclass(frozen=True)
class Progress:
    """A chapter, and the state of each of its exercises: "solved", "tried" or "untouched"."""

    chapter: Chapter
    exercises: dict[str, str]

    def count(self, state: str) -> int:
        return list(self.exercises.values()).count(state)

    @property
    def minutes_left(self) -> int:
        """The estimated minutes for unsolved exercises, and for reading the chapter if no exercise was tried."""
        left = sum(e.minutes for e in self.chapter.exercises if self.exercises[e.name] != SOLVED)
        untouched = all(state == UNTOUCHED for state in self.exercises.values())
        return left + (self.chapter.size().reading if untouched else 0)


def progress(folder: Path, chapters: list[Chapter]) -> tuple[list[Progress], list[str]]:
    """-> the progress of each chapter whose exercises are checked, and a sentence for each unreadable notebook.

    Verdicts are read from the saved outputs of cells that call `check`; the best verdict on an exercise counts. Raises
    ValueError if `folder` is not a folder, or if no notebook in it checks an exercise.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is {'a file' if folder.exists() else 'not there'}, expected a folder of notebooks")
    paths = [path for path in sorted(folder.glob("*.ipynb")) if path.is_file()]
    if not paths:
        raise ValueError(f"{folder} holds no notebooks; `tinyattn course build --to {folder}` writes them")
    best: dict[str, str] = {}
    checked: set[str] = set()
    problems = []
    for path in paths:
        try:
            names, verdicts = _verdicts(read_json(path))
        except FileError as error:
            problems.append(str(error))
            continue
        except (TypeError, AttributeError, KeyError, RecursionError):
            problems.append(f"{path} is JSON, but not a notebook: expected cells with sources and outputs")
            continue
        checked |= names
        for name, outcome in verdicts:
            best[name] = min((best.get(name, UNANSWERED), outcome), key=[RIGHT, WRONG, UNANSWERED].index)
    if not checked and not problems:
        raise ValueError(f"no notebook in {folder} checks an exercise of the course, expected those of `course build`")
    return [
        Progress(chapter, {e.name: _STATES[best.get(e.name, UNANSWERED)] for e in chapter.exercises})
        for chapter in chapters
        if any(e.name in checked for e in chapter.exercises)
    ], problems


def _verdicts(notebook: Any) -> tuple[set[str], list[tuple[str, str]]]:
    """The exercises that a notebook checks, and its saved verdicts in order, each a name and an outcome."""
    names: set[str] = set()
    verdicts = []
    for cell in notebook["cells"]:
        checks = re.findall(r"check\(\s*[\"'](\w+)", text_of(cell.get("source", "")))
        if cell.get("cell_type") != "code" or not checks:
            continue
        names.update(checks)
        for output in cell.get("outputs", ()):
            text = text_of(output.get("text", "")) + text_of(output.get("data", {}).get("text/plain", ""))
            for mark, name in re.findall(rf"^([{''.join(_OUTCOMES)}]) (\w+): ", text, re.M):
                verdicts.append((name, _OUTCOMES[mark]))
    return names, verdicts


def text_of(lines: Any) -> str:
    """The text of a notebook's entry, which is a string or a list of lines."""
    return lines if isinstance(lines, str) else "".join(lines)
