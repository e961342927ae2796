"""What a kind of model is measured by: how its data is read and split, and which table is printed. A line a kind."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..data import (
    IMAGE_SETS,
    RATING_SPLITS,
    SEQUENCE_TASKS,
    SPLITS,
    TASKS,
    GrammarChain,
    Images,
    ImageSource,
    Interactions,
    Pairs,
    PairSource,
    Parts,
    RatingSplit,
    SequencePart,
    SequenceTaskSource,
    Source,
    Split,
    Text,
    TextSource,
    Truth,
    split_ratings,
)
from ..evaluation import RATING_BASELINES, candidates_for, rating_errors
from ..models import Estimator, ImageModel, Recommender, RunFolder, distances_by_head
from .arguments import RANKING, READING, add_data, add_evaluation, add_world, source_of
from .comparisons import RANKING_NOTES, RATING_NOTES, compare_rankings, compare_ratings
from .tables import RATED, ROWS, metric_rows, print_distances, print_means, print_table

Splits = Mapping[str, Callable[[Any], Any]]     # name -> what is learned from, chosen by, and measured on
TENTHS: Splits = {"tenths": lambda data: data.split()}
SPLITS_OF_RATINGS: Splits = {name: partial(split_ratings, by=name) for name in RATING_SPLITS}
LOOKED_AT = 100          # images over which the distances of attention are means


class Measure(Protocol):
    """`Estimator.table` names a model's."""

    does: str                # what its models do: "model NAME ..."
    asked_by: str            # the command that asks its models, of COMMANDS
    sources: Any             # the class of its sources, which has `from_config`
    splits: Splits           # how config.json names a split, and the split

    def add_data(self, command: Any) -> None:
        """The flags that say which data."""

    def add(self, command: Any) -> None:
        """The flags of its evaluation."""

    def settle(self, options: argparse.Namespace, model: str) -> None:
        """Set what was not given of the evaluation. Raises ValueError for what was given and is not of this kind."""

    def read(self, options: argparse.Namespace) -> tuple[Any, Any, Truth | None]:
        """-> the source, which has a `name`, a `title` and `describe`; its data, which have `sizes` and a
        `fingerprint`; and their truth, where it is known."""

    def named(self, options: argparse.Namespace) -> Any:
        """The source that DATA of `evaluate` names. Raises ValueError for flags that cannot go with it."""

    def load(self, source: Any) -> tuple[Any, Truth | None]:
        """The data of a source, and their truth, where it is known."""

    def split(self, data: Any, options: argparse.Namespace) -> Any:
        """What the model learns from (`train`), chooses its epoch by, and is measured on (`tested`, in words)."""

    def split_again(self, data: Any, model: Any, name: str, is_its_own: bool) -> Any:
        """Data, the run's own or others, for a trained model to be measured on, split by the one of `splits`."""

    def said(self, options: argparse.Namespace) -> dict[str, Any]:
        """What config.json keeps of the evaluation."""

    def prepare(self, split: Any, options: argparse.Namespace) -> Any:
        """What `rows` needs and can be refused before training."""

    def rows(
        self, model: Any, split: Any, options: argparse.Namespace, source: Any, truth: Truth | None, prepared: Any
    ) -> dict[str, Any]:
        """{row: {protocol: {metric: value}}}, the model's row being "model"."""

    def print(self, metrics: dict[str, Any], model: Any, expected: bool) -> None:
        """The table."""

    def draw(
        self, folder: RunFolder, model: Any, split: Any, rows: Any, options: argparse.Namespace, title: str
    ) -> None:
        """The pictures of a run."""


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
        source = self.named(options)
        data, truth = self.load(source)
        if data.n_users < 2:
            raise ValueError(f"{source.title} has a single user: there is nothing to learn from others")
        return source, data, truth

    def named(self, options: argparse.Namespace) -> Source:
        return source_of(options, self.ratings)

    def load(self, source: Source) -> tuple[Interactions, Truth | None]:
        return source.load()

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


class Ratings(OfInteractions):
    """RMSE and MAE of predicted ratings, beside the mean rating and damped biases."""

    does, ratings, notes = "predicts ratings", True, RATING_NOTES
    splits: Splits = SPLITS_OF_RATINGS

    def add(self, command: Any) -> None:
        text = "what is predicted, a tenth of the ratings: each user's newest, the newest of all, or a random tenth"
        group = command.add_argument_group("evaluation")
        group.add_argument("--split", choices=RATING_SPLITS, default="user", help=f"{text} (default: user)")

    def settle(self, options: argparse.Namespace, model: str) -> None:
        _refuse_ranking(options, model, self)

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
        from ..show import save, training_curves

        curves = training_curves(model.history, title, "half of squares", model.criterion.upper(), "validation")
        save(curves, folder.figures / "training.png")


class InTenths(Measure):
    """What measures share of models whose data has three parts: a tenth validates, a tenth is tested on.

    Of other data all is tested: the model has learned from none of it.
    """

    splits: Splits = TENTHS

    def add(self, command: Any) -> None:
        return None

    def settle(self, options: argparse.Namespace, model: str) -> None:
        _refuse_ranking(options, model, self)

    def named(self, options: argparse.Namespace) -> Any:
        given = ", ".join(f"--{name.replace('_', '-')}" for name in READING if getattr(options, name) is not None)
        if given:
            raise ValueError(f"{given}: for a file of interactions, and this model {self.does}")
        return self.sources.of(options.data)

    def load(self, source: Any) -> tuple[Any, Truth | None]:
        return source.load(), None

    def split(self, data: Any, options: argparse.Namespace) -> Parts:
        return self.split_again(data, None, "tenths", True)

    def split_again(self, data: Any, model: Any, name: str, is_its_own: bool) -> Parts:
        parts: Parts = self.splits[name](data) if is_its_own else Parts(None, test=data)
        return parts

    def said(self, options: argparse.Namespace) -> dict[str, Any]:
        return {"split": "tenths"}

    def prepare(self, split: Parts, options: argparse.Namespace) -> None:
        return None

    def rows(
        self, model: Any, split: Parts, options: argparse.Namespace, source: Any, truth: Truth | None, prepared: None
    ) -> dict[str, Any]:
        return {"model": {"test": model.evaluate(split.test)}}


class OfPairs(InTenths):
    """How many strings a model writes as they should be, of those that it has not seen."""

    does, asked_by, sources = "writes strings", "translate", PairSource

    def add_data(self, command: Any) -> None:
        group = command.add_argument_group("data")
        text = f"pairs that are generated, of {', '.join(TASKS)} (default, without --pairs: dates)"
        group.add_argument("--task", metavar="NAME", help=text)
        text = "pairs from a text file, a line each: a string, a TAB, and what it becomes"
        group.add_argument("--pairs", metavar="FILE", help=text)

    def read(self, options: argparse.Namespace) -> tuple[PairSource, Pairs, None]:
        source = PairSource.of(options.pairs, options.task)
        return source, source.load(), None

    def print(self, metrics: dict[str, Any], model: Any, expected: bool) -> None:
        print_means("tested strings, written from their sources alone", metrics, "test", model)

    def draw(
        self, folder: RunFolder, model: Any, split: Parts, rows: Any, options: argparse.Namespace, title: str
    ) -> None:
        from ..show import alignment_map, save, training_curves

        save(training_curves(model.history, title, criterion="exact", of="validation"), folder.figures / "training.png")
        source = split.test.sources[0]
        target = model.translate(source)
        picture = alignment_map(model.alignment(source, target), source, target, f"{title}: who looks at whom")
        save(picture, folder.figures / "alignment.png")


class OfText(InTenths):
    """How unlikely a model finds each token of a text that it has not seen, given those before it."""

    does, asked_by, sources = "continues texts", "generate", TextSource

    def add_data(self, command: Any) -> None:
        group = command.add_argument_group("data")
        text = "a text file, .gz as well (default: sentences of a generated grammar, whose entropy is known)"
        group.add_argument("--text", metavar="FILE", help=text)

    def read(self, options: argparse.Namespace) -> tuple[TextSource, Text, None]:
        source = TextSource.of(options.text)
        return source, source.load(), None

    def rows(
        self,
        model: Any,
        split: Parts,
        options: argparse.Namespace,
        source: TextSource,
        truth: Truth | None,
        prepared: None,
    ) -> dict[str, Any]:
        known = {} if source.entropy is None else {"entropy": {"test": {"nats": source.entropy}}}
        return {"model": {"test": {"nats": model.evaluate(split.test)["per_character"]}}} | known

    def print(self, metrics: dict[str, Any], model: Any, expected: bool) -> None:
        print_means("the loss on the tested text, a character", metrics, "test", model)

    def draw(
        self, folder: RunFolder, model: Any, split: Parts, rows: Any, options: argparse.Namespace, title: str
    ) -> None:
        from ..show import save, training_curves

        curves = training_curves(model.history, title, "nats a token", "-LOSS", "validation")
        save(curves, folder.figures / "training.png")


class OfMaskedText(OfText):
    """How unlikely a model finds hidden tokens of a text that it has not seen, given those on both sides."""

    does, asked_by = "fills gaps in texts", "fill"

    def rows(
        self,
        model: Any,
        split: Parts,
        options: argparse.Namespace,
        source: TextSource,
        truth: Truth | None,
        prepared: None,
    ) -> dict[str, Any]:
        """Beside the model, where the grammar is known, what it says of the same tokens: nothing can be better."""
        found = {"model": {"test": {"nats": model.evaluate(split.test)["loss"]}}}
        if source.entropy is None:
            return found
        known = model.tokens.strings
        best = GrammarChain.of_rules().loss(model.asked(split.test), known, model.masking)
        return found | {"grammar": {"test": {"nats": best}}}

    def print(self, metrics: dict[str, Any], model: Any, expected: bool) -> None:
        print_means("the loss on the test part, a character that is asked for", metrics, "test", model)


class OfImages(InTenths):
    """How many images of the test part a model calls by their label."""

    does, asked_by, sources = "classifies images", "classify", ImageSource

    def add_data(self, command: Any) -> None:
        group = command.add_argument_group("data")
        text = f"a set of images with labels, of {', '.join(IMAGE_SETS)} (default, without --images: shapes)"
        group.add_argument("--image-set", metavar="NAME", help=text)
        text = "a NumPy .npz file with the arrays images (N, height, width[, channels]) and labels (N,)"
        group.add_argument("--images", metavar="FILE", help=text)
        text = "the run of a model of images, whose answers --distil learns (or an array `teacher` of FILE has them)"
        group.add_argument("--teacher", metavar="RUN", help=text)

    def read(self, options: argparse.Namespace) -> tuple[ImageSource, Images, Truth | None]:
        """Raises ValueError for a teacher whose answers are not asked for."""
        source = replace(ImageSource.of(options.images, options.image_set), teacher=options.teacher)
        if options.teacher is not None and not getattr(options, "distil", False):
            raise ValueError(f"--teacher is {options.teacher}, and only a model with --distil learns its answers")
        return source, *self.load(source)

    def load(self, source: ImageSource) -> tuple[Images, Truth | None]:
        """With the answers of the source's teacher, where it has one."""
        if source.teacher is None:
            return source.load(), None
        teacher, _ = open_kind(source.teacher, ImageModel)
        data = source.load()
        return replace(data, teacher=teacher.classify(data)), None

    def rows(
        self, model: Any, split: Parts, options: argparse.Namespace, source: Any, truth: Truth | None, prepared: None
    ) -> dict[str, Any]:
        """The measure, and beside it, block by block, how far heads look: are the lower ones local?"""
        return {"model": {"test": model.evaluate(split.test)} | distances_by_head(model, split.test[:LOOKED_AT])}

    def print(self, metrics: dict[str, Any], model: Any, expected: bool) -> None:
        print_means("tested images, called by their label", metrics, "test", model)
        distances = {name: row for name, row in metrics["model"].items() if name != "test"}
        if distances:                                        # runs of older versions have none
            print_distances(distances)

    def draw(
        self, folder: RunFolder, model: Any, split: Parts, rows: Any, options: argparse.Namespace, title: str
    ) -> None:
        from ..show import LOOKS, save, training_curves

        curves = training_curves(model.history, title, criterion=model.criterion, of="validation")
        save(curves, folder.figures / "training.png")
        for name in ("distances", "field"):
            save(LOOKS[name](model, split.test, title), folder.figures / f"{name}.png")


class OfSequenceTasks(InTenths):
    """How many answers of a model are right, of sequences that it has not seen."""

    does, asked_by, sources = "answers questions about sequences", "evaluate", SequenceTaskSource

    def add_data(self, command: Any) -> None:
        group = command.add_argument_group("data")
        text = f"sequences that are generated, of {', '.join(SEQUENCE_TASKS)} (default: recall)"
        group.add_argument("--task", metavar="NAME", help=text)
        group.add_argument("--length", type=int, metavar="N", help="tokens of a sequence (default: 64)")

    def read(self, options: argparse.Namespace) -> tuple[SequenceTaskSource, SequencePart, None]:
        given = {} if options.length is None else {"length": options.length}
        source = SequenceTaskSource.of(options.task, **given)
        return source, source.load(), None

    def named(self, options: argparse.Namespace) -> SequenceTaskSource:
        raise ValueError(f"DATA is {options.data}, and model tagger is measured on its own task: expected none")

    def rows(
        self,
        model: Any,
        split: Parts,
        options: argparse.Namespace,
        source: SequenceTaskSource,
        truth: Truth | None,
        prepared: None,
    ) -> dict[str, Any]:
        """The model, and, where its positions go so far, the same on sequences twice as long."""
        task = split.test.task
        longer = replace(task, length=2 * task.length)
        found = {"longer": {"test": model.evaluate(longer)}} if model.reads(longer.length) else {}
        return super().rows(model, split, options, source, truth, prepared) | found

    def print(self, metrics: dict[str, Any], model: Any, expected: bool) -> None:
        print_means("answers about tested sequences; longer ones have twice as many tokens", metrics, "test", model)

    def draw(
        self, folder: RunFolder, model: Any, split: Parts, rows: Any, options: argparse.Namespace, title: str
    ) -> None:
        from ..show import save, training_curves

        curves = training_curves(model.history, title, criterion=model.criterion, of="validation")
        save(curves, folder.figures / "training.png")


OF_INTERACTIONS: dict[str, OfInteractions] = {"ranking": Ranking(), "ratings": Ratings()}      # of recommenders
MEASURES: dict[str, Measure] = {
    **OF_INTERACTIONS, "pairs": OfPairs(), "text": OfText(), "masked text": OfMaskedText(),
    "images": OfImages(), "sequence tasks": OfSequenceTasks(),
}  # fmt: skip


def open_kind(folder: str | Path, kind: type[Estimator], device: str = "cpu") -> tuple[Any, dict[str, Any]]:
    """The model of a finished run, and its configuration.

    Raises FileError as `RunFolder.open`, and ValueError, which names the right command, for a model of another kind.
    """
    model, config = RunFolder(folder).open(Estimator, device=device)
    if not isinstance(model, kind):
        measure = MEASURES[model.table]
        raise ValueError(
            f"{folder} is of model {model.name}, which {measure.does}: `tinyattn {measure.asked_by}` asks it, and "
            "`tinyattn evaluate` measures it"
        )
    return model, config


def in_the_models_ids(data: Interactions, model: Recommender) -> Interactions:
    """The same interactions in the model's item numbers. ValueError names an item it does not know."""
    assert model.items is not None
    if np.array_equal(data.items.ids, model.items.ids):
        return data
    flat = model.items.numbers(data.items.ids.tolist())[data.flat - 1].astype(np.int32)
    return replace(data, flat=flat, items=model.items)


def _refuse_ranking(options: argparse.Namespace, model: str, measure: Measure) -> None:
    """Raise ValueError for flags of an evaluation of ranked items."""
    given = ", ".join(f"--{name}" for name in RANKING if hasattr(options, name))
    if given:
        raise ValueError(f"{given}: for a model that {Ranking.does}, and model {model} {measure.does}")
