"""Models that answer the questions of a sequence task."""

import argparse
from dataclasses import replace
from typing import Any

from ...data import SEQUENCE_TASKS, SequenceTaskSource
from ..tables import Evaluation
from .measure import InTenths


class OfSequenceTasks(InTenths):
    """The share of right answers on unseen sequences."""

    does, queried_by, sources = "answers questions about sequences", "", SequenceTaskSource
    heading = "answers on test sequences; those of the row `longer` have twice as many tokens"

    def add_data(self, command: Any) -> None:
        group = command.add_argument_group("data")
        text = f"a task that generates sequences, one of {', '.join(SEQUENCE_TASKS)} (default: recall)"
        group.add_argument("--task", metavar="NAME", help=text)
        group.add_argument("--length", type=int, metavar="N", help="tokens per sequence (default: 64)")

    def source(self, options: argparse.Namespace) -> SequenceTaskSource:
        length = {} if options.length is None else {"length": options.length}
        return SequenceTaskSource.of(options.task, **length)

    def named(self, options: argparse.Namespace) -> SequenceTaskSource:
        raise ValueError(f"DATA is {options.data[0]}, and model tagger is measured on its own task: expected none")

    def rows(self, model: Any, on: Evaluation) -> dict[str, Any]:
        """Adds a row for sequences twice as long, where the model has positions for them."""
        task = on.split.test.task
        longer = replace(task, length=2 * task.length)
        more = {"longer": {"test": model.evaluate(longer)}} if model.reads(longer.length) else {}
        return super().rows(model, on) | more
