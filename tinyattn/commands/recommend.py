"""`tinyattn recommend`: the best next items for a history, or for many users.

Recommend for a history that need not occur in any data, or for users of the run's data. Each line has an item's place,
id and score. Depending on the model, scores are logits, counts or other numbers: they order the items of one list, and
cannot be compared between models.
"""

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..data import Interactions
from ..models.choosing import refuse_k
from ..models.recommender import UNKNOWN
from ..terminal import progress_bar, quoted
from .arguments import add_candidates, add_data, add_history, add_names, add_repeats, add_run
from .ops import add_ops
from .runs import (
    DEFAULT_K,
    history_of,
    k_of,
    known_ids,
    names_of,
    open_run,
    recommendable,
    refuse_unwritable,
    write_csv,
)
from .tables import print_history, print_items

SCORES_AT_ONCE = 4_000_000       # bounds the memory of the score matrix


def add(command: Any, arguments: list[str]) -> None:
    add_run(command)
    add_ops(command)
    add_data(command)
    text = "many users: all, or a file with one id per line; needs --out"
    add_history(command).add_argument("--users", metavar="all|FILE", help=text)
    text = "with --users: the I-th of N parts of them, for several processes or machines, each with an --out"
    command.add_argument("--shard", type=_shard, metavar="I/N", help=text)
    add_candidates(command)
    add_repeats(command, "leave out the items of the history, or keep them as candidates (default: drop)")
    add_names(command)
    text = "skip items of histories that the model does not know, with a note, or refuse them (default: skip; "
    text += "refuse for --items); an empty history gets the most popular items"
    command.add_argument("--unknown", choices=UNKNOWN, help=text)
    text = "with --users: the CSV file to write, with columns user, rank, item, score, and, with --names, name; "
    text += "ids and names are as in the data: a spreadsheet may execute one that begins with =, +, - or @"
    command.add_argument("--out", metavar="FILE", help=text)


def _shard(text: str) -> tuple[int, int]:
    """ "2/8" -> (2, 8)."""
    number, slash, count = text.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is no part I/N with 1 <= I <= N, such as 1/4")
    return int(number), int(count)


def run(options: argparse.Namespace) -> None:
    if (options.users is None) != (options.out is None):
        raise ValueError("--users and --out go together: recommendations for many users are written to a file")
    if options.shard is not None and options.users is None:
        raise ValueError("--shard is a part of many users: give --users and --out, too")
    if options.unknown is None:
        options.unknown = "skip" if options.items is None else "refuse"
    if options.users is not None:
        _write_many(options)
        return
    history, user, model, times = history_of(options)
    if options.unknown == "skip":
        if times is not None:
            times = times[[model.items.number_or_zero(item) > 0 for item in history]]
        history = _known(history, model)
    if model.by_user and user is None:
        ranking = "recommends by the user alone: this is its ranking for users that it was not trained on"
        print(f"note: model {model.name} reads no history, and {ranking}", file=sys.stderr)
    names, repeats = names_of(options, model), options.repeats == "keep"
    only = known_ids(options.only, model.items)
    k = k_of(options, model, [] if repeats else history, only)
    timed = None if times is None else [times]
    ids, scores = model.recommend([history], k, only=only, users=user, repeats=repeats, times=timed)
    if not history and not model.by_user:
        print("the most popular items, ", end="")
    print_history(history, names)
    print_items(ids[0], scores[0], names)


def _known(history: list[Any], model: Any) -> list[Any]:
    """The items of a history that the model knows; a note names others."""
    known = [item for item in history if model.items.number_or_zero(item)]
    if unknown := [item for item in history if item not in known]:
        some = ", ".join(map(quoted, unknown[:3])) + (", ..." if len(unknown) > 3 else "")
        skipped = f"{len(unknown):,} of {len(history):,} items are skipped: the model does not know {some}"
        print(f"note: {skipped}", file=sys.stderr)
    return known


def _write_many(options: argparse.Namespace) -> None:
    """Write recommendations for many users, whose lists may be shorter than k. Errors come before any work."""
    refuse_unwritable(options.out, read=[*options.data, options.users, options.names, options.only])
    model, source, data, _ = open_run(options)
    refuse_unwritable(options.out, read=source.paths)                       # the training data
    numbers = _numbers_of(data, model, options.unknown)
    names, only = names_of(options, model), known_ids(options.only, model.items)
    everyone = options.users == "all"
    rows = np.arange(data.n_users) if everyone else data.users.numbers(known_ids(options.users, data.users) or []) - 1
    if options.shard is not None:
        number, count = options.shard
        if count > len(rows):
            raise ValueError(f"--shard {number}/{count}: there are {len(rows):,} users, so at most as many parts")
        rows = np.array_split(rows, count)[number - 1]
    k = min(DEFAULT_K, len(model.items)) if options.k is None else options.k
    refuse_k(k, len(model.items))
    may, repeats = recommendable(model, only), options.repeats == "keep"

    def history(row: int) -> np.ndarray:
        known = numbers[data.sequence(row) - 1]
        return known[known > 0]

    def times(row: int) -> np.ndarray:
        return data.timed(row).seconds[numbers[data.sequence(row) - 1] > 0]

    seen = [0 if repeats else np.sum(may[np.unique(history(row))]) for row in rows.tolist()]
    most = np.minimum(np.sum(may) - np.array(seen, dtype=np.int64), k)             # the length of each user's list
    if not most.any():
        raise ValueError("no items are left for any user when seen ones are taken out")
    known = model.users.numbers_or_zero(data.users.ids[rows]) > 0
    if model.by_user and not known.all():
        unknown = f"{np.sum(~known):,} of {len(known):,} users, who are not in the data that it was trained on"
        print(f"note: model {model.name} reads no history, and gives one ranking to {unknown}", file=sys.stderr)

    at_once = max(1, SCORES_AT_ONCE // (len(model.items) + 1))

    def lines() -> Iterator[list[Any]]:
        yield ["user", "rank", "item", "score", *(["name"] if options.names else [])]
        with progress_bar(total=len(rows), unit="user") as bar:
            for places in np.array_split(np.arange(len(rows)), -(-len(rows) // at_once)):
                lists = dict[int, Any]()
                for n in np.unique(most[places][most[places] > 0]).tolist():
                    some = places[most[places] == n]
                    ids = data.users.ids[rows[some]].tolist()
                    users = [user if known[place] else None for user, place in zip(ids, some, strict=True)]
                    histories = [model.items.decode(history(row)).tolist() for row in rows[some].tolist()]
                    timed = [times(row) for row in rows[some].tolist()] if model.reads_times else None
                    recommended = model.recommend(histories, n, only=only, users=users, repeats=repeats, times=timed)
                    lists |= zip(some.tolist(), zip(*recommended, strict=True), strict=True)
                for place in places.tolist():
                    best = zip(*(b.tolist() for b in lists.get(place, ())), strict=True)
                    for rank, (item, score) in enumerate(best, start=1):
                        name = [names.of(item)] if options.names else []
                        yield [data.users.ids[rows[place]], rank, item, f"{score:.6g}", *name]
                bar.update(len(places))

    write_csv(options.out, lines())
    _note_short_lists(most, k)
    at_most = "at most " if most.min() < k else ""
    items = "item" if k == 1 else "items"
    print(f"{len(rows):,} user{'s' * (len(rows) > 1)}, {at_most}{k} {items} each: {options.out}")


def _numbers_of(data: Interactions, model: Any, unknown: str) -> np.ndarray:
    """(data.n_items,): the model's number of each item of the data, 0 for unknown ones; a note counts these.

    Raises ValueError if the model knows no item, or, with `unknown` "refuse", if it does not know all.
    """
    numbers = model.items.numbers_or_zero(data.items.ids)
    if np.all(numbers):
        return numbers
    if unknown == "refuse":
        model.items.numbers(data.items.ids.tolist())                            # raises
    if not np.any(numbers):
        raise ValueError(f"the model knows none of the {data.n_items:,} items, such as {quoted(data.items.ids[0])}")
    keep, others = numbers[data.flat - 1] > 0, data.items.ids[numbers == 0]
    some = ", ".join(map(quoted, others[:3].tolist())) + (", ..." if len(others) > 3 else "")
    counts = f"{np.sum(~keep):,} of {len(data):,} interactions are skipped: the model does not know {some}"
    if lost := data.n_users - data.where(keep).n_users:
        if not model.by_user:
            model.popularity()                                                  # raises if the model has none
        answer = "and get the most popular items " * (not model.by_user)
        counts += f", and {lost:,} of {data.n_users:,} users have no other, {answer}".rstrip(", ")
    print(f"note: {counts} (with --unknown refuse this is an error)", file=sys.stderr)
    return numbers


def _note_short_lists(most: np.ndarray, k: int) -> None:
    """Print how many users have fewer than k items; `most` has the length of each user's list."""
    fewer, none = int(np.sum(most < k)), int(np.sum(most == 0))
    if fewer:
        of_them = f", {none:,} of them none" if none else ""
        less = "no item" if k == 1 else f"fewer than {k} items{of_them}"
        short = f"{fewer:,} of {len(most):,} users get {less}"
        print(f"note: {short}: no more are left when seen ones are taken out", file=sys.stderr)
