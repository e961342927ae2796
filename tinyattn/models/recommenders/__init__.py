"""Recommenders: a network or a count, and its options, a file each."""

from .baselines import BASELINES, ItemCosine, Markov, Popularity
from .bert4rec import BERT4Rec, BERT4RecNetwork
from .caser import Caser, CaserNetwork
from .gru4rec import GRU4Rec, GRU4RecNetwork
from .narm import NARM, NARMNetwork
from .sasrec import SASRec, SASRecNetwork

__all__ = [
    "BASELINES",
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
    "Popularity",
    "SASRec",
    "SASRecNetwork",
]
