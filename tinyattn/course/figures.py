"""Figures in notebooks: the same bytes on every build."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from typing import Any

from ..show.style import style


@dataclass(frozen=True)
class Picture:
    """A drawn figure. A notebook shows it, with `alt` as its alternative text; elsewhere its repr is its name."""

    name: str
    alt: str
    png: bytes = field(repr=False)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, str], dict[str, Any]]:
        """The PNG, its name and `alt`, for Jupyter."""
        shown = {"image/png": base64.b64encode(self.png).decode(), "text/plain": f"[{self.name}: {self.alt}]"}
        return shown, {"image/png": {"alt": self.alt}, "picture": self.name}


def show_figure(fig: Any, name: str, alt: str) -> Picture:
    """Draw `fig`, a matplotlib figure, as a PNG. `name` names its file in figures/, `alt` describes it in words.

    The PNG holds neither date nor version, so the same figure has the same bytes. `notebooks/build.py` extracts the
    files of figures/ from the notebook. Raises ValueError unless `name` has only letters, digits and hyphens.
    """
    if not name.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"a picture's name is {name!r}, expected letters, digits and hyphens")
    drawn = io.BytesIO()
    with style():
        fig.savefig(drawn, format="png", metadata={"Software": None})
    return Picture(name, alt, drawn.getvalue())
