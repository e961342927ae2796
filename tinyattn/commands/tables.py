"""The table of metrics: the model's row, the baselines', and the optimum's where the truth is known."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from ..data import ItemNames, Source, Split, Truth
from ..evaluation import evaluate
from ..models import BASELINES
from ..terminal import quoted

ROWS = (*BASELINES, "model", "optimum")  # the order of a printed table
TITLES = {
    "full": "full ranking, among the items that the user has not had",
    "uni100": "among 100 items drawn uniformly from those not in the user's training part",
    "pop100": "among 100 unseen items drawn by popularity",
}
RATED = "ratings of the test part, predicted; lower is better"


def metric_rows(
    model: Any,
    split: Split,
    options: argparse.Namespace,
    source: Source,
    truth: Truth | None,
    candidates: dict[str, np.ndarray],
) -> dict[str, Any]:
    """{row: {protocol: {metric: value}}}: of the model, of each of `options.baselines`, and of the optimum."""
    scores: dict[str, Any] = {name: BASELINES[name]().fit(split) for name in options.baselines}
    if source.world is not None:
        world = source.world
        scores["optimum"] = lambda histories, users: world.best_ranking(histories)
    users = model.users.numbers_or_zero(split.data.users.ids)  # the model's own numbers for them
    found = {"model": evaluate(model, split, "test", options.at, truth, candidates, users)}
    found |= {name: evaluate(f, split, "test", options.at, truth, candidates) for name, f in scores.items()}
    return {name: {p: row[p] for p in options.protocols} for name, row in found.items()}


def print_table(metrics: dict[str, Any], model: Any, expected: bool) -> None:
    """`expected`: are metrics expectations under a known truth?"""
    valid_users = getattr(model, "valid_users", None)
    if valid_users is not None:
        print(f"\nvalidated on {valid_users:,} users, drawn by seed {model.seed}; measured on all:")
    for protocol in [name for name in metrics["model"] if name in TITLES]:
        under = ", expected under the world's true distribution" if expected and protocol == "full" else ""
        print(f"\n{TITLES[protocol]}{under}")
        names = list(metrics["model"][protocol])
        print(" " * 12 + "".join(f"{name.upper():>10}" for name in names))
        other = metrics.get(model.name, metrics["model"]) != metrics["model"]         # than the baseline of its kind
        for row in ROWS:
            if row in metrics and (row != model.name or metrics[row] != metrics["model"]):
                values = metrics[row][protocol]
                title = row
                if row == "model":
                    title = f"this {model.name}" if other else model.name
                print(f"{title:12}" + "".join(f"{values[name]:10.4f}" for name in names))
    print()


def print_means(heading: str, metrics: dict[str, Any], of: str, model: Any) -> None:
    """A line a row of `metrics`, {row: {of: {metric: value}}}, below a heading."""
    print(f"\n{heading}")
    widths = {name: max(10, len(name) + 2) for name in next(iter(metrics.values()))[of]}
    print(" " * 12 + "".join(f"{name.upper():>{width}}" for name, width in widths.items()))
    for row, values in metrics.items():
        title = model.name if row == "model" else row
        print(f"{title:12}" + "".join(f"{values[of][name]:{width}.4f}" for name, width in widths.items()))
    print()


def print_distances(found: dict[str, dict[str, float]]) -> None:
    """A line a block of what `distances_by_head` gives, below a heading."""
    print("how far heads look, in pixels, their mean, and that of a head that looks at all patches alike")
    columns = max(found.values(), key=len)                   # blocks may differ in heads
    print(" " * 12 + "".join(f"{name.upper():>10}" for name in columns))
    for block, values in found.items():
        cells = (f"{values[name]:10.2f}" if name in values else " " * 10 for name in columns)
        print(f"{block:12}" + "".join(cells))
    print()


def print_items(ids: np.ndarray, scores: np.ndarray, names: ItemNames) -> None:
    """A line an item: place, id, score, and the name where it has one."""
    labels = [quoted(item) for item in ids]
    width = max(map(len, labels))
    for place, (item, label, score) in enumerate(zip(ids, labels, scores, strict=True), start=1):
        print(f"{place:4}  {label:>{width}}  {score:8.3f}  {names.of(item)}".rstrip())


def print_history(history: list[Any], names: ItemNames) -> None:
    """The newest five items of a history, as the heading of what follows from it."""
    print(f"after {'..., ' if len(history) > 5 else ''}{', '.join(map(names.label, history[-5:]))}:")
