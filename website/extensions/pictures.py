"""Descriptions of a chapter's pictures, for those who cannot see them: myst-nb leaves them in the notebook.

A picture with links, as the map of chapters, becomes part of its page, where they can be followed.
"""

import hashlib
import html
import re
from collections import Counter
from pathlib import Path
from typing import Any

import nbformat
from docutils import nodes
from sphinx.application import Sphinx

from notebooks.build import FIGURES, FORMS, bytes_of

LINK = re.compile(r'<a xlink:href="([^"]*)" target="_blank">')
DARK = re.compile(r"@media \(prefers-color-scheme: dark\) (\{.*?\} \})")


def describe(app: Sphinx, doctree: nodes.document) -> None:
    """Give every picture of the notebook that is being read its `alt`; myst-nb names a file by what is in it."""
    page = Path(app.env.doc2path(app.env.docname))
    cells = nbformat.read(page, nbformat.NO_CONVERT).cells if page.suffix == ".ipynb" else ()
    shown = {
        hashlib.sha256(bytes_of(kind, data.rstrip("\n"))).hexdigest(): (
            output.metadata["picture"],
            output.metadata[kind]["alt"],
        )
        for cell in cells
        for output in cell.get("outputs", ())
        for kind, data in output.get("data", {}).items()
        if kind in FORMS
    }
    for image in list(doctree.findall(nodes.image)):
        name, image["alt"] = shown.get(Path(image["uri"]).stem, ("", image.get("alt", "")))
        path = FIGURES / f"{page.stem[:2]}-{name}.svg" if name else (page.parent / image["uri"]).resolve()
        if path.suffix == ".svg" and path.is_relative_to(FIGURES) and LINK.search(drawing := path.read_text()):
            image.replace_self(nodes.raw("", inline(drawing, image["alt"], app), format="html"))


def inline(drawing: str, alt: str, app: Sphinx) -> str:
    """An SVG as a part of a page: links lead to the site's pages, with a tab stop each; dark goes with the theme."""
    to_come = Counter(LINK.findall(drawing))             # circle, number and name have one link: the last is a tab stop

    def link(found: re.Match[str]) -> str:
        target = html.unescape(found[1])
        to_come[found[1]] -= 1
        if target.startswith("../"):
            page = app.builder.get_relative_uri(app.env.docname, target.removeprefix("../").removesuffix(".ipynb"))
            target = html.escape(page)
        return f'<a href="{target}"{" tabindex=-1 aria-hidden=true" if to_come[found[1]] else ""}>'

    by_theme = r"body[data-theme=dark] \1 @media (prefers-color-scheme: dark) { body:not([data-theme=light]) \1 }"
    drawing = DARK.sub(by_theme, drawing)
    drawing = re.sub("<title>.*?</title>", "", drawing)
    drawing = re.sub(r"(?s)^.*?<svg ", f'<svg class="inline" role="group" aria-label="{html.escape(alt)}" ', drawing)
    return LINK.sub(link, drawing)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", describe, priority=90)           # before pictures are gathered
    return {"parallel_read_safe": True, "parallel_write_safe": True}
