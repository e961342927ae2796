"""What pictures of an experiment show, as plain numbers of its runs; `tinyattn.show` draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Line = tuple[Sequence[float], Sequence[float]]          # x, y


@dataclass(frozen=True)
class Curves:
    """Panels of lines, which are told apart by their names; `alt` describes them to readers who cannot see.

    A panel may have a line across at one of `levels`, and `level` is what that is.
    """

    alt: str
    x: str
    y: str
    panels: dict[str, dict[str, Line]]
    level: str = ""
    levels: dict[str, float] = field(default_factory=dict)


class Dot(NamedTuple):
    """What the seeds of a row have found, and what is published, or known to be the best."""

    found: Sequence[float]
    other: float | None = None


@dataclass(frozen=True)
class Dots:
    """Panels of rows of points; `other` says what the other mark is, where there is one."""

    alt: str
    x: str
    panels: dict[str, dict[str, Dot]]
    other: str = "published"


@dataclass(frozen=True)
class Maps:
    """Rows of heat maps of attention weights under a causal mask: row i of a map has i + 1 numbers."""

    alt: str
    rows: dict[str, dict[str, list[list[float]]]]


Picture = Curves | Dots | Maps


def has_something(picture: Picture) -> bool:
    """Is there a run to show?"""
    return any((picture.rows if isinstance(picture, Maps) else picture.panels).values())
