"""`tinyattn recommend`: the best next items for a history, or for a user of the data."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from .arguments import add_data, add_history, add_run
from .runs import history_of


def add(commands: Any, arguments: Sequence[str]) -> Any:
    command = commands.add_parser(
        "recommend",
        help="the best next items for a history",
        description="Recommend for a history that need not occur in any data, or for a user of the run's data.",
    )
    add_run(command)
    add_data(command)
    add_history(command)
    command.add_argument("-k", "--k", type=int, default=10, help="how many (default: 10)")
    return command


def run(options: argparse.Namespace) -> None:
    history, user, model = history_of(options)
    ids, scores = model.recommend([history], options.k, users=user)
    ids, scores = ids[0], scores[0]
    print(f"after {'..., ' if len(history) > 5 else ''}{', '.join(map(str, history[-5:]))}:")
    width = max(len(str(i)) for i in ids)
    for rank, (item, score) in enumerate(zip(ids, scores, strict=True), start=1):
        print(f"{rank:4}  {item!s:>{width}}  {score:8.3f}")
