"""Animated GIFs: the steps of a trace, or the attention of each token."""

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..files import write_atomically
from .array_map import draw_map
from .records import Entry
from .sources import function_lines, statement_at
from .style import BLUE, GREY, INK, figure, in_style

AROUND = 7               # lines of source shown before and after a step's line
MOST = 400               # the most pictures of a GIF


@in_style
def animate(pictures: Iterable[Any], path: str | Path, seconds: float = 1.0) -> Path:
    """Write matplotlib figures of one size as a repeating GIF. -> path.

    Each figure is shown for `seconds`; a pair (figure, seconds) sets its own time. Raises ValueError for no pictures,
    for more than 400, and for `seconds` of 0 or less.
    """
    from PIL import Image

    if not seconds > 0:
        raise ValueError(f"seconds is {seconds}, expected a number above 0")
    frames, milliseconds = [], []
    for each in pictures:
        fig, long = each if isinstance(each, tuple) else (each, seconds)
        milliseconds.append(round(1000 * long))
        fig.canvas.draw()
        picture = Image.fromarray(np.asarray(fig.canvas.buffer_rgba()))
        frames.append(picture.convert("P", palette=Image.Palette.ADAPTIVE))
        if len(frames) > MOST:
            raise ValueError(f"there are more than {MOST} pictures: pass fewer")
    if not frames:
        raise ValueError("there are no pictures")
    path, content = Path(path), io.BytesIO()
    frames[0].save(content, format="GIF", save_all=True, append_images=frames[1:], duration=milliseconds, loop=0)
    write_atomically(path, content.getbuffer())
    return path


@in_style
def step_picture(entry: Entry, of: int) -> Any:
    """One step of a trace: its line with the lines around it, and its array. -> matplotlib figure of 9 by 4 inches."""
    fig, (left, right) = figure(1, 2, size=(9.0, 4.0), width_ratios=(3, 2))
    statement = statement_at(entry.call.file, entry.line)
    first = max(statement.first - AROUND, entry.call.line)
    whole = function_lines(entry.call.file, entry.call.line)
    lines = [(n, text) for n, text in whole if first <= n <= statement.last + AROUND]
    left.set_axis_off()
    left.set_title(f"step {entry.number} of {of - 1}: {entry.call.label}")
    for i, (n, text) in enumerate(lines):
        now = statement.first <= n <= statement.last
        left.text(
            0, 1 - (i + 0.5) / max(len(lines), 15), f"{n:4}  {text[:70]}", family="monospace", fontsize=7,
            color=INK if now else GREY, weight="bold" if now else "normal", va="center",
            transform=left.transAxes,
        )  # fmt: skip
    value = np.atleast_2d(np.real(entry.value))
    draw_map(right, value.reshape(-1, value.shape[-1]))
    right.set_title(f"{entry.name} {entry.value.shape}")
    return fig


@in_style
def looking_picture(weights: np.ndarray, labels: Sequence[str], query: int) -> Any:
    """The weights of one query, in each layer and head, as bars. -> figure. Shapes: weights (layers, heads, n, n)."""
    layers, heads, n, _ = weights.shape
    fig, axes = figure(layers, heads, size=(max(2.2 * heads, 5.0), 1.6 * layers + 1.2), squeeze=False, sharey=True)
    for (layer, head), ax in np.ndenumerate(axes):
        ax.bar(np.arange(n), weights[layer, head, query], color=[BLUE] * n)
        ax.set_ylim(0, 1)
        ax.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=8)
        every = -(-n // 20)
        ax.set_xticks(range(0, n, every), labels[::every], rotation=90, fontsize=7)
        ax.tick_params(labelsize=7)
    fig.suptitle(f"{labels[query]} looks at", x=0.01, ha="left", fontsize=10)
    return fig
