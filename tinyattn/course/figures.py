"""Figures in notebooks: the same bytes on every build."""

import base64
import html
from dataclasses import dataclass, field
from typing import Any

from ..show.style import drawn, style

LARGEST = 150_000        # bytes of an SVG


@dataclass(frozen=True)
class Picture:
    """A drawn figure: `form` is "svg" or "png", `alt` its description. Notebooks show it; its repr has only words."""

    name: str
    alt: str
    form: str
    content: bytes = field(repr=False)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, str], dict[str, Any]]:
        """The picture with its name and `alt`, for Jupyter. HTML is included, as JupyterLab shows `alt` only there."""
        kind, coded = f"image/{self.form}", base64.b64encode(self.content).decode()
        shown = coded
        if self.form == "svg":
            kind, shown = "image/svg+xml", self.content.decode()
        image = f'<img alt="{html.escape(self.alt)}" src="data:{kind};base64,{coded}">'
        text = {"text/html": image, "text/plain": f"[{self.name}: {self.alt}]"}
        return {kind: shown} | text, {kind: {"alt": self.alt}, "picture": self.name}


def show_figure(fig: Any, name: str, alt: str) -> Picture:
    """Draw `fig`, a matplotlib figure, as an SVG, or as a PNG of twice the pixels if the SVG has more than 150 kB.

    `name` is the name of its file in figures/, `alt` describes it in words. The same figure gives the same bytes.
    `notebooks/build.py` extracts the files of figures/ from the notebook. Raises ValueError unless `name` has only
    letters, digits, hyphens and underscores.
    """
    if not name.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"a picture's name is {name!r}, expected letters, digits and hyphens")
    with style():
        vectors = drawn(fig, "svg", alt)
        if len(vectors) <= LARGEST:
            return Picture(name, alt, "svg", vectors)
        return Picture(name, alt, "png", drawn(fig, "png"))
