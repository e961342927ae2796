"""`tinyattn similar`: the items nearest to an item.

Print the items nearest to an item: by the cosine of their embeddings; for STOSA by minus the squared distance of their
distributions; for a model without embeddings by the scores after that item alone. Popularity has no notion of nearness,
and is refused.
"""

import argparse
from typing import Any

from ..models import Recommender
from .arguments import add_candidates, add_names, add_run
from .measures import open_kind
from .runs import k_of, known_ids, names_of
from .tables import print_items


def add(command: Any, arguments: list[str]) -> None:
    add_run(command)
    command.add_argument("--item", required=True, metavar="ID", help="an item, by its id in the data")
    add_candidates(command)
    add_names(command)


def run(options: argparse.Namespace) -> None:
    model, _ = open_kind(options.run_folder, Recommender, options.device)
    names = names_of(options, model)
    only = known_ids(options.only, model.items)
    ids, scores = model.similar(options.item, k_of(options, model, [options.item], only), only=only)
    print(f"near {names.label(options.item)}:")
    print_items(ids, scores, names)
