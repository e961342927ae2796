"""Networks made of layers, and the estimators around them."""

from .estimator import Estimator
from .explanation import Explanation, explain
from .neural import NeuralRecommender
from .next_item import NextItemNetwork, SequenceOptions
from .presets import PRESETS, Preset, preset_options
from .recommender import Recommender
from .recommenders import (
    BASELINES,
    EASE,
    FISM,
    FPMC,
    MF,
    NARM,
    BERT4Rec,
    BERT4RecNetwork,
    Caser,
    CaserNetwork,
    FISMNetwork,
    Fossil,
    FossilNetwork,
    FPMCNetwork,
    GRU4Rec,
    GRU4RecNetwork,
    ItemCosine,
    Markov,
    MFNetwork,
    NARMNetwork,
    Popularity,
    SASRec,
    SASRecNetwork,
    TimeSVDpp,
    TimeSVDppNetwork,
)
from .run import RunFolder
from .sequence_model import SequenceModel
from .trained import Trained
from .transformers import Decoder, DecoderNetwork, Transformer, TransformerNetwork

MODELS: dict[str, type[Estimator]] = {
    "sasrec": SASRec,
    "gru4rec": GRU4Rec,
    "narm": NARM,
    "caser": Caser,
    "bert4rec": BERT4Rec,
    "popularity": Popularity,
    "markov": Markov,
    "cosine": ItemCosine,
    "ease": EASE,
    "mf": MF,
    "fism": FISM,
    "fpmc": FPMC,
    "fossil": Fossil,
    "timesvdpp": TimeSVDpp,
    "transformer": Transformer,
    "decoder": Decoder,
}

__all__ = [
    "BASELINES",
    "EASE",
    "FISM",
    "FPMC",
    "MF",
    "MODELS",
    "NARM",
    "PRESETS",
    "BERT4Rec",
    "BERT4RecNetwork",
    "Caser",
    "CaserNetwork",
    "Decoder",
    "DecoderNetwork",
    "Estimator",
    "Explanation",
    "FISMNetwork",
    "FPMCNetwork",
    "Fossil",
    "FossilNetwork",
    "GRU4Rec",
    "GRU4RecNetwork",
    "ItemCosine",
    "MFNetwork",
    "Markov",
    "NARMNetwork",
    "NeuralRecommender",
    "NextItemNetwork",
    "Popularity",
    "Preset",
    "Recommender",
    "RunFolder",
    "SASRec",
    "SASRecNetwork",
    "SequenceModel",
    "SequenceOptions",
    "TimeSVDpp",
    "TimeSVDppNetwork",
    "Trained",
    "Transformer",
    "TransformerNetwork",
    "explain",
    "preset_options",
]
