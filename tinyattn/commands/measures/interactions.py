"""Recommenders that rank items, and recommenders that predict ratings."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...data import RATING_SPLITS, SPLITS, Interactions, ItemVectors, Source, Split, Truth, split_ratings
from ...data.read import STDIN
from ...data.split import refuse_folds
from ...evaluation import PROTOCOLS, RATING_BASELINES, candidates_for, full_ranking, rating_errors
from ...models import MODELS, NeuralRecommender, Recommender, RunFolder
from ...models.starting import known_ids, lost_moments
from ...ranks import ranks
from ..arguments import RANKING, add_data, add_evaluation, add_world, source_of
from ..comparisons import RANKING_NOTES, RATING_NOTES, compare_rankings, compare_ratings
from ..tables import RATED, ROWS, Evaluation, metric_rows, print_table
from .measure import Measure, Splits, open_kind

SPLITS_OF_RATINGS: Splits = {name: partial(split_ratings, by=name) for name in RATING_SPLITS}
_USUAL = {"test_targets": "first", "repeats": "drop"}        # what is ranked, unless options or a run say otherwise


class OfInteractions(Measure):
    """What the measures of recommenders share."""

    ratings: bool            # does the model read ratings?
    notes: str               # the meaning of the numbers that `compare` prints

    queried_by, sources = "recommend", Source

    def add_data(self, command: Any) -> None:
        add_data(command, "a file of interactions, .gz as well; `tinyattn data --help` lists the formats")
        add_world(command)

    def read(self, options: argparse.Namespace) -> tuple[Source, Interactions, Truth | None]:
        """Raises ValueError for data of a single user, and for several ranks that read standard input."""
        if STDIN in self.source(options).paths:
            if ranks().size > 1:
                raise ValueError("standard input reaches a single process of mpiexec: expected DATA in files")
            print("note: standard input cannot be read again: `evaluate RUN DATA` and `recommend RUN DATA` "
                  "need these rows in a file", file=sys.stderr)  # fmt: skip
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
        return data.fingerprint(timed=split.startswith("time"))

    def split(self, data: Interactions, options: argparse.Namespace) -> Any:
        return as_requested(self.splits[options.split](data), options, {})

    def split_again(self, data: Interactions, model: Recommender, name: str, is_training_data: bool) -> Any:
        """Raises ValueError naming an item that the model does not know."""
        return self.splits[name](data.in_numbers_of(model.items))

    def compare(self, folders: Sequence[str], models: Sequence[Any], on: Evaluation) -> None:
        """Print the metrics of several runs, and their differences to the first."""
        raise NotImplementedError


class Ranking(OfInteractions):
    """HR, NDCG and MRR of the next item."""

    does, ratings, notes = "ranks items", False, RANKING_NOTES
    splits: Splits = SPLITS
    parts = PROTOCOLS
    rows = staticmethod(metric_rows)
    print = staticmethod(print_table)
    compare = staticmethod(compare_rankings)

    def add_data(self, command: Any) -> None:
        super().add_data(command)
        text = "a finished run to start from, with its options, and its embeddings of items and users that are in DATA"
        command.add_argument("--start", metavar="RUN", help=text)
        text = "vectors of items, such as of texts or images; a linear map makes embeddings of them, also for items not"
        text += " in training: .npz with ids and vectors, or .npy with a row for each item in ascending order of ids"
        command.add_argument("--item-vectors", metavar="FILE", help=text)
        text = "with --item-vectors: add embeddings of ids to those made of vectors (default), or use the vectors alone"
        command.add_argument("--id-embeddings", action=argparse.BooleanOptionalAction, default=True, help=text)

    def read(self, options: argparse.Namespace) -> tuple[Source, Interactions, Truth | None]:
        """Also reads item vectors. Raises ValueError for vectors that do not fit the data."""
        source, data, truth = super().read(options)
        if options.item_vectors is not None:
            options.vectors = ItemVectors.read(options.item_vectors, data.items)
            if truth is not None and options.vectors.joined(data) is not data:
                raise ValueError(f"{options.item_vectors} has ids that are no items of {source.title}")
        return source, data, truth

    def split(self, data: Interactions, options: argparse.Namespace) -> Any:
        return super().split(data if options.item_vectors is None else options.vectors.joined(data), options)

    def known_options(self, options: argparse.Namespace) -> dict[str, Any]:
        """The options of the run of --start.

        Raises ValueError if that run or the model is not trained by steps, or if the model takes no item vectors.
        """
        takes = [name for name, kind in MODELS.items() if getattr(kind, "takes_vectors", False)]
        if options.item_vectors is not None and options.model not in takes:
            raise ValueError(f"--item-vectors is for model {' or '.join(takes)}, and model is {options.model}")
        if options.item_vectors is None and not options.id_embeddings:
            raise ValueError("--no-id-embeddings goes with --item-vectors FILE")
        if options.start is None:
            return super().known_options(options)
        if options.item_vectors is not None:
            raise ValueError("--start and --item-vectors: a finished run has no adapter to go on from; leave out one")
        start = start_of(options)
        if options.preset is not None or start.name != options.model:
            other = f"--preset {options.preset}" if options.preset is not None else f"--model {options.model}"
            raise ValueError(f"--start {options.start} is a run of model {start.name}, with options: leave out {other}")
        return start.identity()

    def kept_rows(self, options: argparse.Namespace, train: Interactions) -> str:
        if options.item_vectors is not None:
            return self._vectors_of(options, train)
        if options.start is None:
            return ""
        start = start_of(options)
        items, users = known_ids(start, train.items, train.users)
        kept = [f"{items:,} of {len(train.items):,} items"] + [f"{users:,} of {len(train.users):,} users"] * (users > 0)
        why = lost_moments(start, getattr(options, "optimizer", start.optimizer))
        fresh = f"; the optimizer begins afresh: {why}" if why else ""
        return f"starting from {options.start}: {' and '.join(kept)} keep their rows{fresh}"

    def _vectors_of(self, options: argparse.Namespace, train: Interactions) -> str:
        """How many items have a vector, and how many can be recommended by it alone."""
        occur = np.zeros(len(train.items) + 1, dtype=bool)
        occur[train.flat] = True
        none = ~np.isin(np.arange(1, len(occur)), options.vectors.numbers(train.items))
        counts = f"{np.sum(occur[1:] & none):,} of {np.sum(occur):,} items of training have none"
        return f"vectors of {options.item_vectors}: {counts}, and {np.sum(~occur[1:] & ~none):,} other items have one"

    def fitting(self, options: argparse.Namespace) -> dict[str, Any]:
        if options.item_vectors is not None:
            return {"item_vectors": options.vectors, "id_embeddings": options.id_embeddings}
        return {} if options.start is None else {"start": start_of(options)}

    def add(self, command: Any) -> None:
        text = "the test items: each user's last item, or, where DATA has times, each user's first item after "
        text += "the moment by which 90 percent of all interactions had happened; time:SHARE and time:DATE name another"
        text += " moment, and time:SHARE..SHARE and time:DATE..DATE a window (default: leave-one-out)"
        group = add_evaluation(command)
        group.add_argument("--split", type=_split, default="leave-one-out", metavar="NAME", help=text)
        text = "with a split by time: N windows after its moment; for each, a model is trained on what precedes it"
        group.add_argument("--folds", type=int, metavar="N", help=text)

    def fill_options(self, options: argparse.Namespace, model: str) -> None:
        """Raises ValueError for --negatives that is a file or has no sampled protocol, and for --folds without time."""
        if getattr(options, "folds", None) is not None:
            refuse_folds(options.split, options.folds)
        for name, value in RANKING.items():
            setattr(options, name, getattr(options, name, value))
        folder = options.negatives
        if folder is not None and set(options.protocols) == {"full"}:
            sampled = " or ".join(PROTOCOLS[1:])
            raise ValueError(f"--negatives {folder} is for {sampled}, and --protocols full takes none")
        if folder is not None and Path(folder).exists() and not Path(folder).is_dir():
            raise ValueError(f"--negatives {folder} is a file, expected a folder")

    def settings(self, options: argparse.Namespace) -> dict[str, Any]:
        kept = {name: getattr(options, name) for name in ("protocols", "baselines", "split")}
        more = {name: getattr(options, name) for name in ("negatives", *_USUAL)}
        more = {name: value for name, value in more.items() if value not in (None, _USUAL.get(name))}
        if options.item_vectors is not None:    # the digest shows a changed file
            beside = "" if options.id_embeddings else ", no id embeddings"
            more["item_vectors"] = f"{Path(options.item_vectors).resolve()} (read: {options.vectors.digest()}{beside})"
        if options.start is not None:           # the digest shows that the folder has another model
            more["start"] = f"{Path(options.start).resolve()} (learned: {start_of(options).digest()})"
        return {"at": list(options.at)} | kept | more

    def prepare(self, split: Split, options: argparse.Namespace) -> dict[str, np.ndarray]:
        """Raises ValueError for a sampled protocol with all targets, or with repeats."""
        flag = "--targets all" if split.targets == "all" else "--repeats keep" if split.repeats == "keep" else ""
        if flag and set(options.protocols) != {"full"}:
            raise ValueError(f"{flag} is for full ranking, and protocols are {', '.join(options.protocols)}")
        candidates = candidates_for(split, options.protocols, options.negatives)
        if "uni100" in candidates and (fewest := np.min(split.candidates) - 1) < 100:
            draws = f"uni100 draws 100 items for each user, and a user has as few as {fewest} new ones"
            print(f"note: {draws}: many are drawn several times; --protocols full ranks each once", file=sys.stderr)
        return candidates

    def validated(self, model: Any, split: Split) -> float | None:
        best = super().validated(model, split)
        return full_ranking(model, split, "valid")[model.criterion] if best is None else best

    def draw(self, folder: RunFolder, model: Any, on: Evaluation, rows: Any, title: str) -> None:
        from ...show import draw_run

        protocol = next(iter(rows["model"]))
        ordered = {name: rows[name][protocol] for name in ROWS if name in rows}
        draw_run(folder.figures, model, on.split, ordered, on.options.at, title)


def as_requested(split: Any, options: argparse.Namespace, measured: dict[str, Any]) -> Any:
    """The split with the targets and candidates of the command line, or else with those of the run."""
    if not isinstance(split, Split):
        return split
    chosen = (getattr(options, name, None) or measured.get(name, usual) for name, usual in _USUAL.items())
    return split.measured(*chosen)


def start_of(options: argparse.Namespace) -> NeuralRecommender:
    """The model of --start, read once. FileError for a run that has not finished, ValueError for another kind."""
    if not hasattr(options, "started"):
        model, _ = open_kind(options.start, Recommender)
        if not isinstance(model, NeuralRecommender):
            raise ValueError(f"--start {options.start}: model {model.name} has no steps that others could follow: "
                             "train it on all of the data")  # fmt: skip
        options.started = RunFolder(options.start).open_to_continue(type(model))
    started: NeuralRecommender = options.started
    return started


def _split(name: str) -> str:
    """A type for argparse: a key of SPLITS."""
    if name not in SPLITS:
        windows = "time:SHARE, time:DATE, or a window of two with .. between"
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(SPLITS)}, {windows}")
    return name


class Ratings(OfInteractions):
    """RMSE and MAE of predicted ratings, beside the mean rating and damped biases."""

    does, ratings, notes = "predicts ratings", True, RATING_NOTES
    splits: Splits = SPLITS_OF_RATINGS
    parts, heading, loss_unit = ("ratings",), RATED, "half of squares"
    compare = staticmethod(compare_ratings)

    def add(self, command: Any) -> None:
        text = "the test ratings, a tenth: each user's newest, the newest of all, or a random tenth"
        group = command.add_argument_group("evaluation")
        group.add_argument("--split", choices=RATING_SPLITS, default="user", help=f"{text} (default: user)")

    def settings(self, options: argparse.Namespace) -> dict[str, Any]:
        return {"split": options.split}

    def rows(self, model: Any, on: Evaluation) -> dict[str, Any]:
        train, test = on.split.train, on.split.test
        rows = {name: rating_errors(make(train)(test), test.ratings) for name, make in RATING_BASELINES.items()}
        return {name: {"ratings": row} for name, row in (rows | {"model": model.evaluate(on.split)}).items()}

