"""The config.json beside weights, whose values are checked when they are read."""

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
        """A whole number that could be the size of an array."""
        value = self._there(name, default)
        fits = type(value) is int and 1 <= value < 2**63
        return self._checked(name, value, fits, "a whole number, 1 or more and below 2**63")

    def positive(self, name: str, default: float | None = None) -> float:
        """A number above 0."""
        value = self._there(name, default)
        fits = type(value) in (int, float) and 0 < value <= sys.float_info.max
        return float(self._checked(name, value, fits, "a positive number"))

    def flag(self, name: str, default: bool) -> bool:
        """True or False."""
        value = self.get(name, default)
        return self._checked(name, value, isinstance(value, bool), "true or false")

    def one_of(self, name: str, known: Collection[str], default: str) -> str:
        """One of these strings."""
        value = self.get(name, default)
        return self._checked(name, value, isinstance(value, str) and value in known, one_of(known, value))

    def refuse_other(self, name: str, only: Any) -> None:
        """Raise FileError for a value other than `only`, which alone is supported."""
        value = self.get(name, only)
        self._checked(name, value, value == only, f"{only!r}: nothing else is computed here")

    def table(self, name: str) -> "Config":
        """The table `name` inside this one; an empty one if it is missing."""
        return Config(self.path, self._checked(name, x := self.get(name, {}), isinstance(x, dict), "names and values"))

    def _checked(self, name: str, value: Any, fits: bool, expected: str) -> Any:
        if not fits:
            raise FileError(f"{self.path} has {name} {shortened(repr(value))}, expected {expected}")
        return value

    def _there(self, name: str, default: Any) -> Any:
        if (value := self.get(name, default)) is None:
            raise FileError(f"{self.path} has no {name}")
        return value
