"""Networks made of layers, and the estimators around them."""

from .explanation import Explanation, explain
from .neural import NeuralRecommender
from .next_item import NextItemNetwork, SequenceOptions
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
    "Explanation",
    "GRU4Rec",
    "GRU4RecNetwork",
    "ItemCosine",
    "Markov",
    "NeuralRecommender",
    "NextItemNetwork",
    "Popularity",
    "Recommender",
    "RunFolder",
    "SASRec",
    "SASRecNetwork",
    "SequenceOptions",
    "explain",
]
