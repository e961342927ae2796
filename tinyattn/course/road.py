"""The road: the chapters in order. Every chapter begins with a map of it."""

import textwrap
from collections.abc import Iterator
from itertools import count
from typing import Any

from .chapters import Chapter, chapters
from .tables import Text

# Titles in the order of their numbers, by part; notebooks/README.md has the question of each.
ROAD = {
    "Attention": ("a first look", "soft look-up", "why √d", "gradients", "attention backwards", "masks", "many heads",
                  "order", "the block", "how to know you are right"),
    "Learning": ("learning itself",),
    "Recommenders": ("before SASRec", "SASRec", "how not to fool yourself", "BERT4Rec", "attention to attention"),
    "Around it": ("the Transformer", "before attention", "cheaper attention", "after attention", "images"),
    "Fast": ("the same code on a GPU", "making it fast"),
    "Since then": ("after SASRec",),
}  # fmt: skip


def stops() -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """Each part of the road, and its chapters as (number, title)."""
    numbers = count()
    for part, titles in ROAD.items():
        yield part, [(next(numbers), title) for title in titles]


def road(here: int | None = None) -> Text:
    """The map as text, in which chapter `here` is marked, and its time below."""
    existing = {chapter.number: chapter for chapter in chapters()}
    width = max(map(len, ROAD))
    lines = []
    for part, numbered in stops():
        line = f"{part:{width}} "
        for number, title in numbered:
            name = f"{number:02} {title}"
            name = f"▶ {name} ◀" if number == here else name
            if len(line) + len(name) > 98:
                lines.append(line.rstrip())
                line = " " * (width + 1)
            line += f" {name} ·"
        lines.append(line.rstrip(" ·"))
    if here in existing:
        lines.append(f"You are here: {here:02}, {time_of(existing[here])}")
    return Text(tuple(lines))


def time_of(chapter: Chapter) -> str:
    """ "about 76 minutes: 35 to read, 41 for 6 exercises"."""
    size, count = chapter.size(), len(chapter.exercises)
    exercises = "1 exercise" if count == 1 else f"{count} exercises"
    return f"about {size.minutes} minutes: {size.reading} to read, {size.exercises} for {exercises}"


def road_map(here: int | None = None) -> Any:
    """The map as a figure, in which chapters are links."""
    from ..show.style import BLUE, GREY, ORANGE, figure

    urls = {chapter.number: f"../notebooks/{chapter.path.stem}.ipynb" for chapter in chapters()}
    columns = max(map(len, ROAD.values())) // 2
    fig, ax = figure(size=(7.4, 7.0))
    y = 0.0
    for part, numbered in stops():
        ax.text(-0.45, y, part, fontsize=11, weight="bold", color=GREY)
        y += 0.5
        for first in range(0, len(numbered), columns):
            for x, (number, name) in enumerate(numbered[first : first + columns]):
                _draw_stop(ax, x, y, number, name, ORANGE if number == here else BLUE, urls[number])
            y += 1.1
    ax.set(xlim=(-0.5, columns - 0.5), ylim=(y - 0.5, -0.25))
    ax.set_axis_off()
    return fig


def _draw_stop(ax: Any, x: int, y: float, number: int, name: str, colour: str, url: str) -> None:
    """Draw a chapter as a circle, and a line from the chapter before."""
    from ..show.style import GREY, GROUND, INK

    if x:
        ax.plot((x - 0.81, x - 0.19), (y, y), color=GREY, lw=1.2)
    ax.scatter([x], [y], s=620, color=colour, edgecolors=colour, linewidths=1.2, urls=[url])
    ax.text(x, y, f"{number:02}", ha="center", va="center", fontsize=11, weight="bold", color=GROUND, url=url)
    label = name if len(name) < 16 else textwrap.fill(name, 14)
    ax.text(x, y + 0.3, label, ha="center", va="top", fontsize=10, color=INK, url=url)
