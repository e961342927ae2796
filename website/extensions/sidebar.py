"""The theme's list of pages, folded by group; the group of the page that is shown is open."""

import re
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


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", fold, priority=900)         # after the theme has made the list
    return {"parallel_read_safe": True, "parallel_write_safe": True}
