"""Interactions: read, split, batch, generate."""

from .batches import Batch, Sampler, pad
from .interactions import Interactions
from .read import DataError, read
from .split import Split, leave_one_out
from .vocabulary import Vocabulary
from .world import SeriesWorld

__all__ = [
    "Batch",
    "DataError",
    "Interactions",
    "Sampler",
    "SeriesWorld",
    "Split",
    "Vocabulary",
    "leave_one_out",
    "pad",
    "read",
]
