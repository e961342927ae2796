"""Recommenders: of items that come next, and of ratings."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...data import RATING_SPLITS, SPLITS, Interactions, RatingSplit, Source, Split, Truth, split_ratings
from ...evaluation import PROTOCOLS, RATING_BASELINES, candidates_for, rating_errors
from ...models import Recommender, RunFolder
from ..arguments import RANKING, add_data, add_evaluation, add_world, source_of
from ..comparisons import RANKING_NOTES, RATING_NOTES, compare_rankings, compare_ratings
from ..tables import RATED, ROWS, metric_rows, print_means, print_table
from .measure import Measure, Splits, refuse_ranking

SPLITS_OF_RATINGS: Splits = {name: partial(split_ratings, by=name) for name in RATING_SPLITS}


class OfInteractions(Measure):
    """What the measures of recommenders share."""

    ratings: bool            # are ratings read?
    notes: str               # what the numbers of `compare` mean

    asked_by, sources = "recommend", Source

    def add_data(self, command: Any) -> None:
        add_data(command, "a file of interactions, .gz as well; `tinyattn data --help` lists the formats")
        add_world(command)

    def read(self, options: argparse.Namespace) -> tuple[Source, Interactions, Truth | None]:
        """Raises ValueError for data of a single user."""
        source, data, truth = super().read(options)
        if data.n_users < 2:
            raise ValueError(f"{source.title} has a single user: nothing can be learned from others")
        return source, data, truth

    def source(self, options: argparse.Namespace) -> Source:
        return source_of(options, self.ratings)

    def named(self, options: argparse.Namespace) -> Source:
        return self.source(options)

    def load(self, source: Source) -> tuple[Interactions, Truth | None]:
        return source.load()

    def fingerprint(self, data: Interactions, split: str) -> str:
        return data.fingerprint(timed=split == "time")

    def split(self, data: Interactions, options: argparse.Namespace) -> Any:
        return self.splits[options.split](data)

    def split_again(self, data: Interactions, model: Recommender, name: str, is_its_own: bool) -> Any:
        """Raises ValueError naming an item that the model does not know."""
        return self.splits[name](in_the_models_ids(data, model))

    def compare(
        self, folders: Sequence[str], models: Sequence[Any], split: Any, options: argparse.Namespace, prepared: Any
    ) -> None:
        """Print the metrics of several runs, and their differences to the first."""
        raise NotImplementedError


class Ranking(OfInteractions):
    """HR, NDCG and MRR of the item that comes next."""

    does, ratings, notes = "ranks items", False, RANKING_NOTES
    splits: Splits = SPLITS
    parts = PROTOCOLS

    def add(self, command: Any) -> None:
        text = "the test items: each user's last item, or, where DATA has times, each user's first item after "
        text += "the moment by which 90 percent of all interactions had happened (default: leave-one-out)"
        add_evaluation(command).add_argument("--split", choices=SPLITS, default="leave-one-out", help=text)

    def fill_options(self, options: argparse.Namespace, model: str) -> None:
        """Raises ValueError for candidates that no protocol asks for, and for a file in the place of their folder."""
        for name, value in RANKING.items():
            setattr(options, name, getattr(options, name, value))
        folder = options.negatives
        if folder is not None and set(options.protocols) == {"full"}:
            sampled = " or ".join(PROTOCOLS[1:])
            raise ValueError(f"--negatives {folder}: for {sampled}, and --protocols full takes none")
        if folder is not None and Path(folder).exists() and not Path(folder).is_dir():
            raise ValueError(f"--negatives {folder} is a file, expected a folder")

    def settings(self, options: argparse.Namespace) -> dict[str, Any]:
        return {
            "at": list(options.at), "protocols": options.protocols, "baselines": options.baselines,
            "split": options.split,
        } | ({} if options.negatives is None else {"negatives": options.negatives})  # fmt: skip

    def prepare(self, split: Split, options: argparse.Namespace) -> dict[str, np.ndarray]:
        found = candidates_for(split, options.protocols, options.negatives)
        if "uni100" in found and split.data.n_items <= 100:
            draws = f"uni100 draws 100 of {split.data.n_items} items, many of them more than once"
            print(f"note: {draws}: its metrics are not those of other data", file=sys.stderr)
        return found

    def rows(
        self,
        model: Any,
        split: Split,
        options: argparse.Namespace,
        source: Source,
        truth: Truth | None,
        prepared: dict[str, np.ndarray],
    ) -> dict[str, Any]:
        return metric_rows(model, split, options, source, truth, prepared)

    def print(self, metrics: dict[str, Any], model: Any, expected: bool) -> None:
        print_table(metrics, model, expected)

    def compare(
        self,
        folders: Sequence[str],
        models: Sequence[Any],
        split: Split,
        options: argparse.Namespace,
        prepared: dict[str, np.ndarray],
    ) -> None:
        compare_rankings(folders, models, split, options, prepared)

    def draw(
        self, folder: RunFolder, model: Any, split: Split, rows: Any, options: argparse.Namespace, title: str
    ) -> None:
        from ...show import draw_run

        protocol = next(iter(rows["model"]))
        ordered = {name: rows[name][protocol] for name in ROWS if name in rows}
        draw_run(folder.figures, model, split, ordered, options.at, title)


class Ratings(OfInteractions):
    """RMSE and MAE of predicted ratings, beside the mean rating and damped biases."""

    does, ratings, notes = "predicts ratings", True, RATING_NOTES
    splits: Splits = SPLITS_OF_RATINGS
    parts = ("ratings",)

    def add(self, command: Any) -> None:
        text = "the test ratings, a tenth: each user's newest, the newest of all, or a random tenth"
        group = command.add_argument_group("evaluation")
        group.add_argument("--split", choices=RATING_SPLITS, default="user", help=f"{text} (default: user)")

    def fill_options(self, options: argparse.Namespace, model: str) -> None:
        refuse_ranking(options, model, self)

    def settings(self, options: argparse.Namespace) -> dict[str, Any]:
        return {"split": options.split}

    def prepare(self, split: RatingSplit, options: argparse.Namespace) -> None:
        return None

    def rows(
        self,
        model: Any,
        split: RatingSplit,
        options: argparse.Namespace,
        source: Source,
        truth: Truth | None,
        prepared: None,
    ) -> dict[str, Any]:
        test = split.test
        assert test.ratings is not None
        found = {name: rating_errors(make(split.train)(test), test.ratings) for name, make in RATING_BASELINES.items()}
        return {name: {"ratings": row} for name, row in (found | {"model": model.evaluate(split)}).items()}

    def print(self, metrics: dict[str, Any], model: Any, expected: bool) -> None:
        print_means(RATED, metrics, "ratings", model)

    def compare(
        self,
        folders: Sequence[str],
        models: Sequence[Any],
        split: RatingSplit,
        options: argparse.Namespace,
        prepared: None,
    ) -> None:
        compare_ratings(folders, models, split, options)

    def draw(
        self, folder: RunFolder, model: Any, split: RatingSplit, rows: Any, options: argparse.Namespace, title: str
    ) -> None:
        from ...show import save, training_curves

        curves = training_curves(model.history, title, "half of squares", model.criterion.upper(), "validation")
        save(curves, folder.figures / "training.png")


def in_the_models_ids(data: Interactions, model: Recommender) -> Interactions:
    """The same interactions in the model's item numbers. ValueError names an item it does not know."""
    assert model.items is not None
    if np.array_equal(data.items.ids, model.items.ids):
        return data
    flat = model.items.numbers(data.items.ids.tolist())[data.flat - 1].astype(np.int32)
    return replace(data, flat=flat, items=model.items)
