"""A trace as a table for a terminal: a line for each entry, calls as a tree."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from .recorder import LIBRARY
from .records import Call, Entry

SCREEN = 60          # lines that a table without `depth` should fit into
TITLES = ("step", "name", "shape", "dtype", "min … max", "norm", "line", "made by")


def table(roots: list[Call], header: str, depth: int | None, width: int) -> str:
    """The table with `depth` levels of calls; None means as many as fit into SCREEN lines, and at least one."""
    deepest = max(map(_levels, roots))
    levels = [depth] if depth is not None else range(deepest, -1, -1)
    for depth in levels:
        lines = [line for root in roots for line in _lines(root, depth)]
        if len(lines) <= SCREEN:
            break
    cells = [line for line in [TITLES, *lines] if isinstance(line, tuple)]
    rows = iter(aligned(cells, left=(1, 2, 3, 4)))
    text = [header, next(rows), *(next(rows) if isinstance(line, tuple) else line for line in lines)]
    if any(" *" in line[1] for line in cells):
        text.append("       * written in place: the same memory, new values")
    if depth is not None and depth < deepest:
        text.append(f"       + folded: .table(depth={depth + 1}) opens one level more, .table(call=NAME) one call")
    return "\n".join(line[: width - 1] + "…" if len(line) > width else line for line in text)


def aligned(rows: Sequence[tuple[str, ...]], left: tuple[int, ...]) -> list[str]:
    """Rows of cells as lines: columns in `left` left-aligned, the last unpadded, the others right-aligned."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]

    def line(row: tuple[str, ...]) -> str:
        cells = [c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=False))]
        return "  ".join([*cells, row[-1]]).rstrip()

    return [line(row) for row in rows]


def _levels(call: Call) -> int:
    """The number of levels of calls below this one."""
    return max((1 + _levels(s) for s in chain(call)[-1].steps if isinstance(s, Call)), default=0)


def _lines(call: Call, depth: int, indent: str = "") -> Iterator[str | tuple[str, ...]]:
    """A tuple of cells for an entry, a whole line for a call."""
    inner = chain(call)[-1]
    yield f"      {indent}{title(call)}   {place(inner)}"
    for group in grouped(inner):
        if isinstance(group, Call):
            if depth > 0:
                yield from _lines(group, depth - 1, indent + "  ")
            else:
                steps = [e.number for e in group.entries()]
                yield f"{steps[0]:4}+ {indent}  {title(group)}   {len(steps)} step{'s' * (len(steps) > 1)}"
        elif len(group) > 1:
            total = sum(e.value.size for e in group)
            name = group[0].name.partition(".")[0]
            what = f"{name}: {len(group)} arrays, {total:,} numbers, come in (to step {group[-1].number})"
            yield f"{group[0].number:4}  {indent}  {what}"
        else:
            (entry,) = group
            name = f"{indent}  {entry.name}{' *' if entry.how == 'in place' else ''}"
            line = "" if entry.how == "input" else str(entry.line)
            yield (str(entry.number), name, *described(entry), line, origin(entry))


def chain(call: Call) -> list[Call]:
    """The calls that share a line in the table: the call, and inner calls as long as each is its caller's only step."""
    calls = [call]
    while len(calls[-1].steps) == 1 and isinstance(calls[-1].steps[0], Call):
        calls.append(calls[-1].steps[0])
    return calls


def title(call: Call) -> str:
    """dense#2 > linear(x, W) -> y"""
    *outer, inner = chain(call)
    signature = " > ".join([*(c.label for c in outer), inner.signature.replace(inner.name, inner.label, 1)])
    return f"{signature} -> {', '.join(inner.result_names)}" if inner.result_names else signature


def grouped(call: Call) -> Iterator[Call | list[Entry]]:
    """The steps of a call; the arrays of one input tree form one group."""

    def tree(step: Entry | Call) -> Any:
        return step.name.partition(".")[0] if isinstance(step, Entry) and step.how == "input" else id(step)

    for _, steps in groupby(call.steps, tree):
        first, *others = steps
        yield first if isinstance(first, Call) else [first, *others]  # type: ignore[list-item]


def origin(entry: Entry) -> str:
    """What the column "made by" says about an entry."""
    if entry.how == "input":
        return "comes in"
    notes = {"allocated": "   (not yet filled)", "implied": "   (follows from the cache: no line computes it)"}
    return entry.text + notes.get(entry.how, "")


def place(call: Call) -> str:
    """File and line of the call's function, as FILE:LINE. The library's files have paths relative to its parent."""
    file = Path(call.file)
    if file.parent.name.startswith("ipykernel_") or file.name.startswith("<ipython-input"):
        return f"a cell's line {call.line}"                    # cells have arbitrary file names
    return f"{file.relative_to(LIBRARY.parent) if LIBRARY in file.parents else file.name}:{call.line}"


def described(entry: Entry) -> tuple[str, str, str, str]:
    """Shape, dtype, range and norm as text. Unfilled memory has no range and no norm."""
    x = entry.value
    shape = str(x.shape)
    if entry.how == "allocated" or not x.size:
        return shape, entry.dtype, "", ""
    if x.dtype.kind == "b":
        return shape, entry.dtype, f"{np.count_nonzero(x)} of {x.size} True", ""
    if not x.ndim:
        return shape, entry.dtype, number(x[()]), ""
    norm = number(norm_of(x)) if x.dtype.kind in "fc" else ""
    if x.dtype.kind == "c":
        return shape, entry.dtype, "", norm
    low, high = (np.nan, np.nan) if np.isnan(x).all() else (np.nanmin(x), np.nanmax(x))
    missing = f", {np.count_nonzero(np.isnan(x))} NaN" if np.isnan(x).any() else ""
    return shape, entry.dtype, f"{number(low)} … {number(high)}{missing}", norm


def number(x: object) -> str:
    """A number as text: floats with four digits, integers whole."""
    return f"{x + 0:.4g}" if isinstance(x, float | np.floating | complex | np.complexfloating) else str(x)   # no -0


def norm_of(x: np.ndarray) -> float:
    """The root of the sum of squares, in float64, without overflow."""
    with np.errstate(invalid="ignore"):                         # unfilled memory may hold any numbers
        size = np.abs(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64))
    largest = float(np.max(size, initial=0.0))
    if not 0 < largest < math.inf:
        return largest
    return largest * float(np.sqrt(np.sum((size / largest) ** 2)))
