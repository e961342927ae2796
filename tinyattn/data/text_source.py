"""Where text comes from: a file, or a generated grammar."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .grammar import Grammar
from .read import read_text
from .sources import AnySource
from .texts import Text


@dataclass(frozen=True)
class TextSource(AnySource):
    """The file at `path`, or the default grammar."""

    path: Path | None

    grammar, made_as, nameless = Grammar(), "grammar", "text"

    @classmethod
    def of(cls, path: str | None, name: None = None) -> TextSource:  # type: ignore[override]
        return cls(None if path is None else Path(path))

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> TextSource:
        return cls(None if "grammar" in data else Path(data["path"]))

    @property
    def entropy(self) -> float | None:
        """In nats a character, where it is known."""
        return Grammar().entropy if self.path is None else None

    def describe(self) -> dict[str, Any]:
        return super().describe() if self.path else {"grammar": asdict(self.grammar)}

    def load(self) -> Text:
        """Raises DataError, naming the file, where it is missing, empty, or no text."""
        return Grammar().generate() if self.path is None else Text(read_text(self.path))
