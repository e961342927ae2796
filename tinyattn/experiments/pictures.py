"""The contents of an experiment's pictures, as plain numbers; `tinyattn.show` draws them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Line = tuple[Sequence[float], Sequence[float]]          # x, y


@dataclass(frozen=True)
class Curves:
    """Panels of named lines; `alt` is for screen readers; `levels` are horizontal lines, by panel, named `level`."""

    alt: str
    x: str
    y: str
    panels: dict[str, dict[str, Line]]
    level: str = ""
    levels: dict[str, float] = field(default_factory=dict)


class Dot(NamedTuple):
    """The values of a row's seeds, and a published or best possible value."""

    seeds: Sequence[float]
    other: float | None = None


@dataclass(frozen=True)
class Dots:
    """Panels of rows of points; `other` names the second mark."""

    alt: str
    x: str
    panels: dict[str, dict[str, Dot]]
    other: str = "published"


@dataclass(frozen=True)
class Scatter:
    """Panels of named groups of points, x on a log scale; `bands` are ranges of y, by panel, named `band`."""

    alt: str
    x: str
    y: str
    panels: dict[str, dict[str, Line]]
    band: str = ""
    bands: dict[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Maps:
    """Rows of heat maps of attention weights under a causal mask: row i of a map has i + 1 numbers."""

    alt: str
    rows: dict[str, dict[str, list[list[float]]]]


Picture = Curves | Dots | Scatter | Maps


def has_something(picture: Picture) -> bool:
    """Does the picture show any run?"""
    return any((picture.rows if isinstance(picture, Maps) else picture.panels).values())
