"""`tinyattn evaluate`: the table of a finished run, measured again, or on other data."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..data import Split
from ..evaluation import hit_rate, ndcg, target_ranks
from ..files import write_atomically
from ..models import Estimator
from .arguments import add_data, add_evaluation, add_run
from .measures import MEASURES
from .ops import add_ops
from .runs import describe_counts, open_run, refuse_unwritable, split_of


def add(commands: Any, arguments: Sequence[str]) -> Any:
    command = commands.add_parser(
        "evaluate",
        help="measure a trained model again",
        description="Print the table of the run in RUN, on its own data or on DATA: interactions with the same items, "
        "or, where its model is no recommender, a file of pairs, a text or images, all of which are then tested.",
    )
    add_run(command)
    add_ops(command)
    add_data(command)
    add_evaluation(command)
    text = "a CSV file to write, with the rank, HR and NDCG of every user's own test item, a line a user and protocol"
    command.add_argument("--per-user", metavar="FILE", help=text)
    return command


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
    prepared = measure.prepare(split, options)
    measure.print(measure.rows(model, split, options, source, truth, prepared), model, truth is not None)
    if options.per_user:
        _write_users(model, split, options, prepared)


def _write_users(model: Any, split: Split, options: argparse.Namespace, candidates: dict[str, np.ndarray]) -> None:
    """A line a user and protocol; users come in the data's order."""
    users = model.users.numbers_or_zero(split.data.users.ids)
    ranks = target_ranks(model, split, "test", candidates, users)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["user", "protocol", "rank", *(f"{name}@{k}" for k in options.at for name in ("hr", "ndcg"))])
    ids = split.data.users.ids[split.evaluated].tolist()
    for protocol in options.protocols:
        rank = ranks[protocol]
        values = np.stack([f(rank, k) for k in options.at for f in (hit_rate, ndcg)], axis=1)
        for user, place, row in zip(ids, rank.tolist(), values.tolist(), strict=True):
            writer.writerow([user, protocol, f"{place:g}", *(f"{value:.6g}" for value in row)])
    write_atomically(Path(options.per_user), text.getvalue().encode())
    print(f"{len(ids):,} users: {options.per_user}")
