"""Where text comes from: a file, or a generated grammar."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .grammar import Grammar
from .read import read_text
from .texts import Text


@dataclass(frozen=True)
class TextSource:
    """The file at `path`, or the default grammar."""

    path: Path | None

    @classmethod
    def of(cls, path: str | None) -> TextSource:
        return cls(None if path is None else Path(path))

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> TextSource:
        """From what `describe` returns. Raises KeyError or TypeError where it is something else."""
        return cls(None if "grammar" in data else Path(data["path"]))

    @property
    def name(self) -> str:
        """Short, for the name of a folder."""
        return Grammar.name if self.path is None else self.path.name.split(".")[0] or "text"

    @property
    def title(self) -> str:
        """For people to read."""
        return Grammar.title if self.path is None else str(self.path)

    @property
    def entropy(self) -> float | None:
        """In nats a character, where it is known."""
        return Grammar().entropy if self.path is None else None

    def describe(self) -> dict[str, Any]:
        """Which data these are, as JSON."""
        if self.path is None:
            return {"grammar": asdict(Grammar())}
        return {"path": str(self.path.resolve())}

    def load(self) -> Text:
        """Raises DataError, naming the file, for one that is missing, empty, or no text."""
        return Grammar().generate() if self.path is None else Text(read_text(self.path))
