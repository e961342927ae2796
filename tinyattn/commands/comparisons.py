"""What `tinyattn compare` prints of runs of one kind: metrics, and how sure their differences to the first run are."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..data import RatingSplit, Split
from ..evaluation import (
    Difference,
    best_items,
    beyond_accuracy,
    hit_rate,
    ndcg,
    overlap,
    paired_difference,
    paired_error_difference,
    rating_errors,
    reciprocal_rank,
    target_ranks,
)
from .tables import RATED, TITLES

K = 10                   # length of the lists that are looked at beyond accuracy
POWERS = {"rmse": 2, "mae": 1}

RANKING_NOTES = f"""\
coverage@{K}: the share of the catalogue that is among anybody's {K} best. novelty: the mean of -log2 of an item's share
of the training interactions. popularity: the mean popularity of recommended items over that of items in histories.
overlap: the share of a user's {K} best that the first run has, too.
"""
RATING_NOTES = """\
A user is drawn with all of the ratings that are predicted, and every rating counts the same.
"""


def compare_rankings(
    folders: Sequence[str],
    models: Sequence[Any],
    split: Split,
    options: argparse.Namespace,
    candidates: dict[str, np.ndarray],
) -> None:
    """HR, NDCG and MRR under every protocol, and what stands beyond accuracy."""
    ranks = [target_ranks(model, split, "test", candidates) for model in models]
    asked = [(f"{name}@{k}", f(k)) for k in options.at for name, f in (("HR", _hits), ("NDCG", _gains))]
    for protocol in options.protocols:
        print(f"\n{TITLES[protocol]}")
        for name, metric in [*asked, ("MRR", reciprocal_rank)]:
            values = [metric(rank[protocol]) for rank in ranks]
            _print_metric(name, folders, [np.mean(v) for v in values], [
                paired_difference(other, values[0], options.seed) for other in values[1:]
            ])  # fmt: skip
    _print_beyond(folders, models, split)


def compare_ratings(
    folders: Sequence[str], models: Sequence[Any], split: RatingSplit, options: argparse.Namespace
) -> None:
    """RMSE and MAE of the ratings of the test part."""
    test = split.test
    assert test.ratings is not None
    given, owners = test.ratings, np.repeat(np.arange(test.n_users), test.lengths)
    found = [model.predictions(split) for model in models]
    print(f"\n{RATED}")
    for name, power in POWERS.items():
        errors = [rating_errors(predicted, given)[name] for predicted in found]
        _print_metric(name.upper(), folders, errors, [
            paired_error_difference(other - given, found[0] - given, owners, power, options.seed) for other in found[1:]
        ])  # fmt: skip


def _print_metric(
    name: str, folders: Sequence[str], values: Sequence[float], differences: Sequence[Difference]
) -> None:
    """A line a run: its value, and its difference to the first, which has none."""
    width = max(map(len, folders))
    intervals = ["", *(f"  {d.mean:+.4f} [{d.low:+.4f}, {d.high:+.4f}]" for d in differences)]
    for folder, value, difference in zip(folders, values, intervals, strict=True):
        print(f"{name:9}{folder:{width}}  {value:7.4f}{difference}")


def _hits(k: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda rank: hit_rate(rank, k)


def _gains(k: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda rank: ndcg(rank, k)


def _print_beyond(folders: Sequence[str], models: Sequence[Any], split: Split) -> None:
    """Coverage, novelty, popularity, and what each run has in common with the first."""
    width = max(map(len, folders))
    best = [best_items(model.score, split, K) for model in models]
    if not np.any(best[0]):
        raise ValueError("every user has had every item: nothing is left to recommend")
    print(f"\nbeyond accuracy\n{'':{width}}  {f'coverage@{K}':>12}{'novelty':>10}{'popularity':>12}{'overlap':>10}")
    for folder, mine in zip(folders, best, strict=True):
        found = *beyond_accuracy(mine, split).values(), overlap(mine, best[0])
        print("{:{}}  {:12.4f}{:10.3f}{:12.3f}{:10.3f}".format(folder, width, *found))
