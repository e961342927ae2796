"""What every kind of data must say to be trained on, and what data share whose parts are tenths."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ...data import Parts, Truth
from ...models import Estimator, RunFolder
from ..arguments import RANKING, reading_given

Splits = Mapping[str, Callable[[Any], Any]]     # name -> what is learned from, chosen by, and measured on
TENTHS: Splits = {"tenths": lambda data: data.split()}


class Measure(Protocol):
    """`Estimator.table` names a model's."""

    does: str                # what its models do: "model NAME ..."
    asked_by: str            # the command that asks its models, of COMMANDS; "" where only `evaluate` does
    sources: Any             # the class of its sources, which has `from_config`
    splits: Splits           # how config.json names a split, and the split
    parts: Sequence[str]     # what metrics are of, one of these at least

    def add_data(self, command: Any) -> None:
        """The flags that say which data."""

    def add(self, command: Any) -> None:
        """The flags of its evaluation."""

    def fill_options(self, options: argparse.Namespace, model: str) -> None:
        """Set what was not given of the evaluation. Raises ValueError for what was given and is not of this kind."""

    def source(self, options: argparse.Namespace) -> Any:
        """The source that `train` is to read, which has a `name`, a `title` and `describe`; nothing is read.

        Raises ValueError for flags that do not go together."""

    def read(self, options: argparse.Namespace) -> tuple[Any, Any, Truth | None]:
        """-> the source; its data, which have `sizes` and a `fingerprint`; and their truth, where it is known."""
        source = self.source(options)
        return source, *self.load(source)

    def fingerprint(self, data: Any, split: str) -> str:
        """Of all that this split of the data depends on."""
        found: str = data.fingerprint()
        return found

    def fitting(self, options: argparse.Namespace) -> dict[str, Any]:
        """Further arguments of `fit`, by name."""
        return {}

    def named(self, options: argparse.Namespace) -> Any:
        """The source that DATA of `evaluate` names. Raises ValueError for flags that cannot go with it."""

    def load(self, source: Any) -> tuple[Any, Truth | None]:
        """The data of a source, and their truth, where it is known."""

    def split(self, data: Any, options: argparse.Namespace) -> Any:
        """What the model learns from (`train`), chooses its epoch by, and is measured on (`tested`, in words)."""

    def split_again(self, data: Any, model: Any, name: str, is_its_own: bool) -> Any:
        """Data, the run's own or others, for a trained model to be measured on, split by the one of `splits`."""

    def settings(self, options: argparse.Namespace) -> dict[str, Any]:
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


class InTenths(Measure):
    """What measures share of models whose data has three parts: a tenth validates, a tenth is tested on.

    Of other data all is tested: the model has learned from none of it.
    """

    splits: Splits = TENTHS
    parts = ("test",)

    def add(self, command: Any) -> None:
        return None

    def fill_options(self, options: argparse.Namespace, model: str) -> None:
        refuse_ranking(options, model, self)

    def named(self, options: argparse.Namespace) -> Any:
        given = reading_given(options)
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

    def settings(self, options: argparse.Namespace) -> dict[str, Any]:
        return {"split": "tenths"}

    def prepare(self, split: Parts, options: argparse.Namespace) -> None:
        return None

    def rows(
        self, model: Any, split: Parts, options: argparse.Namespace, source: Any, truth: Truth | None, prepared: None
    ) -> dict[str, Any]:
        return {"model": {"test": model.evaluate(split.test)}}

    def draw(
        self, folder: RunFolder, model: Any, split: Parts, rows: Any, options: argparse.Namespace, title: str
    ) -> None:
        from ...show import save, training_curves

        curves = training_curves(model.history, title, criterion=model.criterion, of="validation")
        save(curves, folder.figures / "training.png")


def refuse_ranking(options: argparse.Namespace, model: str, measure: Measure) -> None:
    """Raise ValueError for flags of an evaluation of ranked items."""
    given = ", ".join(f"--{name}" for name in RANKING if hasattr(options, name))
    if given:
        raise ValueError(f"{given}: for a model that ranks items, and model {model} {measure.does}")


MEASURES: dict[str, Measure] = {}        # all kinds by name: __init__.py fills them in


def open_kind(folder: str | Path, kind: type[Estimator], device: str = "cpu") -> tuple[Any, dict[str, Any]]:
    """The model of a finished run, and its configuration.

    Raises FileError as `RunFolder.open`, and ValueError, which names the right command, for a model of another kind.
    """
    model, config = RunFolder(folder).open(Estimator, device=device)
    if not isinstance(model, kind):
        measure = MEASURES[model.table]
        asked = f"`tinyattn {measure.asked_by}` asks it, and " if measure.asked_by else ""
        raise ValueError(
            f"{folder} is of model {model.name}, which {measure.does}: {asked}`tinyattn evaluate` measures it"
        )
    return model, config
