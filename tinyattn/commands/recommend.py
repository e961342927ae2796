"""`tinyattn recommend`: the best next items for a history, for a user of the data, or for many users into a file."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from ..data import Interactions
from ..files import write_atomically
from .arguments import add_candidates, add_data, add_history, add_names, add_run
from .measures import in_the_models_ids
from .runs import history_of, known_ids, names_of, only_of, open_run, refuse_unwritable
from .tables import print_history, print_items

SCORES_AT_ONCE = 4_000_000       # bounds the memory of the score matrix


def add(commands: Any, arguments: Sequence[str]) -> Any:
    command = commands.add_parser(
        "recommend",
        help="the best next items for a history, or for many users",
        description="Recommend for a history that need not occur in any data, or for users of the run's data: a line "
        "an item, with its place, id and score. Scores are the model's own, such as logits or counts: they order the "
        "items of one list, and do not compare models.",
    )
    add_run(command)
    add_data(command)
    text = "the whole histories of many users: all, or a file with an id a line; goes with --out"
    add_history(command).add_argument("--users", metavar="all|FILE", help=text)
    add_candidates(command)
    add_names(command)
    text = "with --users: the CSV file to write, with columns user, rank, item, score, and with --names name; "
    text += "ids and names are as in the data: a spreadsheet may run one that begins with =, +, - or @"
    command.add_argument("--out", metavar="FILE", help=text)
    return command


def run(options: argparse.Namespace) -> None:
    if (options.users is None) != (options.out is None):
        raise ValueError("--users and --out go together: recommendations for many users are written to a file")
    if options.users is not None:
        _write_many(options)
        return
    history, user, model = history_of(options)
    names = names_of(options, model)
    ids, scores = model.recommend([history], options.k, only=only_of(options, model), users=user)
    print_history(history, names)
    print_items(ids[0], scores[0], names)


def _write_many(options: argparse.Namespace) -> None:
    """The file, whole or not at all; what would be refused of any user is refused before the first is worked on."""
    refuse_unwritable(options.out, read=[options.data, options.users, options.names, options.only])
    model, source, data, _ = open_run(options)
    refuse_unwritable(options.out, read=[source.path])                       # the run's own data
    data = in_the_models_ids(data, model)
    names, only = names_of(options, model), only_of(options, model)
    everyone = options.users == "all"
    rows = np.arange(data.n_users) if everyone else data.users.numbers(known_ids(options.users, data.users)) - 1
    _refuse_too_few(model, data, rows, options.k, only)
    known = model.users.numbers_or_zero(data.users.ids[rows]) > 0
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["user", "rank", "item", "score", *(["name"] if options.names else [])])
    at_once = max(1, SCORES_AT_ONCE // (data.n_items + 1))
    with tqdm(total=len(rows), unit="user", disable=None, leave=False) as bar:
        for places in np.array_split(np.arange(len(rows)), -(-len(rows) // at_once)):
            ids = data.users.ids[rows[places]].tolist()
            histories = [data.items.decode(data.sequence(row)).tolist() for row in rows[places].tolist()]
            users = [user if is_known else None for user, is_known in zip(ids, known[places].tolist(), strict=True)]
            for user, *best in zip(ids, *model.recommend(histories, options.k, only=only, users=users), strict=True):
                for rank, (item, score) in enumerate(zip(*(b.tolist() for b in best), strict=True), start=1):
                    row = [user, rank, item, f"{score:.6g}", *([names.of(item)] if options.names else [])]
                    writer.writerow(row)
            bar.update(len(places))
    write_atomically(Path(options.out), text.getvalue().encode())
    print(f"{len(rows):,} users, {options.k} items each: {options.out}")


def _refuse_too_few(model: Any, data: Interactions, rows: np.ndarray, k: int, only: list[str] | None) -> None:
    """Raise ValueError naming the first user for whom fewer than k items are left."""
    if k < 1:
        raise ValueError(f"k is {k}, expected at least 1")
    may = np.full(data.n_items + 1, only is None)
    if only is not None:
        may[model.items.numbers(only)] = True
    may[0] = False
    for row in rows.tolist():
        left = np.sum(may) - np.sum(may[np.unique(data.sequence(row))])
        if left < k:
            user = data.users.ids[row]
            raise ValueError(f"k is {k}, but only {left} items are left for user {user}, whose seen ones are taken out")
