"""`tinyattn board`: write a page of riddles: which line of a backward is wrong?

Each board shows a backward with one wrong line, and its gradients beside difference quotients; the reader chooses the
line. Without KIND, the page has six boards of attention that were written by hand; with KIND, boards of the library's
backward, changed by rule; another --seed makes other boards.
"""

import argparse
from typing import Any

from .runs import refuse_unwritable


def add(command: Any, arguments: list[str]) -> None:
    command.add_argument("kind", nargs="?", metavar="KIND", help="a kind of `tinyattn check --list`")
    command.add_argument("--html", metavar="FILE", required=True, help="the page to write")
    command.add_argument("--boards", type=int, metavar="N", help="boards of KIND (default: 6)")
    command.add_argument("--seed", type=int, default=0, metavar="S", help="draws the arrays, and the changes of KIND")


def run(options: argparse.Namespace) -> None:
    from ..show.views import boards_of, find_the_bug

    refuse_unwritable(options.html, "--html")
    kind, seed, count = options.kind, options.seed, options.boards
    if kind is None and count is not None:
        raise ValueError("--boards counts boards of a KIND: without one there are six")
    view = find_the_bug(seed) if kind is None else boards_of(kind, 6 if count is None else count, seed)
    print(f"{view.save(options.html)}: {len(view.data['boards'])} boards")
