"""Which task a model learns: by name."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ...options import one_of
from .balance import Balance
from .copy import SelectiveCopy
from .count import Count
from .induction import Induction
from .recall import Recall
from .sequence_task import SequencePart, SequenceTask

SEQUENCE_TASKS: dict[str, type[SequenceTask]] = {
    task.name: task for task in (Recall, Induction, SelectiveCopy, Count, Balance)
}
DEFAULT = "recall"


@dataclass(frozen=True)
class SequenceTaskSource:
    """A task of sequences."""

    task: SequenceTask

    @classmethod
    def of(cls, task: str | None = None, **settings: Any) -> SequenceTaskSource:
        """The task of this name, by default `recall`, with its settings. Raises ValueError for an unknown one."""
        if task is not None and task not in SEQUENCE_TASKS:
            raise ValueError(f"--task is {task!r}, expected {one_of(SEQUENCE_TASKS, task)}")
        return cls(SEQUENCE_TASKS[task or DEFAULT](**settings))

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> SequenceTaskSource:
        """From what `describe` returns. Raises KeyError, TypeError or ValueError where it is something else."""
        settings = dict(data["task"])
        return cls(SEQUENCE_TASKS[settings.pop("name")](**settings))

    @property
    def name(self) -> str:
        """Short, for the name of a folder."""
        return self.task.name

    @property
    def title(self) -> str:
        """For people to read."""
        return f"the task {self.task.title}"

    def describe(self) -> dict[str, Any]:
        """Which data these are, as JSON."""
        return {"task": {"name": self.task.name, **asdict(self.task)}}

    def load(self) -> SequencePart:
        return self.task.generate()
