"""Formulas as MathML, which browsers draw: no script, nothing to load, and an unknown command is a warning.

MathJax would have to be vendored, two megabytes of it, and shows a mistake only to those who look at the page.
"""

from typing import Any

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.application import Sphinx
from sphinx.util import logging

LOG = logging.getLogger(__name__)
TO_MATHML = LatexToMathML(fancy_error=False)


def mathml(tex: str, node: nodes.Node, *, display: bool) -> str:
    """`tex` as a <math> element; what cannot be read is a warning that names the page and line."""
    try:
        return TO_MATHML.convert_with_local_state(tex, displaystyle=display)
    except LatexError as error:
        LOG.warning("formula %r: %s", tex, error, location=node, type="formula")
        return f"<code>{nodes.unescape(tex)}</code>"


def visit_math(writer: Any, node: nodes.math) -> None:
    writer.body.append(mathml(node.astext(), node, display=False))
    raise nodes.SkipNode


def visit_math_block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="formula">{mathml(node.astext(), node, display=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
