"""`tinyattn evaluate`: measure a trained model again.

Print the table of RUN, on its own data or on DATA. For a recommender, DATA has interactions with the same items; for
other models it is a file of pairs, a text or images, and all of it is tested.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ..evaluation import SEGMENTS, mean_interval, metrics_of_users
from ..models import Estimator
from .arguments import add_data, add_evaluation, add_run, names_among
from .measures import MEASURES
from .ops import add_ops
from .runs import describe_counts, open_run, refuse_unwritable, split_of, write_csv
from .tables import Evaluation, notes_on, title_of


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
    split = split_of(options.run_folder, model, data, options, is_training_data=not options.data)
    if (several := getattr(split, "targets", "first") == "all") and (odd := set(options.by) - {"history"}):
        raise ValueError(f"--by {min(odd)} is about a user's one test item, and --targets all has several")
    print(f"{model.name} of {options.run_folder} on {source.title}: {describe_counts(data, split)}")
    on = Evaluation(options, source, truth, split, measure.prepare(split, options))
    rows = measure.rows(model, on)
    measure.print(rows, model, on)
    for note in notes_on(model, rows, split):
        print(f"note: {note}", file=sys.stderr)
    if options.per_user or options.by:
        numbers = model.users.numbers_or_zero(split.data.users.ids)
        users = metrics_of_users(model, split, options.at, on.prepared, numbers)
    for by in options.by:
        _print_segments(by, users, on)
    if options.per_user:
        _write_users(users, on, several)


def _print_segments(by: str, users: dict[str, dict[str, np.ndarray]], on: Evaluation) -> None:
    """Print NDCG@k and HR@k, or Recall@k, of each part of the users, with 95 % intervals (bootstrap over its users)."""
    parts = SEGMENTS[by](on.split)
    width = max(map(len, parts))
    for protocol in on.options.protocols:
        hit, ndcg = [name for name in users[protocol] if name.endswith(f"@{on.options.at[-1]}")]
        heading = f"{'USERS':>9}{hit.upper():>10}{ndcg.upper():>10}   95 % of NDCG"
        print(f"by {by}, {title_of(protocol, on.split)}\n{'':{width}}{heading}")
        for title, mask in parts.items():
            if np.any(mask):
                mean = mean_interval(users[protocol][ndcg][mask])
                values = f"{np.mean(users[protocol][hit][mask]):10.4f}{mean.mean:10.4f}"
                print(f"{title:{width}}{np.sum(mask):9,}{values}   [{mean.low:.4f}, {mean.high:.4f}]")
        print()


def _write_users(users: dict[str, dict[str, np.ndarray]], on: Evaluation, several: bool) -> None:
    """Write a line for each protocol and user, with the rank of a single target; users in the data's order."""
    ids = on.split.data.users.ids[on.split.evaluated].tolist()
    names = [name for name in users[on.options.protocols[0]] if name != "mrr"]
    lines = [["user", "protocol", *([] if several else ["rank"]), *names]]
    for protocol in on.options.protocols:
        values = users[protocol]
        ranks = [] if several else [1 / values["mrr"]]
        for user, row in zip(ids, np.stack(ranks + [values[name] for name in names], axis=1).tolist(), strict=True):
            lines.append([user, protocol, *(f"{value:.6g}" for value in row)])
    write_csv(on.options.per_user, lines)
    print(f"{len(ids):,} users: {on.options.per_user}")
