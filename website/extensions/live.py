"""A picture of a view, figures/view-NAME.png, is that view on the site, live, in a frame; on a Git host a picture.

    ![The player: what there is to see](../figures/view-player.png)

The frame may run scripts and offer downloads, and do nothing else. Below it is a link that opens the page alone. The
build makes the pages.
"""

import html
from functools import cache
from pathlib import Path

import numpy as np
from docutils import nodes
from sphinx.application import Sphinx

from tinyattn.ops import attention
from tinyattn.show import trace
from tinyattn.show.views import View, derivation, mirror, visualise_text

ROOT = Path(__file__).parents[2]


WORDS = {  # chapter 01's
    "q": np.array([[0.0, 2.0, 0.0, 0.0], [3.0, 0.0, 2.0, 0.0], [1.0, 2.0, 0.0, 0.0]]),
    "k": np.array([[2.0, 0.0, 0.0, 1.0], [0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 2.0, 1.0]]),
    "v": np.array([[4.0, 0.0], [0.0, 4.0], [0.0, -2.0]]),
}


def player() -> View:
    """Attention of three words, and its backward, step by step."""
    found = trace(attention, *WORDS.values(), backward=True)
    first = found.entry("attention_backward.dv").number                   # the backward's first product
    return found.player(title="Attention of three words, forward and backward", start=first)


PAGES = {
    "player": player,
    "visualiser": lambda: visualise_text("The cat sat on the mat"),
    "mirror": lambda: mirror(["cat", "sat", "mat"], **WORDS, hide=("heads",), play=True),
    "derivation": derivation,
}
view = cache(lambda name: PAGES[name]())
PICTURES = {ROOT / "figures" / f"view-{name}.png": name for name in PAGES}


def enliven(app: Sphinx, doctree: nodes.document) -> None:
    """Frames in the place of pictures."""
    folder = (ROOT / app.env.docname).parent
    up = "../" * app.env.docname.count("/")
    for image in list(doctree.findall(nodes.image)):
        name = PICTURES.get((folder / image["uri"]).resolve())
        if name is not None:
            uri = f"{up}_static/{name}.html"
            frame = (
                f'<iframe class="live" src="{uri}" sandbox="allow-scripts allow-downloads" loading="lazy" '
                f'style="height: {view(name).height}px" title="{html.escape(image["alt"])}"></iframe>'
                f'<br><a href="{uri}">Open it alone</a>'
            )
            image.replace_self(nodes.raw("", frame, format="html"))


def write_pages(app: Sphinx) -> None:
    """Make the pages before autodoc reads the library: for functions' defaults it puts what the source says."""
    if app.builder.format == "html":
        static = Path(app.outdir) / "_static"
        static.mkdir(parents=True, exist_ok=True)
        for name in PAGES:
            view(name).save(static / f"{name}.html")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", enliven, priority=90)            # before pictures are gathered
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
