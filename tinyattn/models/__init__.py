"""Networks made of layers, and the estimators around them."""

from .neural import NeuralRecommender
from .next_item import NextItemNetwork, SequenceOptions
from .recommender import Recommender
from .recommenders import BASELINES, ItemCosine, Markov, Popularity, SASRec, SASRecNetwork
from .run import RunFolder

MODELS: dict[str, type[Recommender]] = {
    "sasrec": SASRec,
    "popularity": Popularity,
    "markov": Markov,
    "cosine": ItemCosine,
}

__all__ = [
    "BASELINES",
    "MODELS",
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
]
