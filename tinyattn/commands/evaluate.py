"""`tinyattn evaluate`: measure a trained model again.

Print the table of RUN, on its own data or on DATA. For a recommender, DATA has interactions with the same items; for
other models it is a file of pairs, a text or images, and all of it is tested.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ..evaluation import SEGMENTS, hit_rate, mean_interval, ndcg, target_ranks
from ..models import Estimator
from .arguments import add_data, add_evaluation, add_run, names_among
from .measures import MEASURES
from .ops import add_ops
from .runs import describe_counts, open_run, refuse_unwritable, split_of, write_csv
from .tables import TITLES, Evaluation, notes_on


def add(command: Any, arguments: list[str]) -> None:
    add_run(command)
    add_ops(command)
    add_data(command)
    add_evaluation(command)
    text = "a CSV file to write: rank, HR and NDCG of every user's test item, one line per user and protocol"
    command.add_argument("--per-user", metavar="FILE", help=text)
    text = f"a table of parts of the users as well, with intervals: any of {', '.join(SEGMENTS)}"
    command.add_argument("--by", type=names_among(SEGMENTS), default=[], metavar="NAME,NAME", help=text)


def run(options: argparse.Namespace) -> None:
    if options.per_user:
        refuse_unwritable(options.per_user, "--per-user", options.data)
    model, source, data, truth = open_run(options, Estimator)
    if options.per_user:
        refuse_unwritable(options.per_user, "--per-user", getattr(source, "paths", []))
    measure = MEASURES[model.table]
    measure.fill_options(options, model.name)
    if options.per_user and getattr(options, "negatives", None):
        read = [Path(options.negatives) / f"{protocol}.txt" for protocol in options.protocols]
        refuse_unwritable(options.per_user, "--per-user", read)
    if options.by and measure is not MEASURES["ranking"]:
        raise ValueError(f"--by is for ranks, and model {model.name} {measure.does}")
    if options.per_user and measure is not MEASURES["ranking"]:
        raise ValueError(f"--per-user writes ranks, and model {model.name} {measure.does}")
    split = split_of(options.run_folder, model, data, is_training_data=not options.data)
    print(f"{model.name} of {options.run_folder} on {source.title}: {describe_counts(data, split)}")
    on = Evaluation(options, source, truth, split, measure.prepare(split, options))
    rows = measure.rows(model, on)
    measure.print(rows, model, truth is not None)
    for note in notes_on(model, rows, split):
        print(f"note: {note}", file=sys.stderr)
    if options.per_user or options.by:
        ranks = target_ranks(model, split, "test", on.prepared, model.users.numbers_or_zero(split.data.users.ids))
    for by in options.by:
        _print_segments(by, ranks, on)
    if options.per_user:
        _write_users(ranks, on)


def _print_segments(by: str, ranks: dict[str, np.ndarray], on: Evaluation) -> None:
    """Print NDCG@k and HR@k of each part of the users, with 95 % intervals (bootstrap over its users)."""
    k, parts = on.options.at[-1], SEGMENTS[by](on.split)
    width = max(map(len, parts))
    for protocol in on.options.protocols:
        print(f"by {by}, {TITLES[protocol]}\n{'':{width}}{'USERS':>9}{f'HR@{k}':>10}{f'NDCG@{k}':>10}   95 % of NDCG")
        for title, mask in parts.items():
            rank = ranks[protocol][mask]
            if len(rank):
                mean = mean_interval(ndcg(rank, k))
                values = f"{np.mean(hit_rate(rank, k)):10.4f}{mean.mean:10.4f}   [{mean.low:.4f}, {mean.high:.4f}]"
                print(f"{title:{width}}{len(rank):9,}{values}")
        print()


def _write_users(ranks: dict[str, np.ndarray], on: Evaluation) -> None:
    """Write a line for each protocol and user; users in the data's order."""
    split, ks = on.split, on.options.at
    ids = split.data.users.ids[split.evaluated].tolist()
    lines = [["user", "protocol", "rank", *(f"{name}@{k}" for k in ks for name in ("hr", "ndcg"))]]
    for protocol in on.options.protocols:
        rank = ranks[protocol]
        values = np.stack([f(rank, k) for k in ks for f in (hit_rate, ndcg)], axis=1)
        for user, place, row in zip(ids, rank.tolist(), values.tolist(), strict=True):
            lines.append([user, protocol, f"{place:g}", *(f"{value:.6g}" for value in row)])
    write_csv(on.options.per_user, lines)
    print(f"{len(ids):,} users: {on.options.per_user}")
