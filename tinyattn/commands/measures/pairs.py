"""Models that translate one string into another."""

import argparse
from typing import Any

from ...data import TASKS, PairSource
from ...models import RunFolder
from ..tables import Evaluation
from .measure import InTenths


class OfPairs(InTenths):
    """The share of unseen strings that a model translates exactly."""

    does, queried_by, sources = "writes strings", "translate", PairSource
    heading = "test strings, generated from their sources"

    def add_data(self, command: Any) -> None:
        group = command.add_argument_group("data")
        text = f"a task that generates pairs, one of {', '.join(TASKS)} (default, without --pairs: dates)"
        group.add_argument("--task", metavar="NAME", help=text)
        group.add_argument("--pairs", metavar="FILE", help="a text file, one pair per line: source, TAB, target")

    def source(self, options: argparse.Namespace) -> PairSource:
        return PairSource.of(options.pairs, options.task)

    def draw(self, folder: RunFolder, model: Any, on: Evaluation, rows: Any, title: str) -> None:
        from ...show import alignment_map, save

        super().draw(folder, model, on, rows, title)
        source = on.split.test.sources[0]
        target = model.translate(source)
        picture = alignment_map(model.alignment(source, target), source, target, f"{title}: who looks at whom")
        save(picture, folder.figures / "alignment.png")
