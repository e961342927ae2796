"""Models that are no recommenders: a network and its options, a file each."""

from .beit import BEiT, BEiTNetwork
from .decoder import Decoder, DecoderNetwork
from .encoder import Encoder, EncoderNetwork
from .image_model import ImageModel, ImageNetwork, ImageReader
from .looking import (
    attention_distance,
    convolution_field,
    distances_by_head,
    receptive_field,
    rollout,
    uniform_distance,
)
from .pair_model import PairModel, PairNetwork
from .rnnsearch import RNNsearch, RNNsearchNetwork
from .swin import Swin, SwinNetwork
from .tagger import Tagger, TaggerNetwork
from .transformer import Transformer, TransformerNetwork
from .vit import ViT, ViTNetwork
