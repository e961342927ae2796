"""The output of `tinyattn compare`: the metrics of each run, and intervals of their differences to the first run."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data import Split
from ..evaluation import (
    Difference,
    best_items,
    beyond_accuracy,
    metrics_of_users,
    overlap,
    paired_difference,
    paired_error_difference,
    rating_errors,
)
from .tables import RATED, Evaluation, notes_on_candidates, title_of

K = 10                   # length of the lists that are compared beyond accuracy
POWERS = {"rmse": 2, "mae": 1}

RANKING_NOTES = f"""\
coverage@{K}: the share of the catalogue that is among anybody's {K} best.
novelty: the mean of -log2 of an item's share of the training interactions.
popularity: the mean popularity of recommended items over that of items in histories.
overlap: the share of a user's {K} best that the first run has, too.
"""
RATING_NOTES = "The bootstrap draws a user with all test ratings of that user; every rating counts the same.\n"


def compare_rankings(folders: Sequence[str], models: Sequence[Any], on: Evaluation) -> None:
    """Print HR, NDCG and MRR under every protocol, then coverage, novelty, popularity and overlap."""
    users = [metrics_of_users(model, on.split, on.options.at, on.prepared) for model in models]
    for note in notes_on_candidates(users[0], on.split):
        print(f"note: {note}", file=sys.stderr)
    for protocol in on.options.protocols:
        print(f"\n{title_of(protocol, on.split)}")
        for name in users[0][protocol]:
            values = [metrics[protocol][name] for metrics in users]
            differences = [paired_difference(other, values[0], on.options.seed) for other in values[1:]]
            _print_metric(name.upper(), folders, [np.mean(v) for v in values], differences)
    _print_beyond(folders, models, on.split)


def compare_ratings(folders: Sequence[str], models: Sequence[Any], on: Evaluation) -> None:
    """Print RMSE and MAE of the ratings of the test part."""
    test = on.split.test
    owners = np.repeat(np.arange(test.n_users), test.lengths)
    predictions = [model.predictions(on.split) for model in models]
    off = [predicted - test.ratings for predicted in predictions]
    print(f"\n{RATED}")
    for name, power in POWERS.items():
        errors = [rating_errors(predicted, test.ratings)[name] for predicted in predictions]
        differences = [paired_error_difference(other, off[0], owners, power, on.options.seed) for other in off[1:]]
        _print_metric(name.upper(), folders, errors, differences)


def _print_metric(
    name: str, folders: Sequence[str], values: Sequence[float], differences: Sequence[Difference]
) -> None:
    """Print a line for each run: its value, and its difference to the first."""
    width = max(map(len, folders))
    intervals = ["", *(f"  {d.mean:+.4f} [{d.low:+.4f}, {d.high:+.4f}]" for d in differences)]
    for folder, value, difference in zip(folders, values, intervals, strict=True):
        print(f"{name:9}{folder:{width}}  {value:7.4f}{difference}")


def _print_beyond(folders: Sequence[str], models: Sequence[Any], split: Split) -> None:
    width = max(map(len, folders))
    best = [best_items(model.score, split, K) for model in models]
    if not np.any(best[0]):
        raise ValueError("every user has had every item: nothing is left to recommend")
    print(f"\nbeyond accuracy\n{'':{width}}  {f'coverage@{K}':>12}{'novelty':>10}{'popularity':>12}{'overlap':>10}")
    for folder, mine in zip(folders, best, strict=True):
        numbers = *beyond_accuracy(mine, split).values(), overlap(mine, best[0])
        print("{:{}}  {:12.4f}{:10.3f}{:12.3f}{:10.3f}".format(folder, width, *numbers))
