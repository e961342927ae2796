"""A page that works as a file, in a notebook and offline: it contains its data, script and style.

Its Content-Security-Policy forbids requests, and allows only this script and style, by their digests. The data is JSON
in which `<` is escaped, and the script writes only text, never markup.
"""

import base64
import hashlib
import json
from collections.abc import Iterable
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from ...files import write_atomically

HERE = Path(__file__).parent
HEIGHT = 640                           # height of the frame in a notebook, in pixels
UNTRUSTED = "Run the cell, or trust the notebook, to see a page here."


class View:
    """A page of the kind `kind`: the script KIND.js draws `data`, with the functions of `ground.js`.

    The style is `view.css`, and KIND.css if it exists. `table` is HTML for readers without scripts; `height` is the
    height of the frame in a notebook, in pixels.
    """

    def __init__(self, kind: str, title: str, data: dict[str, Any], table: str = "", height: int = HEIGHT) -> None:
        self.kind, self.title, self.data, self.table, self.height = kind, title, data, table, height

    def __repr__(self) -> str:
        return f"View({self.kind!r}, {self.title!r})"

    def html(self) -> str:
        return self._page(self.table or "This page needs scripts.")

    def _page(self, without_scripts: str) -> str:
        style = _part("view.css") + (_part(f"{self.kind}.css") if (HERE / f"{self.kind}.css").exists() else "")
        script = f'"use strict";\n(() => {{\n{_part("ground.js")}\n{_part(f"{self.kind}.js")}}})();\n'
        policy = f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}"
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>{style}</style></head>\n<body>\n"
            f'<main id="view" data-kind="{self.kind}"><noscript>{without_scripts}</noscript></main>\n'
            f'<script type="application/json" id="data">{as_json(self.data)}</script>\n'
            f"<script>{script}</script>\n</body></html>\n"
        ).encode(errors="replace").decode()              # replaces lone surrogates, which UTF-8 cannot encode

    def save(self, path: str | Path) -> Path:
        """Write the page, whole or not at all. -> path. Raises OSError."""
        path = Path(path)
        write_atomically(path, self.html().encode())
        return path

    def _repr_html_(self) -> str:
        """A frame, which may only run scripts and offer downloads; below it the table, folded.

        A notebook that is not trusted shows the text `UNTRUSTED` instead of the frame.
        """
        page = escape(self._page("This frame needs scripts; the table below it does not."), quote=False)
        page = page.replace("'", "&#39;")            # the attribute has single quotes: double ones need no escapes
        return (
            f'<iframe title="{escape(self.title)}" sandbox="allow-scripts allow-downloads" '
            f'style="width: 100%; height: {self.height}px; border: 1px solid #8888" '
            f"srcdoc='{page}'>{UNTRUSTED}</iframe>"
            f"<details><summary>As a table</summary>{self.table or 'There is none.'}</details>"
        )


def as_table(caption: str, columns: Iterable[str], rows: Iterable[tuple[str, Iterable[float]]]) -> str:
    """An HTML table of numbers with three decimals, and with names of columns and rows."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = ""
    for name, numbers in rows:
        cells = "".join(f"<td>{round(float(x), 3) + 0.0:.3f}</td>" for x in numbers)
        body += f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'
    return f"<table><caption>{escape(caption)}</caption><tr><td></td>{head}</tr>{body}</table>"


def as_json(data: Any) -> str:
    """JSON for a script element: `<`, `>` and Unicode's line separators are escaped."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def numbers(x: np.ndarray, digits: int = 6) -> list[Any]:
    """The entries of an array for `as_json`: rounded numbers, true or false, or "inf", "-inf", "nan"."""
    if x.dtype.kind in "biu":
        return x.ravel().tolist()
    numbers = []
    for value in x.ravel().tolist():
        rounded = float(f"{value:.{digits}g}")
        whole = rounded.is_integer() and abs(rounded) < 1e15
        numbers.append(int(rounded) if whole else rounded if np.isfinite(value) else str(value))
    return numbers


@cache
def _part(name: str) -> str:
    text = (HERE / name).read_text(encoding="utf-8")
    assert "</" not in text or name.endswith(".css"), name          # no closing tag ends the element
    return text


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
