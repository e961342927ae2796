"""A derivation as an animation: terms and numbers move from each step to the next."""

import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from .style import figure

WIDTH, TOP = 840, 250                                    # pixels: the least width; the height above the arrays
ACROSS, DOWN = 60, 26                                    # width and height of a cell
MOVES = 9                                                # pictures from one step to the next
GROUNDS = {                                              # ground, ink, changes, gradients, above 0, below 0
    False: ("#ffffff", "#1a1a1a", "#0058a3", "#b34700", "#f0a860", "#b5a3dc"),
    True: ("#16181c", "#ececec", "#7cc4ff", "#ffb27a", "#8a4d10", "#5a4790"),
}
TEX = {"⟨": r"\langle", "⟩": r"\rangle", "⊙": r"\odot", "∑": r"\Sigma", "−": "-", "⊤": r"\top", "\u2062": r"\,"}
AROUND = {"=": 9, "+": 8, "−": 8, "⊙": 5, ",": 4}        # pixels beside a sign


class Item(NamedTuple):
    """A text, or a cell with its number. x, y: pixels from the left and from the top."""

    x: float
    y: float
    text: str
    points: float
    colour: str
    share: float | None = None         # a cell's number divided by the largest: gives its colour
    alpha: float = 1.0


def pictures(steps: list[dict[str, Any]], dark: bool = False) -> Iterator[tuple[Any, float]]:
    """Yield (matplotlib figure, seconds) for every step of `derivation`, and for the moves between steps."""
    placed = [_placed(step, steps, GROUNDS[dark]) for step in steps]
    every = [item for items in placed for item in items.values()]
    size = max(WIDTH, *(item.x + 2 * ACROSS for item in every)), max(item.y for item in every) + 18
    for now, after in zip(placed, [*placed[1:], None], strict=True):
        yield _drawn(now.values(), dark, size), 3.5
        for t in (k / MOVES for k in range(1, MOVES) if after):
            yield _drawn(_between(now, after or {}, t * t * (3 - 2 * t)), dark, size), 0.07


def _between(now: dict[str, Item], after: dict[str, Item], t: float) -> Iterator[Item]:
    """The items at time t, from 0 to 1, between two steps.

    Items that are in both steps move. A copy begins at its original, and terms that join move together. Other items
    fade: old ones out until t = 1/2, new ones in after it.
    """
    for key in now | after:
        one, other = _twin(now, key), after.get(key) if " " in key else _twin(after, key)     # arrays do not join
        if one and other:
            x, y = ((1 - t) * a + t * b for a, b in zip(one[:2], other[:2], strict=True))
            yield (other if key in after else one)._replace(x=x, y=y, alpha=1.0 if key in after else 1 - t)
        elif (key in now) == (t < 0.5):
            yield (now | after)[key]._replace(alpha=abs(1 - 2 * t))


def _twin(items: dict[str, Item], key: str) -> Item | None:
    """The item of this key, or else an item of the same name: a copy or an original."""
    name = re.sub(r"\d+", "", key, count=1)
    return items.get(key) or next((x for other, x in items.items() if re.sub(r"\d+", "", other, count=1) == name), None)


def _placed(step: dict[str, Any], steps: list[dict[str, Any]], colours: tuple[str, ...]) -> dict[str, Item]:
    """The items of a step with their places. An item has the same key in every step."""
    from matplotlib.font_manager import FontProperties

    _, ink, change, gradient, *_ = colours
    width = figure(size=(1, 1))[0].canvas.get_renderer().get_text_width_height_descent
    items: dict[str, Item] = {}

    def row(atoms: Any, x: float, y: float, points: float, before: str = "") -> None:
        for key, text, place in atoms:
            name, size = TEX.get(text, rf"\mathit{{{text}}}".replace("{δ", r"{\delta ")), points * (0.7 if place else 1)
            colour = gradient if text[0] == "d" else change if text[0] == "δ" and text != "δL" else ink
            gap = AROUND.get(text, 1) * points / 22
            up = points * (0.6 if place > 0 else -0.35 if place else 0)
            items[before + key] = Item(x + gap * (text != ","), y - up, f"${name}$", size, colour)
            x += 2 * gap + width(f"${name}$", FontProperties(size=size, math_fontfamily="stix"), True)[0]

    def plain(key: str, x: float, y: float, text: str, points: float) -> None:
        items[key] = Item(x, y, text, points, ink)

    def tall(product: dict[str, Any]) -> int:
        return max(factor["shape"][0] for factor in product["factors"]) * DOWN

    values = [x for each in steps for p in each["products"] for factor in p["factors"] for x in factor["values"]]
    most, top = max(map(abs, values)) or 1.0, TOP
    plain(f"number {step['says']}", 20, 28, f"step {steps.index(step) + 1} of {len(steps)}", 10)
    for i, line in enumerate(step["lines"]):
        row(line, 20, 70 + 42 * i, 22)
    for i, line in enumerate(textwrap.wrap(step["says"], 78)):
        plain(line, 20, 192 + 20 * i, line, 11)
    for i, product in enumerate(step["products"]):
        x, middle = 20.0 + 15 * len(product["opening"]), top + tall(product) / 2 + 8
        plain(f"opening {i}", 20, middle, product["opening"], 16)
        for k, factor in enumerate(product["factors"]):
            x, name, columns = x + 8, f"{''.join(text for _, text, _ in factor['atoms'])} {i}{k}", factor["shape"][1]
            row(factor["atoms"], x, top - 8, 12, f"{name} ")
            for e, value in enumerate(factor["values"]):
                at = x + (e % columns) * ACROSS, top + (e // columns) * DOWN
                items[f"{name}[{e}]"] = Item(*at, f"{value:.2f}".replace("-", "−"), 10, ink, value / most)
            x += columns * ACROSS + 8
            if k < len(product["factors"]) - 1:
                plain(f"between {i}{k}", x, middle, product["between"], 16)
                x += 10
        plain(f"closing {i} {product['closing']}", x, middle, product["closing"], 16)
        top += tall(product) + 44
    lowest = TOP + max(sum(tall(product) + 44 for product in each["products"]) for each in steps)
    plain(f"sum {step['sum']}", 20, lowest, step["sum"], 11)
    return items


def _drawn(items: Iterable[Item], dark: bool, size: tuple[float, float]) -> Any:
    """-> figure."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Rectangle

    ground, _, _, _, *signs = GROUNDS[dark]
    fig, ax = figure(size=(size[0] / 120, size[1] / 120))
    fig.set_layout_engine("none")
    fig.set_facecolor(ground)
    ax.set_position((0, 0, 1, 1))
    ax.set_axis_off()
    ax.set(xlim=(0, size[0]), ylim=(size[1], 0))
    for x, y, text, points, colour, share, alpha in items:
        if share is not None:
            ends = zip(to_rgb(ground), to_rgb(signs[share < 0]), strict=True)
            fill = [a + abs(share) * (b - a) for a, b in ends]
            ax.add_patch(Rectangle((x, y), ACROSS, DOWN, fc=fill, ec="#888888", lw=0.6, alpha=alpha))
        at, how = ((x, y), "left") if share is None else ((x + ACROSS - 6, y + 18), "right")
        math = {"math_fontfamily": "stix", "parse_math": "$" in text}
        ax.text(*at, text, fontsize=points, color=colour, alpha=alpha, ha=how, **math)
    return fig
