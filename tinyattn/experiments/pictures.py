"""What pictures of an experiment show, as plain numbers of its runs; `tinyattn.show` draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Line = tuple[Sequence[float], Sequence[float]]          # x, y


@dataclass(frozen=True)
class Curves:
    """Panels of lines, which are told apart by their names; `alt` describes them to readers who cannot see."""

    alt: str
    x: str
    y: str
    panels: dict[str, dict[str, Line]]


@dataclass(frozen=True)
class Maps:
    """Rows of heat maps of attention weights under a causal mask: row i of a map has i + 1 numbers."""

    alt: str
    rows: dict[str, dict[str, list[list[float]]]]


Picture = Curves | Maps
