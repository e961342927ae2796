"""One style for all figures, readable in print and by the colour-blind. matplotlib is imported when first needed."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

from ..files import write_atomically

BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#6b6b6b"     # Okabe & Ito's
HEAT = "cividis"                                                            # even in lightness, for all eyes

_STYLE: dict[Any, Any] = {
    "figure.dpi": 120,
    "savefig.dpi": 120,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "svg.fonttype": "none",            # text stays text: it can be searched, and set in another type
    "pdf.fonttype": 42,
}


def figure(rows: int = 1, columns: int = 1, size: tuple[float, float] = (6.0, 3.6), **how: Any) -> tuple[Any, Any]:
    """-> figure, axes, without matplotlib's global state; draw within `style()` or `in_style`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fig = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(fig)
    return fig, fig.subplots(rows, columns, **how)


@contextlib.contextmanager
def style(math: bool = True) -> Iterator[None]:
    """`with style(): ...` draws figures in the block in this style; dollars enclose formulas."""
    from matplotlib import rc_context

    with rc_context(_STYLE | {"text.parse_math": math}):
        yield


def in_style(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function that draws or saves: it does so in this style.

    Labels are taken literally: an item id with dollars in it is no formula.
    """

    @wraps(draw)
    def styled(*args: Any, **how: Any) -> Any:
        with style(math=False):
            return draw(*args, **how)

    return styled


def picture_format(path: str | Path) -> str:
    """What the suffix of a path says, png where it has none. Raises ValueError for what is no format of pictures."""
    from matplotlib.backend_bases import FigureCanvasBase

    known, suffix = FigureCanvasBase.filetypes, Path(path).suffix[1:].lower() or "png"
    if suffix not in known:
        raise ValueError(f"{path} ends in .{suffix}, expected a format of pictures: {', '.join(sorted(known))}")
    return suffix


@in_style
def save(fig: Any, path: str | Path) -> Path:
    """Write the figure to `path`, whole or not at all, making its folder. -> path.

    Raises as `picture_format`, and OSError where it cannot be written.
    """
    path, content = Path(path), io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)             # a glyph that the font lacks is drawn as a box
        fig.savefig(content, format=picture_format(path))
    write_atomically(path, content.getbuffer())
    return path
