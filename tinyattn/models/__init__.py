"""Networks made of layers, and the estimators around them."""

from collections.abc import Callable
from functools import partial

from .estimator import Estimator
from .explanation import Explanation, explain
from .layouts.checkpoint import TEXT_LAYOUTS, Checkpoint, import_model, opened
from .layouts.recommender_file import SASREC_LAYOUTS
from .neural import NeuralRecommender
from .next_item import NextItemNetwork, SequenceOptions
from .presets import PRESETS, Preset, preset_options
from .recommender import Recommender
from .recommenders.bert4rec import BERT4Rec, BERT4RecNetwork
from .recommenders.caser import Caser, CaserNetwork
from .recommenders.cosine import ItemCosine
from .recommenders.ease import EASE
from .recommenders.fism import FISM, FISMNetwork
from .recommenders.fossil import Fossil, FossilNetwork
from .recommenders.fpmc import FPMC, FPMCNetwork
from .recommenders.gru4rec import GRU4Rec, GRU4RecNetwork
from .recommenders.markov import Markov
from .recommenders.mf import MF, MFNetwork
from .recommenders.narm import NARM, NARMNetwork
from .recommenders.popularity import Popularity
from .recommenders.sasrec import SASRec, SASRecNetwork
from .recommenders.stosa import STOSA, STOSANetwork
from .recommenders.timesvdpp import TimeSVDpp, TimeSVDppNetwork
from .run import RunFolder
from .sequence_model import SequenceModel
from .session import Session
from .trained import Trained
from .transformers.beit import BEiT, BEiTNetwork
from .transformers.classifier import Classifier, ClassifierNetwork
from .transformers.decoder import Decoder, DecoderNetwork
from .transformers.encoder import Encoder, EncoderNetwork
from .transformers.image_model import ImageModel, ImageNetwork, ImageReader
from .transformers.looking import (
    attention_distance,
    convolution_field,
    distances_by_head,
    receptive_field,
    rollout,
    uniform_distance,
)
from .transformers.pair_model import PairModel, PairNetwork
from .transformers.rnnsearch import RNNsearch, RNNsearchNetwork
from .transformers.swin import Swin, SwinNetwork
from .transformers.tagger import Tagger, TaggerNetwork
from .transformers.transformer import Transformer, TransformerNetwork
from .transformers.vit import ViT, ViTNetwork

# Models without learned parameters. Every table prints some of them, and on some data they win.
BASELINES: dict[str, Callable[[], Recommender]] = {
    "popularity": Popularity,
    "cosine": ItemCosine,
    "markov": Markov,
    "markov2": partial(Markov, order=2),
}

MODELS: dict[str, type[Estimator]] = {
    kind.name: kind for kind in (
        SASRec, GRU4Rec, NARM, Caser, BERT4Rec, STOSA, Popularity, Markov, ItemCosine, EASE, MF, FISM, FPMC, Fossil,
        TimeSVDpp, Transformer, RNNsearch, Decoder, Encoder, Classifier, Tagger, ViT, Swin,
        BEiT,
    )
}  # fmt: skip
Estimator.models = MODELS      # for `Estimator.load`

__all__ = ["BASELINES", "EASE", "FISM", "FPMC", "MF", "MODELS", "NARM", "PRESETS", "SASREC_LAYOUTS", "STOSA",
           "TEXT_LAYOUTS", "BERT4Rec", "BERT4RecNetwork", "BEiT", "BEiTNetwork", "Caser", "CaserNetwork",
           "Checkpoint", "Classifier", "ClassifierNetwork", "Decoder", "DecoderNetwork", "Encoder", "EncoderNetwork",
           "Estimator", "Explanation", "FISMNetwork", "FPMCNetwork", "Fossil", "FossilNetwork", "GRU4Rec",
           "GRU4RecNetwork", "ImageModel", "ImageNetwork", "ImageReader", "ItemCosine", "MFNetwork", "Markov",
           "NARMNetwork", "NeuralRecommender", "NextItemNetwork", "PairModel", "PairNetwork", "Popularity", "Preset",
           "RNNsearch", "RNNsearchNetwork", "Recommender", "RunFolder", "SASRec", "SASRecNetwork", "STOSANetwork",
           "SequenceModel", "SequenceOptions", "Session", "Swin", "SwinNetwork", "Tagger", "TaggerNetwork",
           "TimeSVDpp", "TimeSVDppNetwork", "Trained", "Transformer", "TransformerNetwork", "ViT", "ViTNetwork",
           "attention_distance", "convolution_field", "distances_by_head", "explain", "import_model", "opened",
           "preset_options", "receptive_field", "rollout", "uniform_distance"]  # fmt: skip
