"""One style for all figures, readable in print and by the colour-blind. matplotlib is imported when first needed."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

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


@in_style
def save(fig: Any, path: str | Path) -> Path:
    """Write the figure to `path` (the suffix says the format), making its folder. -> path."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)             # a glyph that the font lacks is drawn as a box
        fig.savefig(path)
    return path
