"""Networks made of layers, and the estimators around them."""

from .neural import NeuralRecommender
from .next_item import NextItemNetwork, SequenceOptions
from .presets import PRESETS, Preset, preset_options
from .recommender import Recommender
from .recommenders import (
    BASELINES,
    GRU4Rec,
    GRU4RecNetwork,
    ItemCosine,
    Markov,
    Popularity,
    SASRec,
    SASRecNetwork,
)
from .run import RunFolder

MODELS: dict[str, type[Recommender]] = {
    "sasrec": SASRec,
    "gru4rec": GRU4Rec,
    "popularity": Popularity,
    "markov": Markov,
    "cosine": ItemCosine,
}

__all__ = [
    "BASELINES",
    "MODELS",
    "PRESETS",
    "GRU4Rec",
    "GRU4RecNetwork",
    "ItemCosine",
    "Markov",
    "NeuralRecommender",
    "NextItemNetwork",
    "Popularity",
    "Preset",
    "Recommender",
    "RunFolder",
    "SASRec",
    "SASRecNetwork",
    "SequenceOptions",
    "preset_options",
]
