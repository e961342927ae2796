"""`tinyattn page`: print an algorithm that is complete in one file.

Print a program of NumPy alone that is the whole algorithm: `tinyattn page sasrec > sasrec.py`.
"""

import argparse
import sys
from typing import Any

from ..pages import NAMES, source


def add(command: Any, arguments: list[str]) -> None:
    command.add_argument("name", metavar="NAME", help=f"which one: {', '.join(NAMES)}")


def run(options: argparse.Namespace) -> None:
    sys.stdout.write(source(options.name))
