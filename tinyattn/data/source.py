"""Where interactions come from: a file, or the generated world, whose truth is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .interactions import Interactions
from .read import read
from .world import SeriesWorld

Truth = Callable[[list[np.ndarray]], np.ndarray]      # P(next item | history), (len(histories), n_items + 1)


@dataclass(frozen=True)
class Source:
    """A file, or a world; `reading` holds format, columns and k_core, where they were given."""

    path: Path | None
    world: SeriesWorld | None
    reading: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str | None, **reading: Any) -> Source:
        """The file at `path`, or the default world. Raises ValueError for `reading` without a file."""
        reading = {name: value for name, value in reading.items() if value is not None}
        if path is None:
            if reading:
                raise ValueError(f"--{min(reading).replace('_', '-')} is for a file of interactions, and none is given")
            return cls(None, SeriesWorld())
        return cls(Path(path), None, reading)

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> Source:
        """What `describe` said. Raises KeyError or TypeError where it is something else."""
        if "world" in data:
            return cls(None, SeriesWorld(**data["world"]))
        reading = dict(data.get("reading", {}))
        unknown = reading.keys() - {"format", "columns", "k_core"}
        if unknown or not isinstance(reading.get("k_core", 1), int):
            raise TypeError(f"reading is {reading}")
        return cls(Path(data["path"]), None, reading)

    @property
    def name(self) -> str:
        """Short, for the name of a folder."""
        if self.path is None:
            return "series"
        name = self.path.name
        for suffix in (".gz", ".txt", ".inter", ".csv", ".tsv", ".json", ".dat", ".data"):
            name = name.removesuffix(suffix)
        return name or "data"

    @property
    def title(self) -> str:
        """For people to read."""
        return str(self.path) if self.path else "series (a generated world: people who watch several series at once)"

    def describe(self) -> dict[str, Any]:
        """All that `from_config` needs, as JSON."""
        if self.path is not None:
            return {"path": str(self.path.resolve()), "reading": self.reading}
        assert self.world is not None
        return {"world": asdict(self.world)}

    def load(self) -> tuple[Interactions, Truth | None]:
        """The interactions, and the true distribution of what follows a history, where it is known."""
        if self.path is not None:
            how = dict(self.reading)
            k = how.pop("k_core", None)
            data = read(self.path, **how)
            return (data.k_core(k) if k is not None else data), None
        assert self.world is not None
        return self.world.generate(), self.world.next_item
