"""What the sources of all kinds of data share: data comes from a file, or from a generator in a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Self

from ..options import one_of


class AnySource:
    """Base of the sources, frozen dataclasses of a file's `path`, or None, and a generator, or None."""

    path: Path | None
    made_as: ClassVar[str]                   # the field of the generator
    key: ClassVar[str]                       # the generator's key in config.json
    table: ClassVar[Mapping[str, Any]]       # generators by name, the default first
    flags: ClassVar[tuple[str, str]]         # of the file, and of the generator's name
    noun: ClassVar[str] = ""                 # before the generator's title
    nameless: ClassVar[str]                  # the name of a file without one

    @classmethod
    def of(cls, path: str | None, name: str | None = None) -> Self:
        """The file at `path`, or the generator of this name. Raises ValueError for both, and an unknown name."""
        if path is not None and name is not None:
            raise ValueError(f"{cls.flags[0]} is {path} and {cls.flags[1]} {name}, expected one of them")
        make: Any = cls
        return make(None, cls.chosen(name)()) if path is None else make(Path(path), None)

    @classmethod
    def chosen(cls, name: str | None) -> Any:
        """The class of the generator of this name, or the default one. Raises ValueError for an unknown name."""
        if name is not None and name not in cls.table:
            raise ValueError(f"{cls.flags[1]} is {name!r}, expected {one_of(cls.table, name)}")
        return cls.table[name or next(iter(cls.table))]

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> Self:
        """The source that `describe` returned. Raises KeyError, TypeError or ValueError for anything else."""
        make: Any = cls
        return make(None, cls.remade(data[cls.key])) if cls.key in data else make(Path(data["path"]), None)

    @classmethod
    def remade(cls, settings: dict[str, Any]) -> Any:
        """The generator with these settings, its name among them."""
        return cls.table[settings["name"]](**{name: value for name, value in settings.items() if name != "name"})

    @property
    def name(self) -> str:
        """Short, for the name of a folder."""
        return self.path.name.split(".")[0] or self.nameless if self.path else getattr(self, self.made_as).name

    @property
    def title(self) -> str:
        """For people to read."""
        return str(self.path) if self.path else f"{self.noun}{getattr(self, self.made_as).title}"

    def describe(self) -> dict[str, Any]:
        """The source as JSON, for `from_config`."""
        if self.path:
            return {"path": str(self.path.resolve())}
        made = getattr(self, self.made_as)
        return {self.key: {"name": made.name, **asdict(made)}}
