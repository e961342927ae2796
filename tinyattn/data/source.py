"""Where interactions come from: a file, or a generated world with a known distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from .interactions import Interactions
from .read import read
from .sources import AnySource
from .worlds import WORLDS, World

Truth = Callable[[list[np.ndarray]], np.ndarray]      # P(next item | history), (len(histories), n_items + 1)


@dataclass(frozen=True)
class Source(AnySource):
    """A file, or a world; `reading` holds format, columns, ratings and k_core, where they were given."""

    path: Path | None
    world: World | None
    reading: dict[str, Any] = field(default_factory=dict)

    made_as, key, table, flags, noun, nameless = "world", "world", WORLDS, ("DATA", "--world"), "the world ", "data"

    @classmethod
    def of(cls, path: str | None, world: str | None = None, **reading: Any) -> Self:  # type: ignore[override]
        """The file at `path`, or the world of this name, by default `series`.

        Raises ValueError for both, an unknown world, or `reading` without a file.
        """
        reading = {name: value for name, value in reading.items() if value is not None}
        if path is None and reading.get("ratings"):
            raise ValueError("a generated world has no ratings: expected DATA with columns of ratings and of times")
        if path is None and reading:
            raise ValueError(f"--{min(reading).replace('_', '-')} is for a file of interactions, and none is given")
        return replace(super().of(path, world), reading=reading)

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> Self:
        if "world" in data:                              # in older files worlds have no name, and all are series
            data = {"world": {"name": "series", **data["world"]}}
        reading = dict(data.get("reading", {}))
        kinds = {"format": str, "columns": str, "k_core": int, "ratings": bool}
        if any(type(value) is not kinds.get(name) for name, value in reading.items()):
            raise TypeError(f"reading is {reading}")
        return replace(super().from_config(data), reading=reading)

    @property
    def name(self) -> str:
        if self.path is None:
            return super().name
        name = self.path.name
        for suffix in (".gz", ".txt", ".inter", ".csv", ".tsv", ".json", ".dat", ".data"):
            name = name.removesuffix(suffix)
        return name or self.nameless

    def describe(self) -> dict[str, Any]:
        return super().describe() | ({"reading": self.reading} if self.path else {})

    def load(self) -> tuple[Interactions, Truth | None]:
        """The interactions, and the true distribution of the next item, where it is known."""
        if self.world is not None:
            return self.world.generate(), self.world.next_item
        assert self.path is not None
        settings = dict(self.reading)
        k = settings.pop("k_core", None)
        data = read(self.path, **settings)
        return (data if k is None else data.k_core(k)), None
