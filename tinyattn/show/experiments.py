"""Pictures of an experiment's runs."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..experiments.pictures import Curves, Dots, Maps, Picture, Scatter
from .style import BLUE, GREEN, GREY, HEAT, INK, ORANGE, PURPLE, figure, in_style

STYLES: tuple[tuple[str, Any], ...] = (
    (GREY, "-"), (BLUE, "--"), (ORANGE, "-."), (GREEN, ":"), (PURPLE, (0, (5, 1, 1, 1, 1, 1))), (INK, (0, (1, 3))),
    (BLUE, "-"), (ORANGE, "-"), (GREEN, "-"), (PURPLE, "-"),
    (BLUE, ":"), (ORANGE, ":"), (GREEN, "--"), (PURPLE, ":"),
)  # fmt: skip
MARKS = ((ORANGE, "o"), (BLUE, "+"), (INK, "x"), (GREEN, "^"))
COLUMNS = 2                 # of panels


def draw_picture(picture: Picture) -> Any:
    """-> matplotlib figure."""
    draw: Any = {Curves: _curves, Dots: _dots, Scatter: _scatter, Maps: _maps}[type(picture)]
    return draw(picture)


def _grid(panels: dict[str, Any], size: Callable[[int, int, int], Any], **how: Any) -> tuple[list[str], Any, Any]:
    """A figure with axes for each panel. -> names in the panels, figure, axes.

    `size(number of names, rows, columns)` gives the figure's size in inches.
    """
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    fig, axes = figure(rows, columns, size=size(len(names), rows, columns), squeeze=False, **how)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    return names, fig, axes


def _legend(fig: Any, handles: dict[str, Any], most: int = 2) -> None:
    """A legend below the panels, in the most columns that fit the width; a long one makes the figure higher."""
    for columns in range(most, 0, -1):
        legend = fig.legend(handles.values(), handles, loc="outside lower center", ncols=columns, fontsize=9)
        if columns == 1 or legend.get_window_extent().width <= fig.bbox.width:
            break
        legend.remove()
    fig.set_figheight(fig.get_figheight() + 0.19 * max(0, math.ceil(len(handles) / columns) - 5))


@in_style
def _curves(picture: Curves) -> Any:
    """Panels side by side; a name has the same colour and line in all of them."""
    names, fig, axes = _grid(
        picture.panels, lambda _, rows, columns: (3.8 * columns + 0.4, 2.6 * rows + 0.5) if columns > 1 else (6.4, 3.4)
    )
    handles: dict[str, Any] = {}
    for ax, (title, lines) in zip(axes.flat, picture.panels.items(), strict=False):
        for name, (x, y) in lines.items():
            colour, style = STYLES[names.index(name) % len(STYLES)]
            (handles[name],) = ax.plot(x, y, color=colour, linestyle=style, linewidth=1.6)
        if title in picture.levels:
            handles[picture.level] = ax.axhline(picture.levels[title], color=INK, linestyle=":", linewidth=1)
        ax.set(title=title, xlabel=picture.x, ylabel=picture.y)
    _legend(fig, {name: handles[name] for name in (*names, picture.level) if name in handles}, axes.shape[1] + 1)
    return fig


@in_style
def _dots(picture: Dots) -> Any:
    """Panels of rows: a point for each seed, a line at their mean, and another mark, if any."""
    names, fig, axes = _grid(
        picture.panels, lambda n, rows, columns: (3.6 * columns + 1.6, (0.22 * n + 0.7) * rows + 0.4), sharey=True
    )
    for ax, (title, dots) in zip(axes.flat, picture.panels.items(), strict=False):
        for place, name in enumerate(names):
            if name not in dots:
                continue
            seeds, other = dots[name]
            ax.plot(seeds, [place] * len(seeds), "o", color=BLUE, markersize=4, alpha=0.7)
            ax.plot([np.mean(seeds)], [place], "|", color=BLUE, markersize=11)
            if other is not None:
                ax.plot([other], [place], "D", color=ORANGE, markersize=5, fillstyle="none")
        ax.set(title=title, xlabel=picture.x, yticks=range(len(names)), yticklabels=names)
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.6)
        ax.set_axisbelow(True)
    marks = [axes[0, 0].plot([], [], "o", color=BLUE, markersize=4)[0]]
    labels = ["a seed, and the mean"]
    if any(dot.other is not None for dots in picture.panels.values() for dot in dots.values()):
        marks.append(axes[0, 0].plot([], [], "D", color=ORANGE, markersize=5, fillstyle="none")[0])
        labels.append(picture.other)
    _legend(fig, dict(zip(labels, marks, strict=True)))
    return fig


@in_style
def _scatter(picture: Scatter) -> Any:
    """Panels side by side; a group has the same colour and marker in all of them."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    names, fig, axes = _grid(
        picture.panels, lambda _, rows, columns: (3.8 * columns + 0.4, 3.2 * rows + 0.5), sharey=True
    )
    handles: dict[str, Any] = {}
    for ax, (title, groups) in zip(axes.flat, picture.panels.items(), strict=False):
        for name, (x, y) in groups.items():
            colour, marker = MARKS[names.index(name) % len(MARKS)]
            (handles[name],) = ax.plot(x, y, marker, color=colour, markersize=5, alpha=0.7, fillstyle="none")
        if title in picture.bands:
            handles[picture.band] = ax.axhspan(*picture.bands[title], color=GREY, alpha=0.3, linewidth=0)
        ax.set(title=title, xlabel=picture.x, ylabel=picture.y, xscale="log")
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
    _legend(fig, {name: handles[name] for name in (*names, picture.band) if name in handles})
    return fig


@in_style
def _maps(picture: Maps) -> Any:
    """Rows of maps, each row with one colour scale; masked weights stay blank."""
    from matplotlib.colors import PowerNorm

    columns = max(len(row) for row in picture.rows.values())
    size = (2.7 * columns + 0.6, 2.6 * len(picture.rows) + 0.3)
    fig, axes = figure(len(picture.rows), columns, size=size, squeeze=False)
    for of_row, (title, row) in zip(axes, picture.rows.items(), strict=True):
        largest = max(max(line) for rows in row.values() for line in rows)
        for ax, (name, rows) in zip(of_row, row.items(), strict=False):
            n = len(rows)
            shown = np.ma.masked_invalid([[*line, *[np.nan] * (n - len(line))] for line in rows])
            image = ax.imshow(shown, cmap=HEAT, norm=PowerNorm(0.5, 0, largest))
            ax.set(title=name, xticks=[0, n - 1], yticks=[0, n - 1])
            ax.set_xticklabels([f"-{n}", "-1"])
            ax.set_yticklabels([f"-{n}", "-1"])
            ax.set_xlabel("attended position", fontsize=8)
        for ax in of_row[len(row) :]:
            ax.set_visible(False)
        of_row[0].set_ylabel(f"{title}\nattending position", fontsize=8)
        fig.colorbar(image, ax=list(of_row), fraction=0.03, pad=0.02).set_label("weight, √ scale", fontsize=8)
    return fig
