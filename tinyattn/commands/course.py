"""`tinyattn course`: chapters, exercises, notebooks."""

from __future__ import annotations

import argparse
from typing import Any


def add(commands: Any, arguments: list[str]) -> Any:
    course = commands.add_parser(
        "course",
        help="the chapters and their exercises, as notebooks",
        description="The course: its chapters, notebooks to work in, how far a learner is, and whether its "
        "exercises are sound.",
    )
    whats = course.add_subparsers(dest="what", title="commands", metavar="COMMAND", required=True)
    parts = {
        "list": ("the chapters and exercises", "List chapters and exercises, with difficulty and time."),
        "build": ("write notebooks to work in", "Write the chapters as notebooks, exercises unsolved, into a folder."),
        "check": ("does every stub fail, every solution pass?", "Run all chapters, unsolved and solved."),
    }
    for what, (text, description) in parts.items():
        command = whats.add_parser(what, help=text, description=description)
        command.add_argument("chapters", nargs="*", type=int, metavar="NN", help="chapters by number (default: all)")
        if what == "build":
            command.add_argument("--to", required=True, metavar="DIR", help="the folder to write; overwrites nothing")
            command.add_argument("--solutions", action="store_true", help="with the solutions filled in")
    status = whats.add_parser(
        "status",
        help="exercises solved, tried and untouched in a folder of notebooks",
        description="How far a learner is: exercises solved, tried and untouched, and the announced time that is left. "
        "Reads the saved outputs of a folder of notebooks, and executes nothing.",
    )
    status.add_argument("folder", metavar="DIR", help="the folder that `tinyattn course build` wrote")
    return course


def run(options: argparse.Namespace) -> int:
    """-> exit code."""
    from ..course.command import run

    return run(options)
