"""`tinyattn course slides`: a chapter as slides, one HTML file that fetches nothing.

Each heading begins a slide. A slide shows the first sentence of each paragraph, and the sentences with something in
bold. Lists, tables, formulas, short code, results and pictures are shown whole. The full text is in the notes.
Exercises have stubs, and no solutions.
"""

import base64
import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..files import write_atomically
from .chapters import Chapter
from .notebook import execute, notebook

LINES, COLUMNS = 20, 110  # the most code or text that can be read from the last row of a lecture hall
LONG = 170  # characters: longer paragraphs and list items are shortened
OURS = '<meta name="generator" content="tinyattn course slides">'
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
# A sentence and the space after it; full stops in formulas and code end no sentence.
_SENTENCE = re.compile(r"((?:\$[^$]*\$|`[^`]*`|[^$`])+?[.?!]\)?(?:\*\*)?)\s+(?=[^a-z\s])")


def write_slides(chapter: Chapter, to: Path) -> Path:
    """Run the chapter unsolved, and write its slides to the file `to`. -> to.

    Raises ValueError, before the run, if `to` is a folder, or a file that this command did not write; ImportError, with
    advice, if a package is missing; OSError if the file cannot be written. It is written whole or not at all.
    """
    if to.exists() and (to.is_dir() or OURS.encode() not in to.read_bytes()[:500]):
        raise ValueError(f"{to} exists and is not a file of slides; name another file with --html")
    renderer = _renderer()
    write_atomically(to, page(chapter.title, execute(notebook(chapter)), renderer).encode())
    return to


def page(title: str, made: Any, renderer: Any = None) -> str:
    """The slides of an executed notebook, as HTML."""
    body = "".join(_blocks(made, renderer or _renderer()))
    here = Path(__file__).parent
    style, script = ((here / f"slides.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">{OURS}\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{html.escape(title)}</title>\n<style>{style}</style></head>\n<body>"
        f'{body}</section>\n<script>"use strict";\n{script}</script>\n</body></html>\n'
    )


def _renderer() -> Any:
    """Markdown to HTML, with formulas as MathML. Raises ImportError, with advice, where a package is missing."""
    try:
        from markdown_it import MarkdownIt
        from math_core import LatexError, LatexToMathML
        from mdit_py_plugins.dollarmath import dollarmath_plugin
    except ImportError as error:
        raise ImportError(f"slides need {error.name}: pip install 'tinyattn[notebooks]'") from None
    convert = LatexToMathML().convert_with_local_state

    def formula(tex: str, how: dict[str, Any]) -> str:
        try:
            return str(convert(tex, displaystyle=how["display_mode"]))
        except LatexError as error:
            raise ValueError(f"the formula {tex!r}: {error}") from None

    return MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, renderer=formula)


def _blocks(made: Any, renderer: Any) -> Iterator[str]:
    """HTML in order: a section for each slide, which the script splits if it is too long; notes in an <aside> below.

    After an exercise's `check`, the heading of its section is repeated. Results that readers should predict come on the
    slide after their question.
    """
    heading, above, held, waiting, begun = "", "", "", False, False
    for kind, shown, notes in _parts(made, renderer):
        if kind in ("heading", "check", "turn"):
            waiting = waiting or kind != "turn" or begun
            heading = shown if kind == "heading" else above if kind == "check" else heading
            if kind == "heading" and not shown.startswith("<h3>"):
                above = shown
            continue
        if kind == "p" and "<h3>Exercise" in heading:        # the task
            shown, notes = notes, ""
        if notes and notes != shown:
            held += f"<aside>{notes}</aside>"
        if waiting and shown:
            yield f"{'</section>' if begun else ''}\n<section>{heading}"
            waiting, begun = False, True
        if not waiting:
            yield shown + held
            held = ""


def _parts(made: Any, renderer: Any) -> Iterator[tuple[str, str, str]]:
    """(kind, HTML for the slide, HTML for the notes) of each part of the cells, in order."""
    for cell in made.cells:
        if cell.cell_type == "markdown":
            for i, text in enumerate(re.split(r"(?s)<details>.*?</summary>(.*?)</details>", cell.source)):
                yield from [("answer", "", renderer.render(text))] if i % 2 else _text(text, renderer)
        elif cell.source.startswith("check("):
            yield "check", "", ""
        elif "road(" not in cell.source:
            tags, source = cell.metadata.get("tags", ()), cell.source.replace("\n\n\n", "\n\n")
            lines = source.split("\n")
            results = [*_results(cell.outputs)]
            code = f"<pre><code>{html.escape(source)}</code></pre>"
            folded = "hide-input" in tags or "hide-cell" in tags or any("<iframe" in one for one in results)
            short = not folded and len(lines) <= LINES and max(map(len, lines)) <= COLUMNS
            yield "code", code if short else "", code
            if "hide-output" in tags or "hide-cell" in tags:
                yield "turn", "", ""
            yield from (("result", one, "") for one in results if short or " " in one)


def _text(source: str, renderer: Any) -> Iterator[tuple[str, str, str]]:
    """(kind, HTML for the slide, HTML for the notes) of each block of a text; the slide has shortened paragraphs."""
    block = list[Any]()
    for token in renderer.parse(source):
        block.append(token)
        if token.level or token.nesting == 1:
            continue
        kind, whole = block[0].tag, renderer.renderer.render(block, renderer.options, {})
        if kind == "p":
            yield kind, _short(block[1].content, whole, renderer), whole
        elif kind in ("ul", "ol"):
            items = [t.content for t in block if t.type == "inline"]
            short = [_first(item) if len(item) > LONG else item for item in items]
            shown = "".join(f"<li>{renderer.renderInline(item)}</li>" for item in short)
            yield kind, f"<{kind}>{shown}</{kind}>", whole if short != items else ""
        else:
            yield "heading" if block[0].type == "heading_open" else kind, whole, ""
        block = []


def _first(text: str) -> str:
    match = _SENTENCE.match(text)
    return match[1] if match else text


def _short(text: str, whole: str, renderer: Any) -> str:
    """A paragraph's first sentence, and those with something in bold. Short paragraphs and predictions stay whole."""
    sentences = _SENTENCE.sub(r"\1\0", text.replace("\n", " ")).split("\0")
    if "**Predict" in text or len(text) < LONG:
        return whole
    chosen = [s for i, s in enumerate(sentences) if i == 0 or "**" in s or "**" in sentences[i - 1][-3:]]
    return whole if len(chosen) == len(sentences) else f"<p>{renderer.renderInline(' '.join(chosen))}</p>"


def _results(outputs: Any) -> Iterator[str]:
    """HTML of pictures, of pages in frames, and of the first LINES lines of text."""
    for output in outputs:
        data = output.get("data", {"text/plain": output.get("text", "")})
        if frame := re.search(r"(?s)<iframe.*?</iframe>", data.get("text/html", "")):
            yield f'<figure class="live">{frame[0]}</figure>'
        elif kind := next((kind for kind in ("image/svg+xml", "image/png") if kind in data), ""):
            alt = html.escape(output.metadata.get(kind, {}).get("alt", ""))
            coded = base64.b64encode(data[kind].encode()).decode() if kind == "image/svg+xml" else data[kind].strip()
            yield f'<figure><img alt="{alt}" src="data:{kind};base64,{coded}"></figure>'
        else:
            lines = [line for line in data["text/plain"].rstrip().split("\n") if ": the library's" not in line]
            if any(lines):
                more = ["…"] if len(lines) > LINES else []
                yield f"<pre>{html.escape(chr(10).join(lines[:LINES] + more))}</pre>"
