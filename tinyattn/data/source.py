"""Where interactions come from: a file, or a generated world, whose truth is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..options import one_of
from .interactions import Interactions
from .read import read
from .worlds import WORLDS, World

DEFAULT = "series"
Truth = Callable[[list[np.ndarray]], np.ndarray]      # P(next item | history), (len(histories), n_items + 1)


@dataclass(frozen=True)
class Source:
    """A file, or a world; `reading` holds format, columns, ratings and k_core, where they were given."""

    path: Path | None
    world: World | None
    reading: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str | None, world: str | None = None, **reading: Any) -> Source:
        """The file at `path`, or the world of this name, by default `series`. Raises ValueError for what goes with
        neither: both, an unknown world, or `reading` without a file."""
        reading = {name: value for name, value in reading.items() if value is not None}
        if path is None and reading.get("ratings"):
            raise ValueError("a generated world has no ratings: expected DATA with columns of ratings and of times")
        if path is not None and world is not None:
            raise ValueError(f"DATA is {path} and --world {world}, expected one of them")
        if path is None:
            if reading:
                raise ValueError(f"--{min(reading).replace('_', '-')} is for a file of interactions, and none is given")
            if world is not None and world not in WORLDS:
                raise ValueError(f"--world is {world!r}, expected {one_of(WORLDS, world)}")
            return cls(None, WORLDS[world or DEFAULT]())
        return cls(Path(path), None, reading)

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> Source:
        """From what `describe` returns. Raises KeyError, TypeError or ValueError where it is something else."""
        if "world" in data:
            settings = dict(data["world"])                   # older files have no name: there was one world
            return cls(None, WORLDS[settings.pop("name", DEFAULT)](**settings))
        reading = dict(data.get("reading", {}))
        kinds = {"format": str, "columns": str, "k_core": int, "ratings": bool}
        if any(type(value) is not kinds.get(name) for name, value in reading.items()):
            raise TypeError(f"reading is {reading}")
        return cls(Path(data["path"]), None, reading)

    @property
    def name(self) -> str:
        """Short, for the name of a folder."""
        if self.world is not None:
            return self.world.name
        assert self.path is not None
        name = self.path.name
        for suffix in (".gz", ".txt", ".inter", ".csv", ".tsv", ".json", ".dat", ".data"):
            name = name.removesuffix(suffix)
        return name or "data"

    @property
    def title(self) -> str:
        """For people to read."""
        return f"the world {self.world.title}" if self.world else str(self.path)

    def describe(self) -> dict[str, Any]:
        """All that `from_config` needs, as JSON."""
        if self.path is not None:
            return {"path": str(self.path.resolve()), "reading": self.reading}
        assert self.world is not None
        return {"world": {"name": self.world.name, **asdict(self.world)}}

    def load(self) -> tuple[Interactions, Truth | None]:
        """The interactions, and the true distribution of what follows a history, where it is known."""
        if self.path is not None:
            how = dict(self.reading)
            k = how.pop("k_core", None)
            data = read(self.path, **how)
            return (data.k_core(k) if k is not None else data), None
        assert self.world is not None
        return self.world.generate(), self.world.next_item
