"""Recommenders: a network or a count, and its options, a file each."""

from .baselines import BASELINES, ItemCosine, Markov, Popularity
from .gru4rec import GRU4Rec, GRU4RecNetwork
from .sasrec import SASRec, SASRecNetwork

__all__ = ["BASELINES", "GRU4Rec", "GRU4RecNetwork", "ItemCosine", "Markov", "Popularity", "SASRec", "SASRecNetwork"]
