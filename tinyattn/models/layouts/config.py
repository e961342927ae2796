"""The config.json that lies beside weights: each value is checked where it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ...files import FileError, read_json
from ...options import one_of
from ...terminal import shortened


class Config:
    """The values of a config.json, or of a table in one. Raises FileError for a file that holds something else."""

    def __init__(self, path: Path, values: Any = None) -> None:
        self.path = path
        self.values = read_json(path) if values is None else values
        if not isinstance(self.values, dict):
            raise FileError(f"{path} has {shortened(repr(self.values))}, expected names and values")

    def get(self, name: str, default: Any = None) -> Any:
        """The value, or the default where it is missing or null."""
        found = self.values.get(name)
        return default if found is None else found

    def whole(self, name: str, default: int | None = None) -> int:
        """A whole number, 1 or more, that an array could have as its size."""
        found = self._there(name, default)
        if type(found) is not int or not 1 <= found < 2**63:
            shown = shortened(repr(found))
            raise FileError(f"{self.path} has {name} {shown}, expected a whole number, 1 or more and below 2**63")
        return found

    def positive(self, name: str, default: float | None = None) -> float:
        """A number above 0."""
        found = self._there(name, default)
        if type(found) not in (int, float) or not 0 < found <= sys.float_info.max:
            raise FileError(f"{self.path} has {name} {shortened(repr(found))}, expected a positive number")
        return float(found)

    def flag(self, name: str, default: bool) -> bool:
        """True or False."""
        found = self.get(name, default)
        if not isinstance(found, bool):
            raise FileError(f"{self.path} has {name} {found!r}, expected true or false")
        return found

    def one_of(self, name: str, known: Collection[str], default: str) -> str:
        """One of these strings."""
        found = self.get(name, default)
        if not isinstance(found, str) or found not in known:
            raise FileError(f"{self.path} has {name} {found!r}, expected {one_of(known, found)}")
        return found

    def refuse_other(self, name: str, only: Any) -> None:
        """Raise FileError for a value that is not computed here."""
        found = self.get(name, only)
        if found != only:
            raise FileError(f"{self.path} has {name} {found!r}, expected {only!r}: nothing else is computed here")

    def table(self, name: str) -> Config:
        """A table in it, empty where it is missing."""
        return Config(self.path, self.get(name, {}))

    def _there(self, name: str, default: Any) -> Any:
        found = self.get(name, default)
        if found is None:
            raise FileError(f"{self.path} has no {name}")
        return found
