"""Pictures. Importing this costs nothing; matplotlib is loaded when the first picture is drawn."""

from .attention import attention_map
from .curves import metric_bars, training_curves
from .style import figure, save, style

__all__ = ["attention_map", "figure", "metric_bars", "save", "style", "training_curves"]
