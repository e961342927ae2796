"""`tinyattn course`: the chapters and their exercises, as notebooks.

List the chapters, write them as notebooks to work in, count solved exercises, and check the course itself.
"""

from __future__ import annotations

import argparse
from typing import Any


def add(command: Any, arguments: list[str]) -> None:
    parts = {
        "list": ("the chapters and exercises", "List chapters and exercises, with difficulty and time."),
        "build": ("write notebooks to work in", "Write the chapters as notebooks, exercises unsolved, into a folder."),
        "check": ("does every stub fail, every solution pass?", "Run all chapters, unsolved and solved."),
        "status": ("exercises solved, tried and untouched in a folder of notebooks",
                   "Count exercises solved, tried and untouched, and the announced time that is left, from the saved "
                   "outputs of a folder of notebooks. Nothing is executed."),
    }  # fmt: skip
    commands = command.add_subparsers(dest="what", title="commands", metavar="COMMAND", required=True)
    for what, (text, description) in parts.items():
        part = commands.add_parser(what, help=text, description=description)
        if what == "status":
            part.add_argument("folder", metavar="DIR", help="the folder that `tinyattn course build` wrote")
        else:
            part.add_argument("chapters", nargs="*", type=int, metavar="NN", help="chapters by number (default: all)")
        if what == "build":
            part.add_argument("--to", required=True, metavar="DIR", help="the folder to write; overwrites nothing")
            part.add_argument("--solutions", action="store_true", help="with the solutions filled in")


def run(options: argparse.Namespace) -> int:
    from ..course.command import run

    return run(options)
