"""Arrays and tables of numbers as text that is the same on every machine."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..pages import part


@dataclass(frozen=True)
class Text:
    """Lines of text, which str and repr show."""

    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__


def show_arrays(*, decimals: int = 2, **arrays: Any) -> Text:
    """Every array with its name, shape and rounded entries: `show_arrays(q=q, s=s)`."""
    lines = []
    width = max((len(name) for name in arrays), default=0)
    for name, x in arrays.items():
        x = np.asarray(x)
        x = np.round(x, decimals) + 0.0 if x.dtype.kind == "f" else x             # + 0.0 turns -0 into 0
        shown = np.array2string(x, precision=decimals, suppress_small=True, floatmode="fixed", threshold=60)
        head = f"{name:{width}}  {np.shape(x)!s:9} "
        lines += (head + shown.replace("\n", "\n" + " " * len(head))).split("\n")
    return Text(tuple(lines))


def page_part(page: str, *functions: str) -> Text:
    """The source of functions of a page: a file of `tinyattn.pages`, which has a complete algorithm."""
    return Text(tuple(part(page, *functions).split("\n")))


def table(head: str, rows: Sequence[Sequence[Any]], digits: int = 3) -> Text:
    """A table with a head: words left-aligned, numbers right-aligned and rounded to `digits` significant digits.

        table("d_k | std", [(4, 1.98), (16, 3.97)])

    Strings, such as `f"{share:.0%}"`, are shown unchanged. Raises ValueError unless each row has as many cells as the
    head.
    """
    heads = [name.strip() for name in head.split("|")]
    for row in rows:
        if len(row) != len(heads):
            raise ValueError(f"a row has {len(row)} cells, expected {len(heads)}: {', '.join(heads)}")
    cells = [heads] + [[x if isinstance(x, str) else _number(x, digits) for x in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    left = [any(not row[i].lstrip("+-−")[:1].isdigit() for row in cells[1:]) for i in range(len(heads))]

    def line(row: list[str]) -> str:
        columns = zip(row, widths, left, strict=True)
        return "   ".join(text.ljust(w) if words else text.rjust(w) for text, w, words in columns).rstrip()

    rule = "   ".join("─" * w for w in widths)
    return Text((line(cells[0]), rule, *(line(row) for row in cells[1:])))


def _number(x: Any, digits: int) -> str:
    """An integer with all its digits; another number with `digits` significant digits and a decimal point."""
    if isinstance(x, bool | np.bool_):
        return str(x)
    if isinstance(x, int | np.integer):
        return f"{x:,}"
    x = float(x)
    if not math.isfinite(x):
        return str(x)
    if x == 0:
        return "0.0"
    text = f"{x:.{digits - 1}e}"
    exponent = int(text.partition("e")[2])
    return f"{x:.{max(digits - 1 - exponent, 1)}f}" if -5 < exponent < 6 else text
