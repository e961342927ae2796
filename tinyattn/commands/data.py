"""`tinyattn data`: describe a file of interactions."""

from __future__ import annotations

import argparse
from typing import Any

from ..data import FORMATS
from .arguments import add_data, add_world, source_of


def add(commands: Any, arguments: list[str]) -> Any:
    command = commands.add_parser(
        "data",
        help="the contents of a file of interactions",
        description="Read DATA and print its contents: users, items, density, lengths, repeats, ties in time.",
        epilog="formats, known by the first lines:\n" + "".join(f"  {n:15} {f.example}\n" for n, f in FORMATS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_data(command, "a file, .gz as well; without one, a generated world is described")
    add_world(command)
    return command


def run(options: argparse.Namespace) -> None:
    if options.data is None and options.world is None:
        raise ValueError("nothing to describe: expected DATA, or --world NAME")
    report = source_of(options).load()[0].report()
    report |= {f"length, {name}": value for name, value in report.pop("length").items()}
    ties, repeats = report.pop("ties", None), report.pop("repeats")
    last = report.pop("repeats of the last one")
    for name, value in report.items():
        shown = value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
        print(f"{name.replace('_', ' '):24}{shown:>14}")
    if repeats:
        print(f"{'repeats':24}{repeats:>14,} of an item that the user had before, {last:,} of them of the last one")
    if ties is not None:
        print(f"{'last two events tie':24}{ties:>14.1%} of users: chance decides which of them is the test item")
