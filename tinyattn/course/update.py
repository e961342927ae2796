"""`tinyattn course build --update`: bring a learner's notebook to the chapter's new version, and keep their work.

A cell's id is a hash of its text as built. If the hash of its text now differs, the learner has changed the cell. The
notebook lists the ids of all cells as built, so the learner's additions and deletions are known too.
"""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..files import FileError, alone_in, read_json, write_atomically
from .answers import FOLDER, MARK, read_answer
from .chapters import Chapter, chapters
from .exercise import RIGHT
from .exercises import BY_NAME
from .notebook import as_built, hash_of, text_of
from .variants import as_seed

KEPT = "*You changed the cell below. The chapter no longer has it.*"


def update(numbers: list[int], to: Path, seed: int | None = None) -> list[str]:
    """Bring the notebooks in `to` up to date: all of them, or those of these chapters. -> a report, in lines.

    Cells that the learner has not changed get the chapter's new text, and new cells are added. Cells that the learner
    changed or wrote stay. The earlier notebook is kept beside the new one. If the chapter's number has changed, the
    notebook continues under the new name: `10_sasrec.ipynb` as `12_sasrec.ipynb`. Accepted answers are graded again.
    One that is no longer right is renamed, and later chapters use the library's function. Raises, before any write,
    ValueError for a notebook that is missing, of another chapter, of another seed or not of this course, and FileError
    if a notebook is broken or the folder is in use.
    """
    if not to.is_dir():
        raise ValueError(f"{to} is no folder, expected one that `tinyattn course build` wrote")
    chosen = chapters(numbers)
    paths = {to / f"{chapter.path.stem}.ipynb": chapter for chapter in chosen}
    missing = [path.name for path in paths if not any(_of_any_number(path))]
    if missing and numbers:
        raise ValueError(f"{to} does not hold {', '.join(missing)}; without --update it is built")
    if len(missing) == len(paths):
        raise ValueError(f"{to} holds no notebook of the course; without --update they are built")
    paths = {path: chapter for path, chapter in paths.items() if path.name not in missing}
    with alone_in(to):
        there = {path: next(_of_any_number(path), path) for path in paths}
        made = {path: _merged(there[path], chapter, seed) for path, chapter in paths.items()}
        lines = []
        for path, (text, says) in made.items():
            if text:
                backup = _free(there[path])
                write_atomically(backup, there[path].read_bytes())
                write_atomically(path, text.encode())
                says = [*says, f"  the notebook as it was: {backup.name}", *_again(to, paths[path])]
            lines += [f"{path.name}: {says[0]}", *says[1:]]
            for old in set(_of_any_number(path)) - {path}:
                if old == there[path]:
                    old.unlink()
                else:
                    lines.append(f"{old.name}: left as it is; its chapter is {path.name[:2]} now, in {path.name}")
    return lines


def _of_any_number(path: Path) -> Iterator[Path]:
    """The learner's notebooks of a chapter: first that with its present number, then those with an earlier number."""
    if path.exists():
        yield path
    yield from (old for old in sorted(path.parent.glob(f"[0-9][0-9]{path.name[2:]}")) if old != path)


def _free(path: Path) -> Path:
    """An unused name beside `path`. It does not end in .ipynb, so no command takes the file for a notebook."""
    number = 1
    while (free := path.with_name(f"{path.name}.before-{number}")).exists():
        number += 1
    return free


def _merged(path: Path, chapter: Chapter, seed: int | None) -> tuple[str, list[str]]:
    """-> the text of the merged notebook, or "" if nothing has changed; and a report, in lines."""
    mine = read_json(path)
    try:
        about, cells = mine["metadata"]["tinyattn"], mine["cells"]
        was, built, had = about["chapter"], about["cells"], about.get("seed")
        for cell in cells:
            cell["source"] = "".join(cell["source"])
        if len({cell["id"] for cell in cells}) < len(cells):
            raise ValueError(f"{path}: two cells have the same id; open and save it in JupyterLab, which mends that")
        had = None if had is None else as_seed(had)
        if was[:2] != path.name[:2]:
            raise ValueError(f"{path} is a notebook of chapter {was[:2]}, expected {path.name[:2]}")
    except (KeyError, TypeError, AttributeError, IndexError):
        why = "is not what `tinyattn course build` wrote for a learner, or its cells have lost their ids"
        raise FileError(f"{path} {why}") from None
    if seed is not None and seed != had:
        raise ValueError(f"{path} has {'no seed' if had is None else f'the seed {had}'}, expected the seed {seed}")
    if was == chapter.version:
        return "", ["up to date"]
    made = as_built(Chapter(chapter.path, had))
    made.metadata = mine["metadata"] | {"tinyattn": made.metadata["tinyattn"]}
    try:
        says = list(_merge(made, cells, set(built)))
        text = text_of(made)
    except Exception as error:                   # nbformat's errors have no class in common
        raise FileError(f"{path} is a broken notebook ({type(error).__name__})") from error
    return text, [f"from version {was} to {chapter.version}", *says]


def _merge(made: Any, mine: list[dict[str, Any]], built: set[str]) -> Iterator[str]:
    """Put the learner's cells into the new notebook `made`. -> lines about changed cells, and one with the counts."""
    import nbformat

    old = {cell.id: cell for cell in nbformat.from_dict(mine)}
    touched = {i for i, cell in old.items() if i not in built or hash_of(cell.source) != i.partition("-")[0]}
    new = {cell.id for cell in made.cells}
    written = sorted((i for i in old if i in touched and i not in new), key=built.__contains__)   # a built cell wins
    names = {name: i for i in written if (name := _defines(old[i].source))}
    placed: list[str] = []                                   # ids of old cells, at their places in `made`
    cells, came = list[Any](), 0
    for cell in made.cells:
        i = cell.id if cell.id in old else None if cell.id in built else names.pop(_defines(cell.source), None)
        if i is not None:
            cells.append(old[i])
            placed.append(i)
            if i not in new:
                yield f"  your {_defines(cell.source)} stays; the chapter's cell has changed: check it again"
        elif cell.id not in built:                           # else the learner deleted it
            cells.append(cell)
            came += 1
    before = None
    for i, cell in old.items():
        if i not in placed and i in touched:
            extra = [cell]
            if i in built:
                note = nbformat.v4.new_markdown_cell(KEPT, id=f"note-{i}")
                cell.id = f"yours-{i}"
                extra = [note, cell]
                first = next((line for line in cell.source.splitlines() if line.strip()), "an empty cell")
                yield f"  kept, though the chapter no longer has it: {first[:80]}"
            where = 0 if before is None else next(k for k, c in enumerate(cells) if c is before) + 1
            cells[where:where] = extra
        elif i not in placed:
            continue
        before = cell
    gone = sum(i in built and i not in touched and i not in new for i in old)
    stay = sum(i in touched for i in old)
    yield f"  {came} cells are new or mended, {gone} earlier ones are gone, {stay} that you changed or wrote stay"
    made.cells = cells


def _defines(source: str) -> str:
    """The exercise that a cell answers, or ""."""
    names = re.findall(r"^def (\w+)\(|^(\w+) = ", source, re.M)
    return next((name for pair in reversed(names) for name in pair if name in BY_NAME), "")


def _again(folder: Path, chapter: Chapter) -> Iterator[str]:
    """Grade the kept answers of a chapter by its present exercises. -> a line for each."""
    for exercise in chapter.exercises:
        path = folder / FOLDER / f"{exercise.name}.py"
        if not (folder / FOLDER / MARK).is_file() or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        try:
            with contextlib.chdir(folder):           # the answer may read other answers, from the folder here
                grade = exercise.grader(read_answer(exercise.name, text))
            why = "" if grade.outcome == RIGHT else grade.says
        except Exception as error:
            why = f"{type(error).__name__}: {error}".partition("\n")[0]
        if why:
            path.replace(_free(path))
        yield f"  {exercise.name}, graded again: {f'no longer right ({why}), and renamed' if why else 'still right'}"
