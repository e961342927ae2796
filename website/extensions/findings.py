"""On the page of errata, the table with which a chapter ends: what is often said, and what its cells show.

The tables stay where they are, in the notebooks; a new chapter's is there with the chapter.
"""

import json
import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
PAGE = "docs/errata"
MARK = "<!-- the chapters' tables: website/extensions/findings.py -->"
TABLE = re.compile(r"^\| what is often said.*\|\n(\|[-|]+\|\n(?:\|.*\|\n?)+)", re.M)


def findings(notebook: Path) -> str:
    """A chapter's table under its title; nothing where it has none."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    title, found = re.search(r"^# (.+)$", text, re.M), TABLE.search(text)
    if title is None or found is None:
        return ""
    return f"## [{title[1]}](../notebooks/{notebook.name})\n\n| often said | what its cells show |\n{found[1]}\n\n"


def fill(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == PAGE:
        notebooks = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
        for notebook in notebooks:
            app.env.note_dependency(str(notebook))
        source[0] = source[0].replace(MARK, "\n".join(map(findings, notebooks)))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
