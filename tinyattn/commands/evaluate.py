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

from ..evaluation import hit_rate, ndcg, target_ranks
from ..models import Estimator
from .arguments import add_data, add_evaluation, add_run
from .measures import MEASURES
from .ops import add_ops
from .runs import describe_counts, open_run, refuse_unwritable, split_of, write_csv
from .tables import Evaluation, notes_on


def add(command: Any, arguments: list[str]) -> None:
    add_run(command)
    add_ops(command)
    add_data(command)
    add_evaluation(command)
    text = "a CSV file to write: rank, HR and NDCG of every user's test item, one line per user and protocol"
    command.add_argument("--per-user", metavar="FILE", help=text)


def run(options: argparse.Namespace) -> None:
    if options.per_user:
        refuse_unwritable(options.per_user, "--per-user", [options.data])
    model, source, data, truth = open_run(options, Estimator)
    if options.per_user:
        refuse_unwritable(options.per_user, "--per-user", [getattr(source, "path", None)])
    measure = MEASURES[model.table]
    measure.fill_options(options, model.name)
    if options.per_user and getattr(options, "negatives", None):
        read = [Path(options.negatives) / f"{protocol}.txt" for protocol in options.protocols]
        refuse_unwritable(options.per_user, "--per-user", read)
    if options.per_user and measure is not MEASURES["ranking"]:
        raise ValueError(f"--per-user writes ranks, and model {model.name} {measure.does}")
    split = split_of(options.run_folder, model, data, is_its_own=options.data is None)
    print(f"{model.name} of {options.run_folder} on {source.title}: {describe_counts(data, split)}")
    on = Evaluation(options, source, truth, split, measure.prepare(split, options))
    rows = measure.rows(model, on)
    measure.print(rows, model, truth is not None)
    for note in notes_on(model, rows, split):
        print(f"note: {note}", file=sys.stderr)
    if options.per_user:
        _write_users(model, on)


def _write_users(model: Any, on: Evaluation) -> None:
    """Write a line for each protocol and user; users in the data's order."""
    split, ks = on.split, on.options.at
    ranks = target_ranks(model, split, "test", on.prepared, model.users.numbers_or_zero(split.data.users.ids))
    ids = split.data.users.ids[split.evaluated].tolist()
    lines = [["user", "protocol", "rank", *(f"{name}@{k}" for k in ks for name in ("hr", "ndcg"))]]
    for protocol in on.options.protocols:
        rank = ranks[protocol]
        values = np.stack([f(rank, k) for k in ks for f in (hit_rate, ndcg)], axis=1)
        for user, place, row in zip(ids, rank.tolist(), values.tolist(), strict=True):
            lines.append([user, protocol, f"{place:g}", *(f"{value:.6g}" for value in row)])
    write_csv(on.options.per_user, lines)
    print(f"{len(ids):,} users: {on.options.per_user}")
