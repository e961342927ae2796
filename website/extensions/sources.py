"""A page for every source that some page links to, and for every source of an entry: the same link works on a Git host.

docs/block.md links to ../tinyattn/ops/softmax.py. A host shows that file; here it is build/site/source/tinyattn/ops/
softmax.py.html. A folder is shown as a list of its contents, or as its README.md where that is a page.
"""

import html
import inspect
import posixpath
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

ROOT = Path(__file__).parents[2]
LINES = HtmlFormatter(linenos="inline", anchorlinenos=True, lineanchors="line", wrapcode=True)


def place(path: Path) -> str:
    """The name of a source's page."""
    return f"source/{path.relative_to(ROOT).as_posix()}" + ("/index" if path.is_dir() else "")


def relink(app: Sphinx, doctree: nodes.document) -> None:
    """A link to a file or folder that is shown as a page leads to that page; entries get a link to their source."""
    here = app.env.docname
    for node in [*doctree.findall(addnodes.download_reference), *doctree.findall(addnodes.pending_xref)]:
        target = node["reftarget"].partition("#")[0]
        if not target or node.get("refdomain"):
            continue
        path = (ROOT / target.lstrip("/") if target.startswith("/") else (ROOT / here).parent / target).resolve()
        readme = app.project.path2doc(path / "README.md") if (path / "README.md").exists() else None
        if readme in app.env.found_docs:
            uri = relative(here, readme)
        elif path.is_relative_to(ROOT) and (path.is_dir() or (path.suffix == ".py" and path.exists())):
            uri = shown(app.env, path)
        else:
            continue
        node.replace_self(nodes.reference("", "", *node.children, internal=True, refuri=uri))
    for signature in doctree.findall(addnodes.desc_signature):
        found = source_of(signature.get("module"), signature.get("fullname"))
        if found is not None:
            uri = shown(app.env, found[0]) + f"#line-{found[1]}"
            mark = nodes.inline("", "[source]", classes=["viewcode-link"])
            signature += nodes.reference("", "", mark, internal=True, refuri=uri)


def relative(here: str, page: str) -> str:
    return posixpath.relpath(f"{page}.html", posixpath.dirname(here) or ".")


def shown(env: BuildEnvironment, path: Path) -> str:
    """The link from the page that is being read to that of `path`, which will be made."""
    env.metadata[env.docname].setdefault("sources", set()).add(str(path))
    return relative(env.docname, place(path))


def source_of(module: str | None, name: str | None) -> tuple[Path, int] | None:
    """File and first line of an entry of the API; None for what is not made of lines, such as a table."""
    if not module or not name:
        return None
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, property | cached_property):
        found = found.fget if isinstance(found, property) else found.func
    found = inspect.unwrap(found)                                                   # not its decorator's lines
    try:
        path, line = Path(inspect.getsourcefile(found) or ""), inspect.getsourcelines(found)[1]
    except (TypeError, OSError):
        return None
    return (path, line) if path.is_relative_to(ROOT) else None


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    wanted = {Path(path) for data in app.env.metadata.values() for path in data.get("sources", ())}
    for folder in [path for path in wanted if path.is_dir()]:
        wanted.update(folder.glob("*.py"))
    for path in sorted(wanted):
        name = html.escape(path.relative_to(ROOT).as_posix())
        shown_as = listing(app, path) if path.is_dir() else highlight(path.read_text("utf-8"), PythonLexer(), LINES)
        body = f'<section class="source"><h1>{name}</h1>{shown_as}</section>'
        yield place(path), {"title": name, "body": body}, "page.html"


def listing(app: Sphinx, folder: Path) -> str:
    """Sources and pages that lie in a folder."""
    links = {path: f"{path.name}.html" for path in folder.glob("*.py")}
    for path in folder.iterdir():
        if app.project.path2doc(path) in app.env.found_docs:
            links[path] = relative(place(folder), app.project.path2doc(path))
    items = (f'<li><a href="{link}">{html.escape(path.name)}</a></li>' for path, link in sorted(links.items()))
    return f"<ul>{''.join(items)}</ul>"


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", relink, priority=100)           # before files to download are collected
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
