"""The interface of a measure with what most share, and its implementation for data that is split into tenths."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...data import Parts, Truth
from ...models import MODELS, Estimator, RunFolder, preset_options
from ...options import options_of
from ..arguments import RANKING, reading_flags
from ..tables import Evaluation, print_means

Splits = Mapping[str, Callable[[Any], Any]]     # by name: data -> parts for training, validation and test
TENTHS: Splits = {"tenths": lambda data: data.split()}


class Measure(Protocol):
    """How the data of a kind of model is read and split, and its metrics; `Estimator.table` names a model's measure."""

    does: str                # what its models do: "model NAME ..."
    queried_by: str          # the command that queries its models; "" where only `evaluate` does
    sources: Any             # the class of its sources, which has `from_config`
    splits: Splits           # by the names that config.json uses
    parts: Sequence[str]     # keys of its metrics: every run has at least one of them
    heading: str = ""        # of the printed table
    loss_unit: str = "nats"  # of the training curve

    def add_data(self, command: Any) -> None:
        """Add the flags that choose the data."""

    def add(self, command: Any) -> None:
        """Add the flags of the evaluation."""
        return None

    def fill_options(self, options: argparse.Namespace, model: str) -> None:
        """Set defaults of the evaluation. Raises ValueError for flags of another measure: here, of ranked items."""
        if flags := ", ".join(f"--{name.removeprefix('test_')}" for name in RANKING if hasattr(options, name)):
            raise ValueError(f"{flags}: for a model that ranks items, and model {model} {self.does}")

    def source(self, options: argparse.Namespace) -> Any:
        """The source of `train`: `name`, `title`, `describe`; nothing is read. ValueError for conflicting flags."""

    def read(self, options: argparse.Namespace) -> tuple[Any, Any, Truth | None]:
        """-> the source; its data, with `sizes` and `fingerprint`; the true distribution, where it is known."""
        source = self.source(options)
        return source, *self.load(source)

    def fingerprint(self, data: Any, split: str) -> str:
        """The hash of all that this split of the data depends on."""
        return str(data.fingerprint())

    def known_options(self, options: argparse.Namespace) -> dict[str, Any]:
        """The options of --preset, if it is given; flags override them."""
        return preset_options(options.preset, options.model)

    def fitting(self, options: argparse.Namespace) -> dict[str, Any]:
        """Additional keyword arguments of `fit`."""
        return {}

    def kept_rows(self, options: argparse.Namespace, train: Any) -> str:
        """A line on how many rows of parameters are taken from the run of --start; "" without --start."""
        return ""

    def named(self, options: argparse.Namespace) -> Any:
        """The source that DATA of `evaluate` names. Raises ValueError for flags that do not go with it."""

    def load(self, source: Any) -> tuple[Any, Truth | None]:
        """The data of a source, and the true distribution, where it is known."""
        return source.load(), None

    def split(self, data: Any, options: argparse.Namespace) -> Any:
        """Parts to train on (`train`), to validate on, and to test on (`tested`, in words)."""

    def split_again(self, data: Any, model: Any, name: str, is_training_data: bool) -> Any:
        """Split the run's data, or other data, by `splits[name]`, to measure a trained model."""

    def settings(self, options: argparse.Namespace) -> dict[str, Any]:
        """The options of the evaluation that config.json keeps."""

    def prepare(self, split: Any, options: argparse.Namespace) -> Any:
        """Inputs of `rows` that can be invalid; they are made before training, so that errors come early."""
        return None

    def rows(self, model: Any, on: Evaluation) -> dict[str, Any]:
        """{row: {protocol: {metric: value}}}; the model's row is "model"."""

    def print(self, metrics: dict[str, Any], model: Any, on: Evaluation) -> None:
        """Print the table."""
        print_means(self.heading, metrics, self.parts[0], model)

    def draw(self, folder: RunFolder, model: Any, on: Evaluation, rows: Any, title: str) -> None:
        """Draw the pictures of a run: of its training, and perhaps others."""
        from ...show import save, training_curves

        criterion = model.criterion.upper() if model.criterion.startswith("-") else model.criterion
        curves = training_curves(model.history, title, self.loss_unit, criterion, "validation")
        save(curves, folder.figures / "training.png")

    def validated(self, model: Any, split: Any) -> float | None:
        """The model's criterion on the validation part, of the best epoch; None for a model without epochs."""
        return max((row["valid"] for row in getattr(model, "history", []) if row["valid"] is not None), default=None)


class InTenths(Measure):
    """A measure of models that train on eight tenths of their data, validate on one and are tested on one.

    Other data is tested as a whole: the model has not been trained on any of it.
    """

    splits: Splits = TENTHS
    parts = ("test",)
    starts_from: Any = None  # the class of models that --start takes; None without that flag

    def named(self, options: argparse.Namespace) -> Any:
        if flags := reading_flags(options):
            raise ValueError(f"{flags}: for a file of interactions, and this model {self.does}")
        if len(options.data) > 1:
            raise ValueError(f"DATA is {len(options.data)} files, and this model {self.does}: expected one")
        return self.sources.of(options.data[0])

    def split(self, data: Any, options: argparse.Namespace) -> Parts:
        return self.split_again(data, None, "tenths", True)

    def split_again(self, data: Any, model: Any, name: str, is_training_data: bool) -> Parts:
        parts: Parts = self.splits[name](data) if is_training_data else Parts(None, test=data)
        return parts

    def known_options(self, options: argparse.Namespace) -> dict[str, Any]:
        """The options of --preset, and those that have to be the ones of the run of --start; flags override them."""
        known, shared = super().known_options(options), getattr(MODELS[options.model], "shared", None)
        if getattr(options, "start", None) is None or shared is None:
            return known
        theirs, names = self._start(options).identity(), {o.name for o in options_of(shared)} - {"dropout"}
        return known | {name: value for name, value in theirs.items() if name in names}

    def fitting(self, options: argparse.Namespace) -> dict[str, Any]:
        return {} if getattr(options, "start", None) is None else {"start": self._start(options)}

    def settings(self, options: argparse.Namespace) -> dict[str, Any]:
        """Includes the run of --start and a digest of its parameters, as its folder may get another model."""
        if getattr(options, "start", None) is None:
            return {"split": "tenths"}
        start = f"{Path(options.start).resolve()} (learned: {self._start(options).digest()})"
        return {"split": "tenths", "start": start}

    def _start(self, options: argparse.Namespace) -> Any:
        model = open_kind(options.start, Estimator)[0]
        if not isinstance(model, self.starts_from):
            expected = self.starts_from.name
            raise ValueError(f"--start is {options.start}, of model {model.name}, expected a run of model {expected}")
        return model

    def rows(self, model: Any, on: Evaluation) -> dict[str, Any]:
        return {"model": {"test": model.evaluate(on.split.test)}}


def of_frequencies(labels: np.ndarray) -> dict[str, float]:
    """Accuracy and loss of the baseline that predicts each label by its frequency. Shapes: labels (N,)."""
    share = np.unique(labels, return_counts=True)[1] / len(labels)
    return {"accuracy": float(np.max(share)), "loss": float(np.sum(share * np.log(1 / share)))}


MEASURES: dict[str, Measure] = {}        # all kinds by name: __init__.py fills them in


def open_kind(
    folder: str | Path, kind: type[Estimator] | tuple[type[Estimator], ...], device: str = "cpu"
) -> tuple[Any, dict[str, Any]]:
    """The model of a finished run, and its configuration.

    Raises FileError as `RunFolder.open`, and ValueError, which names the right command, for a model of another kind.
    """
    model, config = RunFolder(folder).open(Estimator, device=device)
    if not isinstance(model, kind):
        measure = MEASURES[model.table]
        query = f"`tinyattn {measure.queried_by}` queries it, and " if measure.queried_by else ""
        raise ValueError(
            f"{folder} is of model {model.name}, which {measure.does}: {query}`tinyattn evaluate` measures it"
        )
    return model, config
