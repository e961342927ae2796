"""`tinyattn compare`: runs on the same data side by side, with how sure their differences are."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data import Interactions, ItemNames, Split
from ..evaluation import (
    best_items,
    candidates_for,
    coverage,
    hit_rate,
    ndcg,
    novelty,
    overlap,
    paired_difference,
    popularity_lift,
    popularity_of,
    reciprocal_rank,
    target_ranks,
)
from .arguments import add_device, add_history, add_names, add_protocols
from .runs import listed, names_of, open_runs, said
from .tables import SAID, print_history

K = 10                   # length of the lists that are looked at beyond accuracy

NOTES = f"""\
Differences are to the first run. [low, high] is the 95 % percentile interval of a paired bootstrap: as many users as
there are, drawn with replacement 2,000 times, the same for both runs. It says what other users might have shown, and
nothing of other seeds. coverage@{K}: the share of the catalogue that is among anybody's {K} best. novelty: the mean of
-log2 of an item's share of the training interactions. popularity: the mean popularity of what is recommended, divided
by that of what users had. overlap: the share of a user's {K} best that the first run has, too.
"""


def add(commands: Any, arguments: Sequence[str]) -> Any:
    command = commands.add_parser(
        "compare",
        help="runs side by side, with intervals of their differences",
        description="Measure the models of several runs on the same data, and with --items or --user recommend by each "
        "of them. Every user's own test item is ranked, on generated data, too.",
        epilog=NOTES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("run_folders", nargs="+", metavar="RUN", help="folders that `tinyattn train` wrote")
    add_device(command)
    add_protocols(command)
    text = "of the users that the bootstrap draws (default: 0)"
    command.add_argument("--seed", type=int, default=0, metavar="S", help=text)
    add_history(command, required=False)
    command.add_argument("-k", "--k", type=int, default=10, help="how many to recommend (default: 10)")
    add_names(command)
    return command


def run(options: argparse.Namespace) -> None:
    if len(options.run_folders) < 2 or len(set(options.run_folders)) < len(options.run_folders):
        raise ValueError(f"compare takes two runs or more, each once; given: {', '.join(options.run_folders)}")
    models, source, data, split = open_runs(options.run_folders, options.device)
    names = names_of(options, models[0])
    history, best = _recommended(options, models, data)            # refuses what cannot be, before all are measured
    candidates = candidates_for(split, options.protocols, options.negatives)
    print(f"{len(models)} runs on {source.title}: {said(data, split)}")
    ranks = [target_ranks(model, split, "test", candidates) for model in models]
    for protocol in options.protocols:
        print(f"\n{SAID[protocol]}")
        _print_metrics(options, [rank[protocol] for rank in ranks])
    _print_beyond(options.run_folders, models, split)
    print(f"\n{NOTES}")
    if best:
        print_history(history, names)
        _print_side_by_side(options.run_folders, best, names)


def _print_metrics(options: argparse.Namespace, ranks: list[np.ndarray]) -> None:
    """A line a run and metric: its mean over users, and the difference to the first run."""
    width = max(map(len, options.run_folders))
    asked = [(f"{name}@{k}", f(k)) for k in options.at for name, f in (("HR", _hits), ("NDCG", _gains))]
    for name, metric in [*asked, ("MRR", reciprocal_rank)]:
        first = metric(ranks[0])
        for folder, rank in zip(options.run_folders, ranks, strict=True):
            line = f"{name:8}{folder:{width}}  {np.mean(metric(rank)):7.4f}"
            if rank is not ranks[0]:
                found = paired_difference(metric(rank), first, options.seed)
                line += f"  {found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"
            print(line)


def _hits(k: int) -> Any:
    return lambda rank: hit_rate(rank, k)


def _gains(k: int) -> Any:
    return lambda rank: ndcg(rank, k)


def _print_beyond(folders: Sequence[str], models: list[Any], split: Split) -> None:
    """Coverage, novelty, popularity, and what each run has in common with the first."""
    width = max(map(len, folders))
    best = [best_items(model.score, split, K) for model in models]
    if not np.any(best[0]):
        raise ValueError("every user has had every item: nothing is left to recommend")
    counts, histories = popularity_of(split), split.histories(split.evaluated, "test")
    print(f"\nbeyond accuracy\n{'':{width}}  {f'coverage@{K}':>12}{'novelty':>10}{'popularity':>12}{'overlap':>10}")
    for folder, mine in zip(folders, best, strict=True):
        lift = popularity_lift(mine, histories, counts)
        shared = coverage(mine, split.data.n_items), novelty(mine, counts), lift, overlap(mine, best[0])
        print("{:{}}  {:12.4f}{:10.3f}{:12.3f}{:10.3f}".format(folder, width, *shared))


def _recommended(
    options: argparse.Namespace, models: list[Any], data: Interactions
) -> tuple[list[Any], list[np.ndarray]]:
    """The history that --items or --user names, and each model's recommendations; nothing where neither is given."""
    history, users = [], None
    if options.user is not None:
        row = int(data.users.numbers([options.user])[0]) - 1
        history, users = data.items.decode(data.sequence(row)).tolist(), [options.user]
    elif options.items is not None:
        history = listed(options.items)
    else:
        return [], []
    return history, [model.recommend([history], options.k, users=users)[0][0] for model in models]


def _print_side_by_side(folders: Sequence[str], best: list[np.ndarray], names: ItemNames) -> None:
    """A column a run."""
    columns = [[folder, *map(names.label, ids.tolist())] for folder, ids in zip(folders, best, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    for place, row in enumerate(zip(*columns, strict=True)):
        cells = "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
        print(f"{place or '':4}  {cells}".rstrip())
