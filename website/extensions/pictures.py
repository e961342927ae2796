"""What there is to see in a chapter's pictures, for whoever cannot see them: myst-nb leaves it in the notebook."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import nbformat
from docutils import nodes
from sphinx.application import Sphinx


def describe(app: Sphinx, doctree: nodes.document) -> None:
    """Give every picture of the notebook that is being read its `alt`; myst-nb names a file by what is in it."""
    page = Path(app.env.doc2path(app.env.docname))
    if page.suffix != ".ipynb":
        return
    cells = nbformat.read(page, nbformat.NO_CONVERT).cells
    shown = [output for cell in cells for output in cell.get("outputs", ()) if "image/png" in output.get("data", {})]
    said = {
        hashlib.sha256(base64.b64decode(output.data["image/png"])).hexdigest(): output.metadata["image/png"]["alt"]
        for output in shown
    }
    for image in doctree.findall(nodes.image):
        name = Path(image["uri"]).stem
        if name in said:
            image["alt"] = said[name]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
