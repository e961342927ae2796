"""Transformers that are no recommenders: a network and its options, a file each."""

from .transformer import Transformer, TransformerNetwork

__all__ = ["Transformer", "TransformerNetwork"]
