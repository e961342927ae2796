"""Recommenders: a network or a count, and its options, a file each."""

from collections.abc import Callable
from functools import partial

from ..recommender import Recommender
from .bert4rec import BERT4Rec, BERT4RecNetwork
from .caser import Caser, CaserNetwork
from .cosine import ItemCosine
from .ease import EASE
from .fism import FISM, FISMNetwork
from .fossil import Fossil, FossilNetwork
from .fpmc import FPMC, FPMCNetwork
from .gru4rec import GRU4Rec, GRU4RecNetwork
from .markov import Markov
from .mf import MF, MFNetwork
from .narm import NARM, NARMNetwork
from .popularity import Popularity
from .ported import PortedNetwork
from .sasrec import SASRec, SASRecNetwork
from .stosa import STOSA, STOSANetwork
from .timesvdpp import TimeSVDpp, TimeSVDppNetwork

# They learn no parameters. Every table prints some of them, and on some data they win.
BASELINES: dict[str, Callable[[], Recommender]] = {
    "popularity": Popularity,
    "cosine": ItemCosine,
    "markov": Markov,
    "markov2": partial(Markov, order=2),
}
