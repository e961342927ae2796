"""Figures, and `trace`, which shows every intermediate value. matplotlib is imported when the first figure is drawn."""

from typing import Any

from .animation import animate, looking_picture
from .array_map import array_map
from .attention import alignment_map, attention_map
from .curves import draw_run, metric_bars, sweep_dots, training_curves
from .experiments import draw_picture
from .images import LOOKS, distance_plot, field_map, hidden_map, rollout_map
from .style import figure, save, style

__all__ = ["LOOKS", "Trace", "alignment_map", "animate", "array_map", "attention_map", "distance_plot", "draw_picture",
           "draw_run", "field_map", "figure", "hidden_map", "looking_picture", "metric_bars", "rollout_map", "save",
           "style", "sweep_dots", "trace", "training_curves"]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imports `trace`, which needs tinyattn.check, only when it is first used."""
    if name not in ("Trace", "trace"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import tracing

    return getattr(tracing, name)
