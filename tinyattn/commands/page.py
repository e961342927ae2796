"""`tinyattn page`: print a complete algorithm, to read, run and change."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ..pages import NAMES, source


def add(commands: Any, arguments: list[str]) -> Any:
    command = commands.add_parser(
        "page",
        help="print an algorithm that is complete in one file",
        description="Print a program of NumPy alone that is the whole algorithm: `tinyattn page sasrec > sasrec.py`.",
    )
    command.add_argument("name", metavar="NAME", help=f"which one: {', '.join(NAMES)}")
    return command


def run(options: argparse.Namespace) -> None:
    sys.stdout.write(source(options.name))
