"""Layouts: the names and shapes that other libraries' files give to the parameters of a model, a file a layout."""

from .checkpoint import LAYOUTS, Checkpoint, import_model
from .layout import Entry, Layout

__all__ = ["LAYOUTS", "Checkpoint", "Entry", "Layout", "import_model"]
