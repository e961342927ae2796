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
        value = self.values.get(name)
        return default if value is None else value

    def whole(self, name: str, default: int | None = None) -> int:
        """A whole number, 1 or more, that an array could have as its size."""
        value = self._there(name, default)
        if type(value) is not int or not 1 <= value < 2**63:
            shown = shortened(repr(value))
            raise FileError(f"{self.path} has {name} {shown}, expected a whole number, 1 or more and below 2**63")
        return value

    def positive(self, name: str, default: float | None = None) -> float:
        """A number above 0."""
        value = self._there(name, default)
        if type(value) not in (int, float) or not 0 < value <= sys.float_info.max:
            raise FileError(f"{self.path} has {name} {shortened(repr(value))}, expected a positive number")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or False."""
        value = self.get(name, default)
        if not isinstance(value, bool):
            raise FileError(f"{self.path} has {name} {value!r}, expected true or false")
        return value

    def one_of(self, name: str, known: Collection[str], default: str) -> str:
        """One of these strings."""
        value = self.get(name, default)
        if not isinstance(value, str) or value not in known:
            raise FileError(f"{self.path} has {name} {value!r}, expected {one_of(known, value)}")
        return value

    def refuse_other(self, name: str, only: Any) -> None:
        """Raise FileError for a value that is not computed here."""
        value = self.get(name, only)
        if value != only:
            raise FileError(f"{self.path} has {name} {value!r}, expected {only!r}: nothing else is computed here")

    def table(self, name: str) -> Config:
        """A table in it, empty where it is missing."""
        return Config(self.path, self.get(name, {}))

    def _there(self, name: str, default: Any) -> Any:
        value = self.get(name, default)
        if value is None:
            raise FileError(f"{self.path} has no {name}")
        return value
