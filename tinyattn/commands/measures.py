"""What a kind of model is measured by: how its data is read and split, and which table is printed. A line a kind."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from ..data import RATING_SPLITS, SPLITS, Interactions, RatingSplit, Source, Split, Truth, split_ratings
from ..evaluation import RATING_BASELINES, candidates_for, rating_errors
from ..models import RunFolder
from .arguments import RANKING, add_evaluation
from .comparisons import RANKING_NOTES, RATING_NOTES, compare_rankings, compare_ratings
from .tables import RATED, ROWS, metric_rows, print_table

Splits = Mapping[str, Callable[[Interactions], Any]]     # name -> what is learned from, chosen by, and measured on
SPLITS_OF_RATINGS: Splits = {name: partial(split_ratings, by=name) for name in RATING_SPLITS}


class Measure(Protocol):
    """`Recommender.table` names a model's."""

    does: str                # what its models do: "model NAME ..."
    ratings: bool            # are ratings read?
    splits: Splits           # what --split names
    notes: str               # what the numbers of `compare` mean

    def add(self, command: Any) -> None:
        """The flags of its evaluation."""

    def settle(self, options: argparse.Namespace, model: str) -> None:
        """Set what was not given of the evaluation. Raises ValueError for what was given and is not of this kind."""

    def said(self, options: argparse.Namespace) -> dict[str, Any]:
        """What config.json keeps of the evaluation."""

    def prepare(self, split: Any, options: argparse.Namespace) -> Any:
        """What `rows` needs and can be refused before training."""

    def rows(
        self, model: Any, split: Any, options: argparse.Namespace, source: Source, truth: Truth | None, prepared: Any
    ) -> dict[str, Any]:
        """{row: {protocol: {metric: value}}}, the model's row being "model"."""

    def print(self, metrics: dict[str, Any], model: Any, expected: bool) -> None:
        """The table."""

    def compare(
        self, folders: Sequence[str], models: Sequence[Any], split: Any, options: argparse.Namespace, prepared: Any
    ) -> None:
        """Print the metrics of several runs, and their differences to the first."""

    def draw(
        self, folder: RunFolder, model: Any, split: Any, rows: Any, options: argparse.Namespace, title: str
    ) -> None:
        """The pictures of a run."""


class Ranking:
    """HR, NDCG and MRR of the item that comes next."""

    does, ratings, notes = "ranks items", False, RANKING_NOTES
    splits: Splits = SPLITS

    def add(self, command: Any) -> None:
        text = "what is tested: each user's last item, or, where DATA has times, each user's first after one moment, "
        text += "up to which 90 percent of all interactions came (default: leave-one-out)"
        add_evaluation(command).add_argument("--split", choices=SPLITS, default="leave-one-out", help=text)

    def settle(self, options: argparse.Namespace, model: str) -> None:
        for name, value in RANKING.items():
            setattr(options, name, getattr(options, name, value))

    def said(self, options: argparse.Namespace) -> dict[str, Any]:
        return {
            "at": list(options.at), "protocols": options.protocols, "baselines": options.baselines,
            "split": options.split,
        }  # fmt: skip

    def prepare(self, split: Split, options: argparse.Namespace) -> dict[str, np.ndarray]:
        return candidates_for(split, options.protocols, options.negatives)

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
        from ..show import draw_run

        protocol = next(iter(rows["model"]))
        ordered = {name: rows[name][protocol] for name in ROWS if name in rows}
        draw_run(folder.figures, model, split, ordered, options.at, title)


class Ratings:
    """RMSE and MAE of predicted ratings, beside the mean rating and damped biases."""

    does, ratings, notes = "predicts ratings", True, RATING_NOTES
    splits: Splits = SPLITS_OF_RATINGS

    def add(self, command: Any) -> None:
        text = "what is predicted, a tenth of the ratings: each user's newest, the newest of all, or a random tenth"
        group = command.add_argument_group("evaluation")
        group.add_argument("--split", choices=RATING_SPLITS, default="user", help=f"{text} (default: user)")

    def settle(self, options: argparse.Namespace, model: str) -> None:
        given = ", ".join(f"--{name}" for name in RANKING if hasattr(options, name))
        if given:
            raise ValueError(f"{given}: for a model that {Ranking.does}, and model {model} {self.does}")

    def said(self, options: argparse.Namespace) -> dict[str, Any]:
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
        print(f"\n{RATED}")
        names = list(metrics["model"]["ratings"])
        print(" " * 12 + "".join(f"{name.upper():>10}" for name in names))
        for row, values in metrics.items():
            title = model.name if row == "model" else row
            print(f"{title:12}" + "".join(f"{values['ratings'][name]:10.4f}" for name in names))
        print()

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
        from ..show import save, training_curves

        curves = training_curves(model.history, title, "half of squares", model.criterion.upper(), "validation")
        save(curves, folder.figures / "training.png")


MEASURES: dict[str, Measure] = {"ranking": Ranking(), "ratings": Ratings()}
