"""Interactions: read, split, batch, generate."""

from .batches import Batch, Sampler, pad
from .formats import FORMATS, DataError
from .interactions import Interactions
from .rated import Rated, RatingBatch, RatingSampler
from .rating_split import RATING_SPLITS, RatingSplit, refuse_unrated, split_ratings
from .read import read
from .seen import Seen
from .slices import cut
from .source import Source, Truth
from .split import Split, leave_one_out
from .vocabulary import Vocabulary
from .worlds import WORLDS, SeriesWorld, World

__all__ = [
    "FORMATS",
    "RATING_SPLITS",
    "WORLDS",
    "Batch",
    "DataError",
    "Interactions",
    "Rated",
    "RatingBatch",
    "RatingSampler",
    "RatingSplit",
    "Sampler",
    "Seen",
    "SeriesWorld",
    "Source",
    "Split",
    "Truth",
    "Vocabulary",
    "World",
    "cut",
    "leave_one_out",
    "pad",
    "read",
    "refuse_unrated",
    "split_ratings",
]
