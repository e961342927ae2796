"""The theme's list of pages, folded by group; the group of the page that is shown is open."""

import posixpath
import re
from functools import cache, partial
from typing import Any

from sphinx.application import Sphinx

GROUP = re.compile(r'<p class="caption"[^>]*>(.*?)</p>\s*(<ul.*?</ul>\s*)(?=<p class="caption"|$)', re.S)


def fold(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    tree = context.get("furo_navigation_tree", "")

    def folded(match: re.Match[str]) -> str:
        title, pages = match.groups()
        opened = " open" if "current-page" in pages else ""
        return f'<details{opened}><summary class="caption">{title}</summary>{pages}</details>'

    context["furo_navigation_tree"] = GROUP.sub(folded, tree)


def make_once(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """A source's page is in no group, so its list is that of all pages in its folder, and takes long to make."""
    if page.startswith("source/"):
        context["toctree"] = partial(_list_of, app, posixpath.dirname(page))


@cache
def _list_of(app: Sphinx, folder: str, **options: Any) -> str:
    return app.builder._get_local_toctree(f"{folder}/any", **options)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", make_once, priority=100)
    app.connect("html-page-context", fold, priority=900)         # after the theme has made the list
    return {"parallel_read_safe": True, "parallel_write_safe": True}
