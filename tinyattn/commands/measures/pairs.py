"""Models that write one string for another."""

from __future__ import annotations

import argparse
from typing import Any

from ...data import TASKS, PairSource, Parts
from ...models import RunFolder
from ..tables import print_means
from .measure import InTenths


class OfPairs(InTenths):
    """How many strings a model writes as they should be, of those that it has not seen."""

    does, asked_by, sources = "writes strings", "translate", PairSource

    def add_data(self, command: Any) -> None:
        group = command.add_argument_group("data")
        text = f"pairs that are generated, of {', '.join(TASKS)} (default, without --pairs: dates)"
        group.add_argument("--task", metavar="NAME", help=text)
        text = "pairs from a text file, a line each: a string, a TAB, and what it becomes"
        group.add_argument("--pairs", metavar="FILE", help=text)

    def source(self, options: argparse.Namespace) -> PairSource:
        return PairSource.of(options.pairs, options.task)

    def print(self, metrics: dict[str, Any], model: Any, expected: bool) -> None:
        print_means("tested strings, written from their sources alone", metrics, "test", model)

    def draw(
        self, folder: RunFolder, model: Any, split: Parts, rows: Any, options: argparse.Namespace, title: str
    ) -> None:
        from ...show import alignment_map, save

        super().draw(folder, model, split, rows, options, title)
        source = split.test.sources[0]
        target = model.translate(source)
        picture = alignment_map(model.alignment(source, target), source, target, f"{title}: who looks at whom")
        save(picture, folder.figures / "alignment.png")
