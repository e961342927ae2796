"""One style for all figures, readable in print and for the colour-blind. matplotlib is imported when first needed."""

import contextlib
import html
import io
import re
import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..files import write_atomically

INK, GROUND = "#1a1a1c", "#fefefe"                # text and axes; the background
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072b2", "#c25200", "#00805f", "#ae4d86", "#6b6b6b"    # after Okabe & Ito
HEAT = "cividis"                                                            # perceptually uniform, for the colour-blind
DARK = {            # colours for readers who prefer dark pages; black and white in cells of heat maps stay the same
    INK: "#dcdce0", GROUND: "#131416", BLUE: "#56b4e9", ORANGE: "#f0883e", GREEN: "#2fbf94", PURPLE: "#e08fc0",
    GREY: "#9c9ca2",
}  # fmt: skip

_STYLE: dict[Any, Any] = {
    "figure.dpi": 120,
    "savefig.dpi": 192,                # twice the pixels of a screen of 96 dpi
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "figure.facecolor": GROUND,
    "axes.facecolor": "none",
    "savefig.facecolor": GROUND,
    "legend.frameon": False,
    "image.interpolation": "none",     # an SVG keeps the array's cells, a pixel each
    "svg.fonttype": "none",            # text stays text: it can be searched, and set in another type
    "svg.hashsalt": "tinyattn",        # paths have the same ids in every build
    "pdf.fonttype": 42,
} | dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK)


def figure(
    rows: int = 1, columns: int = 1, size: tuple[float, float] = (6.0, 3.6), title: str = "", **how: Any
) -> tuple[Any, Any]:
    """-> figure, axes below the `title`, without matplotlib's global state; draw within `style()` or `in_style`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fig = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(fig)
    if title:
        fig.suptitle(title, x=0.01, ha="left", fontsize=11)
    return fig, fig.subplots(rows, columns, **how)


@contextlib.contextmanager
def style(math: bool = True) -> Iterator[None]:
    """A `with` block in which figures are drawn in this style. With `math`, dollars enclose formulas."""
    from matplotlib import rc_context

    with rc_context(_STYLE | {"text.parse_math": math}):
        yield


def in_style(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the function draws or saves in this style, and dollars in labels are taken literally."""

    @wraps(draw)
    def styled(*args: Any, **how: Any) -> Any:
        with style(math=False):
            return draw(*args, **how)

    return styled


def picture_format(path: str | Path) -> str:
    """The picture format of a path's suffix, or png without a suffix. Raises ValueError for an unknown suffix."""
    from matplotlib.backend_bases import FigureCanvasBase

    known, suffix = FigureCanvasBase.filetypes, Path(path).suffix[1:].lower() or "png"
    if suffix not in known:
        raise ValueError(f"{path} ends in .{suffix}, expected a format of pictures: {', '.join(sorted(known))}")
    return suffix


@in_style
def save(fig: Any, path: str | Path) -> Path:
    """Write the figure to `path`, whole or not at all. -> path. Raises ValueError for an unknown suffix, OSError."""
    path = Path(path)
    write_atomically(path, drawn(fig, picture_format(path)))
    return path


def drawn(fig: Any, suffix: str, title: str = "") -> bytes:
    """-> the bytes of a picture file, in the format of a suffix, without date and version.

    An SVG also has the colours of `DARK`, and `title`, which describes the picture.
    """
    from matplotlib.text import Text

    content = io.BytesIO()
    for text in fig.findobj(Text):                               # names of files need not be UTF-8
        if (readable := text.get_text().encode(errors="replace").decode()) != text.get_text():
            text.set_text(readable)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)             # missing glyphs are drawn as boxes
        without = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}.get(suffix)
        fig.savefig(content, format=suffix, metadata=without)
    if suffix != "svg":
        return content.getvalue()
    rules = "".join(
        f'[style*="{what}: {light}"] {{{what}: {dark} !important}} '
        for light, dark in DARK.items()
        for what in ("fill", "stroke")
    )
    text = re.sub(r"'Bitstream Vera Sans'.*?sans-serif", "Verdana, sans-serif", content.getvalue().decode())
    style = f"<style>@media (prefers-color-scheme: dark) {{{rules}}}</style>"
    style = (f"<title>{html.escape(title)}</title>" if title else "") + style
    return re.sub(r" *<metadata>.*</metadata>\n", "", text, flags=re.S).replace("<defs>", style + "<defs>", 1).encode()


def label_ends(ax: Any, fontsize: float = 9, start: bool = False) -> None:
    """Write the label of each line beside its last point, or with `start` left of its first, in place of a legend.

    Set scales and limits before. Labels that would overlap are moved apart; a line without a visible point has none.
    """
    ax.figure.draw_without_rendering()                           # the layout places the axes now
    line_height = 1.25 * fontsize / 72 * ax.figure.dpi / ax.get_window_extent().height
    into = ax.transData + ax.transAxes.inverted()
    points = {line: _inside(into.transform(line.get_xydata())) for line in ax.lines if line.get_label()[:1] != "_"}
    lines = [line for line, seen in points.items() if len(seen)]
    if not lines:
        return
    at = np.array([points[line][0 if start else -1] for line in lines])
    at[:, 1] = at[:, 1].clip(line_height / 2)
    order = np.argsort(at[:, 1], kind="stable")
    for _ in range(200):
        for low, high in pairwise(order):
            lack = line_height - (at[high, 1] - at[low, 1])
            if lack > 0 and abs(at[high, 0] - at[low, 0]) < 0.3:
                at[low, 1] -= lack / 2
                at[high, 1] += lack / 2
    side, align = (-6, "right") if start else (6, "left")
    for line, place in zip(lines, at, strict=True):
        ax.annotate(
            line.get_label(), place, (side, 0), xycoords="axes fraction", textcoords="offset points", va="center",
            ha=align, color=line.get_color(), fontsize=fontsize, annotation_clip=False,
        )  # fmt: skip


def _inside(points: np.ndarray) -> np.ndarray:
    """The visible points of a line, in fractions of the axes."""
    with np.errstate(invalid="ignore"):
        return points[((points > -0.01) & (points < 1.01)).all(axis=1)]
