"""Language models, models that fill gaps in texts, and models that classify texts."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from ...data import GrammarChain, LabelledSource, TextSource
from ...evaluation import macro_f1
from ...models import Encoder
from ..tables import Evaluation
from .measure import InTenths, of_frequencies


class OfText(InTenths):
    """The loss per character of unseen text; each token is predicted from those before it."""

    does, queried_by, sources = "continues texts", "generate", TextSource
    heading, loss_unit = "loss on the test text, per character", "nats a token"

    def add_data(self, command: Any) -> None:
        group = command.add_argument_group("data")
        text = "a text file, .gz as well (default: sentences of a generated grammar, whose entropy is known)"
        group.add_argument("--text", metavar="FILE", help=text)

    def source(self, options: argparse.Namespace) -> TextSource:
        return TextSource.of(options.text)

    def rows(self, model: Any, on: Evaluation) -> dict[str, Any]:
        known = {} if on.source.entropy is None else {"entropy": {"test": {"nats": on.source.entropy}}}
        return {"model": {"test": {"nats": model.evaluate(on.split.test)["per_character"]}}} | known


class OfMaskedText(OfText):
    """The loss on hidden tokens of unseen text, predicted from both sides."""

    does, queried_by = "fills gaps in texts", "fill"
    heading = "loss on the test part, per hidden character"

    def rows(self, model: Any, on: Evaluation) -> dict[str, Any]:
        """Adds the loss of the grammar itself on the same tokens, where it is known: the best possible loss."""
        row = {"model": {"test": {"nats": model.evaluate(on.split.test)["loss"]}}}
        if on.source.entropy is None:
            return row
        best = GrammarChain.of_rules().loss(model.evaluation_batch(on.split.test), model.tokens.strings, model.masking)
        return row | {"grammar": {"test": {"nats": best}}}


class OfLabelledTexts(InTenths):
    """The share of unseen texts whose label a model predicts, and the mean of the labels' F1."""

    does, queried_by, sources = "classifies texts", "classify", LabelledSource
    heading, starts_from = "test texts classified correctly", Encoder

    def add_data(self, command: Any) -> None:
        group = command.add_argument_group("data")
        text = "a text file, one text per line: label, TAB, text (default: generated sentences, by number)"
        group.add_argument("--labels", metavar="FILE", help=text)
        text = "the run of an encoder that the classifier starts from, with its sizes and its form"
        group.add_argument("--start", metavar="RUN", help=text)

    def source(self, options: argparse.Namespace) -> LabelledSource:
        return LabelledSource(None if options.labels is None else Path(options.labels))

    def rows(self, model: Any, on: Evaluation) -> dict[str, Any]:
        """Adds the baseline "blind", which predicts each label by its frequency."""
        labels = np.array(on.split.test.targets)
        names, counts = np.unique(labels, return_counts=True)
        likeliest = np.full_like(labels, names[np.argmax(counts)])
        blind = of_frequencies(labels) | {"macro-f1": macro_f1(likeliest, labels)}
        return super().rows(model, on) | {"blind": {"test": blind}}
