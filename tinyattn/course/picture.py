"""Figures in notebooks: the same bytes on every build."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from typing import Any

from ..show.style import style


@dataclass(frozen=True)
class Picture:
    """A drawn figure. A notebook shows it, with `alt` for whoever cannot see it; elsewhere it is its name."""

    name: str
    alt: str
    png: bytes = field(repr=False)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, str], dict[str, Any]]:
        """What Jupyter shows: the picture, and as text its name and what is to be seen."""
        shown = {"image/png": base64.b64encode(self.png).decode(), "text/plain": f"[{self.name}: {self.alt}]"}
        return shown, {"image/png": {"alt": self.alt}, "picture": self.name}


def picture(made: Any, name: str, alt: str) -> Picture:
    """Draw `made`, a matplotlib figure, as a PNG. `name` is its file's in figures/, `alt` says what is to be seen.

    The PNG holds neither date nor version, so the same figure has the same bytes. Nothing is written to disk: the
    builder takes the pictures of figures/ out of the notebook. Raises ValueError for a name that is no plain word.
    """
    if not name.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"a picture's name is {name!r}, expected letters, digits and hyphens")
    drawn = io.BytesIO()
    with style():
        made.savefig(drawn, format="png", metadata={"Software": None})
    return Picture(name, alt, drawn.getvalue())
