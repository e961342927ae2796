"""A table's first corner without a word is no header: screen readers would announce an empty one."""

import re
from typing import Any

from sphinx.application import Sphinx

EMPTY = re.compile(r'<th class="(head[^"]*)"><p></p></th>')


def without_empty_headers(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if "body" in context:
        context["body"] = EMPTY.sub(r'<td class="\1"></td>', context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", without_empty_headers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
