"""`tinyattn data`: the contents of a file of interactions.

Read DATA and print its contents: users, items, density, lengths, repeats, ties in time.
"""

import argparse
from typing import Any

from ..data import FORMATS
from .arguments import add_data, add_world, source_of


def add(command: Any, arguments: list[str]) -> None:
    examples = "".join(f"  {name:15} {form.example}\n" for name, form in FORMATS.items())
    command.print_below(f"formats, known by the first lines:\n{examples}")
    add_data(command, "a file, also .gz; or give --world instead")
    add_world(command)


def run(options: argparse.Namespace) -> None:
    if not options.data and options.world is None:
        raise ValueError("nothing to describe: expected DATA, or --world NAME")
    report = source_of(options).load()[0].report()
    report |= {f"length, {name}": value for name, value in report.pop("length").items()}
    ties, repeats = report.pop("ties", None), report.pop("repeats")
    last, identical = report.pop("repeats of the last one"), report.pop("identical rows")
    span = report.pop("first and last")
    for name, value in report.items():
        shown = value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
        print(f"{name.replace('_', ' '):24}{shown:>14}")
    if repeats:
        print(f"{'repeats':24}{repeats:>14,} of an item that the user had before, {last:,} of them of the last item")
    if identical:
        print(f"{'identical rows':24}{identical:>14,} repeat a row with the same user, item and time")
    if span:
        print(f"{'first and last':24}{span:>14}")
    if ties is not None:
        print(f"{'last two events tie':24}{ties:>14.1%} of users: chance decides which of them is the test item")
