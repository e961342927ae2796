"""Chapters as notebooks, with stubs or with solutions. jupytext and nbformat are imported when first needed."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..files import alone_in, write_atomically
from .answers import expect_room, prepare
from .chapters import Chapter
from .instructor import notes

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
# The parts that a tag folds away, as JupyterLab's metadata name them.
FOLDED = {
    "hide-input": ("source_hidden",),
    "hide-output": ("outputs_hidden",),
    "hide-cell": ("source_hidden", "outputs_hidden"),
}


def notebook(chapter: Chapter, solutions: bool = False, apart: bool = False) -> Any:
    """The chapter as a notebook without outputs; cell ids are hashes of their text, the same for the same source.

    `apart` is the form for other folders: no output is folded away, as a reader who runs a cell should see what it
    prints, and `[zoo](../docs/zoo.md)` becomes `zoo (docs/zoo.md)`. Raises ImportError, with advice, if jupytext is
    missing.
    """
    try:
        import jupytext
    except ImportError:
        raise ImportError("making notebooks needs jupytext: pip install 'tinyattn[notebooks]'") from None
    made = jupytext.reads(chapter.solved() if solutions else chapter.unsolved(), fmt="py:percent")
    made.nbformat, made.nbformat_minor, made.metadata = 4, 5, METADATA
    seen: Counter[str] = Counter()
    for cell in made.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = {"tags": tags} if tags else {}
        hidden = {what for tag in tags for what in FOLDED.get(tag, ()) if not apart or what != "outputs_hidden"}
        if hidden:
            cell.metadata["jupyter"] = dict.fromkeys(sorted(hidden), True)
        if apart and cell.cell_type == "markdown":
            cell.source = re.sub(r"\[([^\]]+)\]\(\.\./([^)]+)\)", r"\1 (\2)", cell.source)
        name = hash_of(cell.source)
        seen[name] += 1
        cell.id = name if seen[name] == 1 else f"{name}-{seen[name]}"
    return made


def hash_of(text: str) -> str:
    """What a cell of this text has as its id, or as the beginning of it."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def text_of(made: Any) -> str:
    """The text of the notebook's file."""
    import nbformat

    nbformat.validate(made)
    return nbformat.writes(made, version=nbformat.NO_CONVERT) + "\n"


def build(chapters: list[Chapter], to: Path, solutions: bool = False, instructor: bool = False) -> list[Path]:
    """Write each chapter's notebook into the folder `to`, and a folder for accepted answers. -> the notebooks.

    With `instructor` there are solutions, and below each a note on what is right and on common mistakes. Raises
    ValueError, before any write, if a file exists, as it may hold answers; FileError if another process is at work in
    the folder. Each file is written whole or not at all.
    """
    if to.exists() and not to.is_dir():
        raise ValueError(f"{to} is a file, expected a folder")
    files = {to / f"{chapter.path.stem}.ipynb": chapter for chapter in chapters}
    _refuse_existing(files)
    texts = {path: text_of(as_built(chapter, solutions or instructor, instructor)) for path, chapter in files.items()}
    expect_room(to)
    with alone_in(to):
        _refuse_existing(files)                      # another process may have written them
        for path, text in texts.items():
            write_atomically(path, text.encode())
        prepare(to)
    return list(texts)


def _refuse_existing(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.exists():
            raise ValueError(f"{path} is there already and may hold answers; name another folder, or use --update")


def as_built(chapter: Chapter, solutions: bool = False, instructor: bool = False) -> Any:
    """The notebook for other folders, which names its version, its seed and its cells."""
    from nbformat.v4 import new_markdown_cell

    made = notebook(chapter, solutions, apart=True)
    seed = {} if chapter.seed is None else {"seed": chapter.seed}
    cells = {} if solutions else {"cells": [cell.id for cell in made.cells]}         # for `update`
    made.metadata = METADATA | {"tinyattn": {"chapter": chapter.version, **seed, **cells}}
    below = notes(chapter) if instructor else {}
    for cell in list(made.cells):
        checked = re.match(r"check\(\"(\w+)\"", cell.source)
        if checked and below:
            note = new_markdown_cell(below[checked[1]], id=f"note-{checked[1]}"[:64])
            made.cells.insert(made.cells.index(cell) + 1, note)
    return made
