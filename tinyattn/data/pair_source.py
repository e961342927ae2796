"""Where pairs of strings come from: a file, or a task that draws them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .pairs import Pairs, read_pairs
from .sources import AnySource
from .tasks import TASKS, Task


@dataclass(frozen=True)
class PairSource(AnySource):
    """A file of pairs, or a task."""

    path: Path | None
    task: Task | None

    made_as, key, table, flags, noun, nameless = "task", "task", TASKS, ("--pairs", "--task"), "the task ", "pairs"

    def load(self) -> Pairs:
        if self.task is not None:
            return self.task.generate()
        assert self.path is not None
        return read_pairs(self.path)
