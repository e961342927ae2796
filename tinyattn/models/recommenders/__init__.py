"""Recommenders: a network or a count, and its options, a file each."""

from .baselines import BASELINES, ItemCosine, Markov, Popularity
from .sasrec import SASRec, SASRecNetwork

__all__ = ["BASELINES", "ItemCosine", "Markov", "Popularity", "SASRec", "SASRecNetwork"]
