"""Builds each notebooks/NN_name.ipynb from NN_name.py: unsolved, executed, and the same bytes on every build.

    python notebooks/build.py            all chapters
    python notebooks/build.py 2 5        chapters 02 and 05
    python notebooks/build.py --check    write nothing, list stale files, exit with 1 if there are any

The pictures that a chapter shows are written to figures/ as well. Needs `pip install -e ".[dev]"`.

`--check` finds every edit without a build, and gives no false alarm on another machine. It compares:

- cells exactly;
- outputs with those of running the source now: words exactly, numbers with a point to one of their last digit;
- pictures mark by mark or pixel by pixel, up to rounding, if matplotlib is the version that drew them;
- pages of tinyattn.show.views by their data, number by number, and all else on them as words.
"""

import argparse
import base64
import html
import io
import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.image
import nbformat
import numpy as np
from nbclient.exceptions import CellControlSignal
from nbformat.reader import NotJSONError

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tinyattn.course.chapters import Chapter, chapters  # noqa: E402
from tinyattn.course.notebook import METADATA, execute, notebook, text_of  # noqa: E402
from tinyattn.course.prose import folder  # noqa: E402
from tinyattn.files import write_atomically  # noqa: E402

FIGURES = ROOT / "figures"
SECONDS = 120  # for one cell
FORMS = {"image/svg+xml": "svg", "image/png": "png"}
IMAGE = re.compile(r"(?<=data:image/png;base64,)[^\"]*")
NAMED = re.compile(r"[\"#][a-z][0-9a-f]{10}\b")  # ids of marks and clips, which are hashes
MOVED = 0.002  # mean difference of pixels (from 0 to 1) that rounding may cause
CLOSE = 2e-6  # tolerance for a number of a page, relative to the largest number in its list
LEARNED = 0.01  # relative tolerance for numbers of a model that the cell trains
DATA = re.compile(r'(<script type="application/json" id="data">)(.*?)(?=</script>)', re.S)
FRAMED = re.compile(r"(?<=srcdoc=')[^']*")
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")


def executed(chapter: Chapter) -> Any:
    """The unsolved notebook, run from top to bottom in an empty folder, with its outputs.

    Raises nbclient's CellExecutionError if a cell raises, RuntimeError if one warns.
    """
    made = execute(notebook(chapter), SECONDS)
    made.metadata = METADATA | {"tinyattn": {"matplotlib": matplotlib.__version__}}
    return made


def pictures(made: Any) -> dict[str, bytes]:
    """The pictures in a notebook, by the names of their files."""
    return {
        f"{output.metadata['picture']}.{FORMS[kind]}": bytes_of(kind, shown)
        for cell in made.cells
        for output in cell.get("outputs", ())
        for kind, shown in output.get("data", {}).items()
        if kind in FORMS
    }


def bytes_of(kind: str, shown: str) -> bytes:
    """The bytes of a picture's file, from its entry in a notebook."""
    return base64.b64decode(shown) if kind == "image/png" else shown.encode()


def figure_files(chapter: Chapter, made: Any) -> dict[Path, bytes]:
    """The files in figures/ that belong to a chapter, and their contents."""
    return {
        FIGURES / f"{chapter.number:02}-{name}": shown for name, shown in pictures(made).items()
    }


def notebook_file(chapter: Chapter) -> Path:
    return chapter.path.with_suffix(".ipynb")


def committed(chapter: Chapter) -> Any | None:
    """The chapter's notebook in its file; None if there is no file, or if a merge has broken it."""
    try:
        return nbformat.read(notebook_file(chapter), nbformat.NO_CONVERT)
    except (FileNotFoundError, NotJSONError):
        return None


def build(chapter: Chapter) -> None:
    """Write the chapter's notebook and figures."""
    made = executed(chapter)
    for path, shown in figure_files(chapter, made).items():
        write_atomically(path, shown)
    write_atomically(notebook_file(chapter), text_of(made).encode())


def stale(chapter: Chapter) -> list[str]:
    """A sentence for each difference between a chapter's committed files and what its source gives now."""
    path, there = notebook_file(chapter), committed(chapter)
    if there is None:
        return [f"{path.name} {'is no notebook' if path.exists() else 'has not been built'}"]
    if _sources(there) != _sources(notebook(chapter)):
        return [f"{path.name} is stale: its cells are not those of {chapter.path.name}"]
    found = [
        f"{file.name} is stale: it is not the picture in {path.name}"
        for file, shown in figure_files(chapter, there).items()
        if not file.exists() or file.read_bytes() != shown
    ]
    try:
        made = executed(chapter)
    except (CellControlSignal, RuntimeError) as error:
        return [*found, f"{path.name} is stale: its source does not run\n{error}"]
    same_drawer = there.metadata.get("tinyattn") == made.metadata["tinyattn"]
    for number, (old, new) in enumerate(zip(there.cells, made.cells, strict=True), start=1):
        why = difference(old.get("outputs", []), new.get("outputs", []), same_drawer)
        if why:
            found.append(f"{path.name} is stale: running cell {number} gives {why}")
    return found


def _sources(made: Any) -> list[tuple[Any, ...]]:
    return [(cell.id, cell.cell_type, cell.source, cell.metadata) for cell in made.cells]


def difference(old: list[Any], new: list[Any], same_drawer: bool) -> str:
    """The difference between the outputs of two cells, or ""."""
    if len(old) != len(new):
        return f"{len(new)} outputs, not {len(old)}"
    for a, b in zip(old, new, strict=True):
        if a["output_type"] != b["output_type"]:
            return f"{b['output_type']}, not {a['output_type']}"
        one, two = ({"text": x["text"]} if "text" in x else dict(x.get("data", {})) for x in (a, b))
        if one.keys() != two.keys():
            return f"{', '.join(two)}, not {', '.join(one)}"
        for kind in one:
            if FRAMED.search(one[kind]) and FRAMED.search(two[kind]):
                if why := page_difference(*map(unframed, (one[kind], two[kind]))):
                    return f"another page: {why}"
            elif kind not in FORMS and not same_text(one[kind], two[kind]):
                return f"another text:\n{two[kind]}\nnot\n{one[kind]}"
        for kind in one.keys() & FORMS if same_drawer else ():
            same = same_picture if kind == "image/png" else same_drawing
            if not same(one[kind], two[kind]):
                return f"another picture {b['metadata'].get('picture', '')}".rstrip()
    return ""


def same_text(a: str, b: str) -> bool:
    """Whether words are equal, and numbers too; numbers with a point may differ by one of their last digit."""
    words = [" ".join(NUMBER.sub(" # ", text).split()) for text in (a, b)]
    numbers = [NUMBER.findall(text) for text in (a, b)]
    return words[0] == words[1] and all(_near(x, y) for x, y in zip(*numbers, strict=True))


def unframed(text: str) -> str:
    """The HTML with the pages in its frames unescaped."""
    return FRAMED.sub(lambda found: html.unescape(found[0]), text)


def page_difference(a: str, b: str) -> str:
    """The difference between two pages of tinyattn.show.views, or "": of data as numbers, of all else as words."""
    if not same_text(DATA.sub(r"\1", a), DATA.sub(r"\1", b)):
        return "its script, its style or its words"
    for one, two in zip(DATA.findall(a), DATA.findall(b), strict=True):
        if why := data_difference(json.loads(one[1]), json.loads(two[1])):
            return why
    return ""


def data_difference(a: Any, b: Any, where: str = "data", largest: float = 0.0) -> str:
    """The first difference between two JSON trees, or "". `largest` is the largest size of a number in their list."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        if a.keys() == {"f4"}:  # float32, packed
            one, two = (np.frombuffer(base64.b64decode(x["f4"]), dtype="<f4") for x in (a, b))
            if one.shape == two.shape and np.allclose(one, two, 0, LEARNED * np.abs(one).max()):
                return ""
            return f"{where}: other numbers"
        return next((why for k in a if (why := data_difference(a[k], b[k], f"{where}.{k}"))), "")
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        size = max((abs(x) for x in a if _is_number(x)), default=0.0)
        found = (
            data_difference(x, y, f"{where}[{i}]", size)
            for i, (x, y) in enumerate(zip(a, b, strict=True))
        )
        return next(filter(None, found), "")
    if _is_number(a) and _is_number(b):
        digit = max(_last_digit(repr(float(x))) for x in (a, b))
        slack = CLOSE * largest + (0 if type(a) is type(b) is int else min(digit, LEARNED * abs(a)))
        return "" if abs(a - b) <= 1.001 * slack else f"{where}: {b}, not {a}"
    if isinstance(a, str) and isinstance(b, str) and same_text(a, b):
        return ""
    return "" if a == b and type(a) is type(b) else f"{where}: {str(b)[:80]}, not {str(a)[:80]}"


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def _near(x: str, y: str) -> bool:
    if x == y:
        return True
    return (
        "." in x
        and "." in y
        and abs(float(x) - float(y)) <= 1.001 * max(_last_digit(x), _last_digit(y))
    )


def _last_digit(x: str) -> float:
    """The value of 1 at the last printed digit: 0.01 for 3.14, 1e-6 for 1.2e-5."""
    mantissa, _, exponent = x.lower().partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def same_picture(a: str, b: str) -> bool:
    """Whether two PNGs in base64 are equal, up to a few pixels at edges, which rounding may move."""
    one, two = (matplotlib.image.imread(io.BytesIO(base64.b64decode(x))) for x in (a, b))
    return one.shape == two.shape and float(np.mean(np.abs(one - two))) <= MOVED


def same_drawing(a: str, b: str) -> bool:
    """Whether two SVGs have the same marks, each within a point, and the same images, by `same_picture`."""
    images = [IMAGE.findall(text) for text in (a, b)]
    a, b = (NAMED.sub("", IMAGE.sub("", text)) for text in (a, b))
    places = [np.array(NUMBER.findall(text), float) for text in (a, b)]
    return (
        NUMBER.sub("#", a) == NUMBER.sub("#", b)
        and bool(np.all(np.abs(places[0] - places[1]) <= 1))
        and len(images[0]) == len(images[1])
        and all(same_picture(one, two) for one, two in zip(*images, strict=True))
    )


def strays() -> list[str]:
    """Notebooks without a source, and figures with a chapter's number that no notebook shows."""
    every = chapters()
    kept = {notebook_file(chapter) for chapter in every}
    found = [
        f"{path.name} has no source"
        for path in sorted(folder().glob("*.ipynb"))
        if path not in kept
    ]
    shown: set[Path] = set()
    for chapter in every:
        there = committed(chapter)
        if there is not None:
            shown |= figure_files(chapter, there).keys()
    return found + [
        f"{p.name} is in no notebook"
        for p in sorted(FIGURES.glob("[0-9][0-9]-*.*"))
        if p not in shown
    ]


def main(arguments: list[str] | None = None) -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "chapters", nargs="*", type=int, metavar="NN", help="chapters by number (default: all)"
    )
    parser.add_argument("--check", action="store_true", help="write nothing, name what is stale")
    options = parser.parse_args(arguments)
    try:
        chosen = chapters(options.chapters)
    except ValueError as error:
        parser.error(str(error))
    if options.check:
        with ThreadPoolExecutor(2) as pool:  # a chapter runs in another process
            found = [why for of_one in pool.map(stale, chosen) for why in of_one] + strays()
        print("\n".join(found) or f"{len(chosen)} chapters are as built")
        return 1 if found else 0
    for chapter in chosen:
        build(chapter)
        print(notebook_file(chapter))
    for why in strays():
        print(why)
    return 0


if __name__ == "__main__":
    sys.exit(main())
