"""Transformers that are no recommenders: a network and its options, a file each."""

from .image_model import ImageModel, ImageNetwork
from .transformer import Transformer, TransformerNetwork
from .vit import ViT, ViTNetwork

__all__ = ["ImageModel", "ImageNetwork", "Transformer", "TransformerNetwork", "ViT", "ViTNetwork"]
