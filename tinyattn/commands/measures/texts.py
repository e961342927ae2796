"""Models that write on where a text ends, and models that fill its gaps."""

from __future__ import annotations

import argparse
from typing import Any

from ...data import GrammarChain, Parts, TextSource, Truth
from ...models import RunFolder
from ..tables import print_means
from .measure import InTenths


class OfText(InTenths):
    """How unlikely a model finds each token of a text that it has not seen, given those before it."""

    does, asked_by, sources = "continues texts", "generate", TextSource

    def add_data(self, command: Any) -> None:
        group = command.add_argument_group("data")
        text = "a text file, .gz as well (default: sentences of a generated grammar, whose entropy is known)"
        group.add_argument("--text", metavar="FILE", help=text)

    def source(self, options: argparse.Namespace) -> TextSource:
        return TextSource.of(options.text)

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
        from ...show import save, training_curves

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
        print_means("the loss on the test part, a character that is to be predicted", metrics, "test", model)
