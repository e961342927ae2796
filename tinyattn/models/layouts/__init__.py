"""Layouts: the names and shapes that other libraries' files give to the parameters of a model, a file a layout."""

from .checkpoint import TEXT_LAYOUTS, Checkpoint, import_model, opened
from .layout import Entry, TextLayout
from .recommender_file import SASREC_LAYOUTS, RecommenderFile

__all__ = [
           "SASREC_LAYOUTS",
           "TEXT_LAYOUTS",
           "Checkpoint",
           "Entry",
           "RecommenderFile",
           "TextLayout",
           "import_model",
           "opened",
]  # fmt: skip
