"""Models that answer what a task asks about a sequence."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from ...data import SEQUENCE_TASKS, Parts, SequenceTaskSource, Truth
from ..tables import print_means
from .measure import InTenths


class OfSequenceTasks(InTenths):
    """How many answers of a model are right, of sequences that it has not seen."""

    does, asked_by, sources = "answers questions about sequences", "", SequenceTaskSource

    def add_data(self, command: Any) -> None:
        group = command.add_argument_group("data")
        text = f"sequences that are generated, of {', '.join(SEQUENCE_TASKS)} (default: recall)"
        group.add_argument("--task", metavar="NAME", help=text)
        group.add_argument("--length", type=int, metavar="N", help="tokens of a sequence (default: 64)")

    def source(self, options: argparse.Namespace) -> SequenceTaskSource:
        given = {} if options.length is None else {"length": options.length}
        return SequenceTaskSource.of(options.task, **given)

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
