"""Networks made of layers, and the estimators around them."""

from .counting import ItemCosine, Markov, Popularity
from .recommender import Recommender
from .run import RunFolder
from .sasrec import SASRec
from .sasrec_network import SASRecNetwork

__all__ = ["ItemCosine", "Markov", "Popularity", "Recommender", "RunFolder", "SASRec", "SASRecNetwork"]
