"""One style for all figures, for print and for the colour-blind. matplotlib is imported when first needed."""

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
HEAT = "cividis"                                                            # perceptually uniform, for the colour-blind

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
    """A context in which figures are drawn in this style; dollars enclose formulas."""
    from matplotlib import rc_context

    with rc_context(_STYLE | {"text.parse_math": math}):
        yield


def in_style(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function that draws or saves to use this style, with dollars in labels taken literally."""

    @wraps(draw)
    def styled(*args: Any, **how: Any) -> Any:
        with style(math=False):
            return draw(*args, **how)

    return styled


def picture_format(path: str | Path) -> str:
    """The picture format that a path's suffix names, or png without one. Raises ValueError for an unknown one."""
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


def drawn(fig: Any, suffix: str) -> bytes:
    """-> a file of the figure, in the format that a suffix names."""
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)             # missing glyphs are drawn as boxes
        fig.savefig(content, format=suffix)
    return content.getvalue()
