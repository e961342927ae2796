"""The road: the chapters in order, with a question each. Every chapter begins with a map of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .chapters import Chapter, chapters
from .tables import Text


@dataclass(frozen=True)
class Part:
    """Chapters on one subject: the number, a short title and the question of each."""

    title: str
    stops: tuple[tuple[int, str, str], ...]


ROAD = (
    Part("Attention", (
        (0, "a first look", "train a recommender, and see who looks at whom"),
        (1, "soft look-up", "what should a dictionary answer when no key matches exactly?"),
        (2, "why √d", "a division that looks like an afterthought: what is lost without it?"),
        (3, "gradients", "how does a loss say which way each number should move?"),
        (4, "attention backwards", "which gradient does each line owe to the one before?"),
        (5, "masks", "how do you know that nothing leaks from the future?"),
        (6, "many heads", "what can eight small heads do that a big one cannot?"),
        (7, "order", "attention sees a set: how does it learn what came first?"),
        (8, "the block", "why does a deep stack of these train at all?"),
        (9, "how to know you are right", "can a test find a bug that nobody has thought of?"),
    )),
    Part("Recommenders", (
        (10, "SASRec", "what will this person watch next?"),
        (11, "how not to fool yourself", "how much of a good number is the protocol's?"),
        (12, "BERT4Rec", "what changes when a model may look both ways?"),
        (13, "attention to attention", "can scores be refined by attention among them, and who would notice?"),
    )),
    Part("Around it", (
        (14, "the Transformer", "an encoder, a decoder, and what passes between them"),
        (15, "before attention", "what did recurrence cost, and what did it remember?"),
        (16, "cheaper attention", "which of the n² weights can be left out?"),
        (17, "after attention", "RWKV and Mamba: can a recurrence have the last word?"),
        (18, "images", "what is a token in a picture?"),
    )),
    Part("Fast", (
        (19, "the same code on a GPU", "what changes when the arrays live elsewhere?"),
        (20, "making it fast", "where does the time go?"),
    )),
)


def road(here: int | None = None) -> Text:
    """The map as text, with chapter `here` and its time marked. Future chapters are in brackets."""
    existing = {chapter.number: chapter for chapter in chapters()}
    width = max(len(part.title) for part in ROAD)
    lines = []
    for part in ROAD:
        line = f"{part.title:{width}} "
        for number, title, _ in part.stops:
            name = f"{number:02} {title}"
            name = f"▶ {name} ◀" if number == here else name if number in existing else f"({name})"
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
    """The map as a figure, in which chapters are links; future ones are pale."""
    from ..show.style import BLUE, GREY, ORANGE, figure

    existing = {chapter.number: f"../notebooks/{chapter.path.stem}.ipynb" for chapter in chapters()}
    columns = max(len(part.stops) for part in ROAD) // 2
    fig, ax = figure(size=(7.4, 6.0))
    y = 0.0
    for part in ROAD:
        ax.text(-0.45, y, part.title, fontsize=11, weight="bold", color=GREY)
        y += 0.5
        for first in range(0, len(part.stops), columns):
            for x, (number, name, _) in enumerate(part.stops[first : first + columns]):
                _draw_stop(ax, x, y, number, name, ORANGE if number == here else BLUE, existing.get(number))
            y += 1.1
    ax.set(xlim=(-0.5, columns - 0.5), ylim=(y - 0.5, -0.25))
    ax.set_axis_off()
    return fig


def _draw_stop(ax: Any, x: int, y: float, number: int, name: str, colour: str, url: str | None) -> None:
    """Draw a chapter as a circle, filled unless it is future, and a line from the chapter before."""
    from ..show.style import GREY, GROUND, INK

    if x:
        ax.plot((x - 0.81, x - 0.19), (y, y), color=GREY, lw=1.2)
    inside, outside, fill, edge = (GROUND, INK, colour, colour) if url else (GREY, GREY, GROUND, GREY)
    ax.scatter([x], [y], s=620, color=fill, edgecolors=edge, linewidths=1.2, urls=[url])
    ax.text(x, y, f"{number:02}", ha="center", va="center", fontsize=11, weight="bold", color=inside, url=url)
    label = name if len(name) < 16 else _in_two(name)
    ax.text(x, y + 0.3, label, ha="center", va="top", fontsize=10, color=outside, url=url)


def _in_two(name: str) -> str:
    """A name in two lines of about the same length."""
    spaces = [i for i, c in enumerate(name) if c == " "]
    at = min(spaces, key=lambda i: abs(i - len(name) / 2), default=len(name))
    return f"{name[:at]}\n{name[at + 1 :]}"
