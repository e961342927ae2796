"""Chapters as notebooks, with stubs or with solutions. jupytext and nbformat are imported when first needed."""

import hashlib
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..extras import optional
from ..files import alone_in, write_atomically
from ..machine import avx2
from .answers import expect_room, prepare
from .chapters import Chapter
from .instructor import notes

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
ADVICE = "name another folder, or use --update"
# Tag -> the parts of the cell that JupyterLab hides, as its metadata name them.
FOLDED = {
    "hide-input": ("source_hidden",),
    "hide-output": ("outputs_hidden",),
    "hide-cell": ("source_hidden", "outputs_hidden"),
}


def notebook(chapter: Chapter, solutions: bool = False, apart: bool = False, marked: bool = False) -> Any:
    """The chapter as a notebook without outputs. A cell's id is a hash of its text.

    `apart` is the form for other folders: no output is hidden, as a reader who runs a cell should see its output, and
    a link such as `[zoo](../docs/zoo.md)` becomes `zoo (docs/zoo.md)`. With `marked`, the comments around solutions are
    kept. Raises ImportError, with advice, if jupytext is missing.
    """
    jupytext = optional("jupytext", "making notebooks needs jupytext", "notebooks")
    source = chapter.marked() if marked else chapter.solved() if solutions else chapter.unsolved()
    made = jupytext.reads(source, fmt="py:percent")
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
    """The id of a cell with this text. If several cells have this text, the later ids continue with -2, -3, ..."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def execute(made: Any, seconds: int = 120) -> Any:
    """Run a notebook from top to bottom, in an empty folder, on one thread. -> the notebook, with its outputs.

    It is run with AVX2 at most, so that what a cell trains is the same on newer processors. The HTML copies of pictures
    are removed. Raises nbclient's CellExecutionError if a cell raises, RuntimeError if a cell warns, and ImportError,
    with advice, if nbclient is missing.
    """
    nbclient = optional("nbclient", "running notebooks needs nbclient", "notebooks")
    from traitlets.config import Config

    # the kernel imports this tinyattn; one thread, so that sums are added in the same order
    here = str(Path(__file__).parents[2])
    ours = {"PYTHONPATH": here, "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "TQDM_DISABLE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        (empty := Path(folder, "empty")).mkdir()
        # a port that is free when Jupyter chooses it may be taken before the kernel opens it; these files cannot
        short = os.name == "posix" and len(folder) < 90       # the name of a socket has at most 103 bytes
        files = {"transport": "ipc", "ip": f"{folder}/kernel"} if short else {}
        client = nbclient.NotebookClient(
            made, timeout=seconds, kernel_name="python3", record_timing=False, coalesce_streams=True,
            resources={"metadata": {"path": str(empty)}}, config=Config({"KernelManager": files}),
            extra_arguments=["--log-level=ERROR"],
        )  # fmt: skip
        client.execute(env=os.environ | ours | avx2())
    for cell in made.cells:
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":
                raise RuntimeError(f"a cell warns:\n{output['text']}\nin the cell\n{cell.source}")
            if "picture" in output.get("metadata", {}):
                del output["data"]["text/html"]
    return made


def text_of(made: Any, install: str = "") -> str:
    """The text of the notebook's file. With `install`, the first cell installs that package with pip."""
    import nbformat

    if install:
        made.cells.insert(0, nbformat.v4.new_code_cell(f'%pip install -q "{install}"', id="install"))
    nbformat.validate(made)
    return nbformat.writes(made, version=nbformat.NO_CONVERT) + "\n"


def build(
    chapters: list[Chapter], to: Path, solutions: bool = False, instructor: bool = False, install: str = ""
) -> list[Path]:
    """Write each chapter's notebook into the folder `to`, and a folder for accepted answers. -> the notebooks.

    With `instructor`, the notebooks have solutions, and below each a note on right answers and common mistakes. With
    `install`, the first cell installs that package with pip, for machines without tinyattn. Raises ValueError, before
    any write, if a file exists, as it may hold answers; FileError if another process is writing to the folder. Each
    file is written whole or not at all.
    """
    if to.exists() and not to.is_dir():
        raise ValueError(f"{to} is a file, expected a folder")
    files = {to / f"{chapter.path.stem}.ipynb": chapter for chapter in chapters}
    expect_new(files)
    texts = {path: text_of(as_built(chapter, solutions or instructor, instructor), install)
             for path, chapter in files.items()}  # fmt: skip
    expect_room(to)
    write_new(texts, to)
    prepare(to)
    return list(texts)


def write_new(texts: dict[Path, str], to: Path, advice: str = ADVICE) -> list[Path]:
    """Write files into the folder `to`, each whole or not at all. -> the files. Raises as `expect_new`."""
    with alone_in(to):                                       # another process may be writing them
        expect_new(texts, advice)
        for path, text in texts.items():
            write_atomically(path, text.encode())
    return list(texts)


def expect_new(paths: Iterable[Path], advice: str = ADVICE) -> None:
    """Raises ValueError if one of the files exists."""
    for path in paths:
        if path.exists():
            raise ValueError(f"{path} is there already and may hold answers; {advice}")


def as_built(chapter: Chapter, solutions: bool = False, instructor: bool = False, marked: bool = False) -> Any:
    """The notebook for other folders; its metadata have the chapter's version, the seed and the ids of the cells."""
    from nbformat.v4 import new_markdown_cell

    made = notebook(chapter, solutions, apart=True, marked=marked)
    seed = {} if chapter.seed is None else {"seed": chapter.seed}
    cells = {} if solutions or marked else {"cells": [cell.id for cell in made.cells]}         # for `update`
    made.metadata = METADATA | {"tinyattn": {"chapter": chapter.version, **seed, **cells}}
    below = notes(chapter) if instructor else {}
    for cell in list(made.cells):
        checked = re.match(r"check\(\"(\w+)\"", cell.source)
        if checked and below:
            note = new_markdown_cell(below[checked[1]], id=f"note-{checked[1]}"[:64])
            made.cells.insert(made.cells.index(cell) + 1, note)
    return made
