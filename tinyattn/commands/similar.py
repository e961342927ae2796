"""`tinyattn similar`: the items nearest to an item, as a model sees them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ..models import Recommender
from .arguments import add_candidates, add_names, add_run
from .measures import open_kind
from .runs import k_of, names_of, only_of
from .tables import print_items


def add(commands: Any, arguments: Sequence[str]) -> Any:
    command = commands.add_parser(
        "similar",
        help="the items nearest to an item",
        description="The items nearest to an item: by the cosine of their embeddings; of STOSA by minus the squared "
        "distance of their distributions; of a model that has no embeddings by its own score after that item alone. "
        "Popularity knows nothing of pairs, and is refused.",
    )
    add_run(command)
    command.add_argument("--item", required=True, metavar="ID", help="an item, by the data's own id")
    add_candidates(command)
    add_names(command)
    return command


def run(options: argparse.Namespace) -> None:
    model, _ = open_kind(options.run_folder, Recommender, options.device)
    names = names_of(options, model)
    only = only_of(options, model)
    ids, scores = model.similar(options.item, k_of(options, model, [options.item], only), only=only)
    print(f"near {names.label(options.item)}:")
    print_items(ids, scores, names)
