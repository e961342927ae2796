"""Networks made of layers, and the estimators around them."""

from .neural import NeuralRecommender
from .next_item import NextItemNetwork, SequenceOptions
from .recommender import Recommender
from .recommenders import (
    BASELINES,
    NARM,
    BERT4Rec,
    BERT4RecNetwork,
    Caser,
    CaserNetwork,
    GRU4Rec,
    GRU4RecNetwork,
    ItemCosine,
    Markov,
    NARMNetwork,
    Popularity,
    SASRec,
    SASRecNetwork,
)
from .run import RunFolder

MODELS: dict[str, type[Recommender]] = {
    "sasrec": SASRec,
    "gru4rec": GRU4Rec,
    "narm": NARM,
    "caser": Caser,
    "bert4rec": BERT4Rec,
    "popularity": Popularity,
    "markov": Markov,
    "cosine": ItemCosine,
}

__all__ = [
    "BASELINES",
    "MODELS",
    "NARM",
    "BERT4Rec",
    "BERT4RecNetwork",
    "Caser",
    "CaserNetwork",
    "GRU4Rec",
    "GRU4RecNetwork",
    "ItemCosine",
    "Markov",
    "NARMNetwork",
    "NeuralRecommender",
    "NextItemNetwork",
    "Popularity",
    "Recommender",
    "RunFolder",
    "SASRec",
    "SASRecNetwork",
    "SequenceOptions",
]
