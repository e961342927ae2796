"""Which task a model learns: by name."""

from dataclasses import dataclass
from typing import Any

from ..sources import AnySource
from .balance import Balance
from .copy import SelectiveCopy
from .count import Count
from .induction import Induction
from .recall import Recall
from .sequence_task import SequencePart, SequenceTask

SEQUENCE_TASKS: dict[str, type[SequenceTask]] = {
    task.name: task for task in (Recall, Induction, SelectiveCopy, Count, Balance)
}


@dataclass(frozen=True)
class SequenceTaskSource(AnySource, made_as="task", key="task", table=SEQUENCE_TASKS, flags=("", "--task"),
                         noun="the task "):  # fmt: skip
    """A task of sequences."""

    task: SequenceTask

    path = None

    @classmethod
    def of(cls, task: str | None = None, **settings: Any) -> "SequenceTaskSource":  # type: ignore[override]
        """The task of this name, by default `recall`, with its settings. Raises ValueError for an unknown name."""
        return cls(cls.chosen(task)(**settings))

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> "SequenceTaskSource":
        return cls(cls.remade(data["task"]))

    def load(self) -> SequencePart:
        return self.task.generate()
