"""A picture that links to a page in website/static/ is that page, live, in a frame; on a Git host it stays a picture.

    [![The player: what there is to see](../figures/view-player.png)](../website/static/player.html)

The frame may run scripts and do nothing else. Below it is a link that opens the page alone.
"""

from __future__ import annotations

import html
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "website" / "static"


def enliven(app: Sphinx, doctree: nodes.document) -> None:
    """Frames in the place of pictures; links of words lead to the page where it stands on the site."""
    folder = (ROOT / app.env.docname).parent
    up = "../" * app.env.docname.count("/")
    for node in [*doctree.findall(addnodes.download_reference), *doctree.findall(addnodes.pending_xref)]:
        path = (folder / node["reftarget"]).resolve()
        if path.parent != STATIC or path.suffix != ".html" or not path.exists():
            continue
        uri, image = f"{up}_static/{path.name}", next(node.findall(nodes.image), None)
        if image is None:
            node.replace_self(nodes.reference("", "", *node.children, internal=True, refuri=uri))
            continue
        frame = (
            f'<iframe class="live" src="{uri}" sandbox="allow-scripts" loading="lazy" '
            f'title="{html.escape(image["alt"])}"></iframe><br><a href="{uri}">Open it alone</a>'
        )
        node.replace_self(nodes.raw("", frame, format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", enliven, priority=90)            # before sources.py and the files to download
    return {"parallel_read_safe": True, "parallel_write_safe": True}
