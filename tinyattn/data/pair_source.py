"""Where pairs of strings come from: a file, or a task that draws them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..options import one_of
from .pairs import Pairs, read_pairs
from .tasks import TASKS, Task

DEFAULT = "dates"


@dataclass(frozen=True)
class PairSource:
    """A file of pairs, or a task."""

    path: Path | None
    task: Task | None

    @classmethod
    def of(cls, path: str | None, task: str | None = None) -> PairSource:
        """The file at `path`, or the task of this name, by default `dates`. Raises ValueError for both, and for an
        unknown task."""
        if path is not None and task is not None:
            raise ValueError(f"--pairs is {path} and --task {task}, expected one of them")
        if path is not None:
            return cls(Path(path), None)
        if task is not None and task not in TASKS:
            raise ValueError(f"--task is {task!r}, expected {one_of(TASKS, task)}")
        return cls(None, TASKS[task or DEFAULT]())

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> PairSource:
        """From what `describe` returns. Raises KeyError, TypeError or ValueError where it is something else."""
        if "task" in data:
            settings = dict(data["task"])
            return cls(None, TASKS[settings.pop("name")](**settings))
        return cls(Path(data["path"]), None)

    @property
    def name(self) -> str:
        """Short, for the name of a folder."""
        return self.task.name if self.task else self.path.name.split(".")[0] or "pairs"  # type: ignore[union-attr]

    @property
    def title(self) -> str:
        """For people to read."""
        return f"the task {self.task.title}" if self.task else str(self.path)

    def describe(self) -> dict[str, Any]:
        """Which data these are, as JSON."""
        if self.path is not None:
            return {"path": str(self.path.resolve())}
        assert self.task is not None
        return {"task": {"name": self.task.name, **asdict(self.task)}}

    def load(self) -> Pairs:
        if self.path is not None:
            return read_pairs(self.path)
        assert self.task is not None
        return self.task.generate()
