"""Networks made of layers, and the estimators around them."""

from .neural import NeuralRecommender
from .next_item import NextItemNetwork, SequenceOptions
from .recommender import Recommender
from .recommenders import (
    BASELINES,
    EASE,
    FISM,
    FPMC,
    MF,
    FISMNetwork,
    Fossil,
    FossilNetwork,
    FPMCNetwork,
    GRU4Rec,
    GRU4RecNetwork,
    ItemCosine,
    Markov,
    MFNetwork,
    Popularity,
    SASRec,
    SASRecNetwork,
    TimeSVDpp,
    TimeSVDppNetwork,
)
from .run import RunFolder

MODELS: dict[str, type[Recommender]] = {
    "sasrec": SASRec,
    "gru4rec": GRU4Rec,
    "popularity": Popularity,
    "markov": Markov,
    "cosine": ItemCosine,
    "ease": EASE,
    "mf": MF,
    "fism": FISM,
    "fpmc": FPMC,
    "fossil": Fossil,
    "timesvdpp": TimeSVDpp,
}

__all__ = [
    "BASELINES",
    "EASE",
    "FISM",
    "FPMC",
    "MF",
    "MODELS",
    "FISMNetwork",
    "FPMCNetwork",
    "Fossil",
    "FossilNetwork",
    "GRU4Rec",
    "GRU4RecNetwork",
    "ItemCosine",
    "MFNetwork",
    "Markov",
    "NeuralRecommender",
    "NextItemNetwork",
    "Popularity",
    "Recommender",
    "RunFolder",
    "SASRec",
    "SASRecNetwork",
    "SequenceOptions",
    "TimeSVDpp",
    "TimeSVDppNetwork",
]
