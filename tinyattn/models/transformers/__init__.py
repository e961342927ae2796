"""Transformers that are no recommenders: a network and its options, a file each."""

from .decoder import Decoder, DecoderNetwork
from .transformer import Transformer, TransformerNetwork

__all__ = ["Decoder", "DecoderNetwork", "Transformer", "TransformerNetwork"]
