"""Writes the table of docs/check.md: the kinds of implementation that `tinyattn check --list` prints.

    python benchmarks/kinds.py

It reads the specs, and measures nothing.
"""

import sys
from pathlib import Path

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.machine import ROOT, read_no_arguments, write_pages
from tinyattn.check.command import signature
from tinyattn.check.specs import SPECS

PAGE = ROOT / "docs" / "check.md"


def pages() -> dict[Path, str]:
    rows = (f"| {name} | `{signature(name)}` | {spec.says} |" for name, spec in SPECS.items())
    return {PAGE: "\n".join(["| kind | its function | what it computes |", "|---|---|---|", *map(escaped, rows)])}


def escaped(row: str) -> str:
    """A table row whose cells' own bars are escaped."""
    cells = row[2:-2].split(" | ", 2)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    read_no_arguments(__doc__)
    write_pages(__file__, pages())
