"""Language models, and models that fill gaps in texts."""

import argparse
from typing import Any

from ...data import GrammarChain, TextSource
from ..tables import Evaluation
from .measure import InTenths


class OfText(InTenths):
    """The loss per character of unseen text; each token is predicted from those before it."""

    does, queried_by, sources = "continues texts", "generate", TextSource
    heading, loss_unit = "the loss on the tested text, a character", "nats a token"

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
    heading = "the loss on the test part, a character that is to be predicted"

    def rows(self, model: Any, on: Evaluation) -> dict[str, Any]:
        """Adds the loss of the grammar itself on the same tokens, where it is known: the best possible loss."""
        row = {"model": {"test": {"nats": model.evaluate(on.split.test)["loss"]}}}
        if on.source.entropy is None:
            return row
        best = GrammarChain.of_rules().loss(model.evaluation_batch(on.split.test), model.tokens.strings, model.masking)
        return row | {"grammar": {"test": {"nats": best}}}
