"""Interactions: read, split, batch, generate."""

from .batches import Batch, Sampler, pad
from .cloze import ClozeSampler
from .formats import FORMATS, DataError
from .interactions import Interactions
from .lists import ItemNames, read_ids, read_names
from .rated import Rated, RatingBatch, RatingSampler
from .rating_split import RATING_SPLITS, RatingSplit, refuse_unrated, split_ratings
from .read import read
from .seen import Seen
from .slices import cut
from .source import Source, Truth
from .split import SPLITS, Split, by_time, leave_one_out
from .vocabulary import Vocabulary
from .worlds import WORLDS, SeriesWorld, World

__all__ = [
    "FORMATS",
    "RATING_SPLITS",
    "SPLITS",
    "WORLDS",
    "Batch",
    "ClozeSampler",
    "DataError",
    "Interactions",
    "ItemNames",
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
    "by_time",
    "cut",
    "leave_one_out",
    "pad",
    "read",
    "read_ids",
    "read_names",
    "refuse_unrated",
    "split_ratings",
]
