"""Composites of ops: `(p, x, ...) -> y, cache` and `(p, dy, cache) -> dx, ..., grads`. Layers have no other state."""

from .attending_gru import AttendingGRU, AttendingGRUCache
from .bidirectional_gru import BidirectionalGRU, BidirectionalGRUCache
from .block import BLOCK_FORMS, Block, BlockCache
from .decoder_block import DECODER_FORMS, DecoderBlock, DecoderBlockCache
from .dense import dense, dense_backward, dense_init, glorot
from .dropout_mask import dropout_mask, dropped
from .feed_forward import (
    ACTIVATIONS,
    FEED_FORWARDS,
    FeedForward,
    PositionWise,
    feed_forward,
    feed_forward_backward,
    feed_forward_init,
)
from .gaussian_block import GaussianBlock
from .mechanisms import MECHANISMS, Mechanism
from .mixers import GRU, MIXERS, Mixer, MultiHead, multi_head_attention, multi_head_attention_backward, multi_head_init
from .norm import NORMS, LayerNorm, Norm, norm, norm_backward, norm_init
from .past import Past, nbytes
from .positions import ITEM_POSITIONS, POSITIONS, Position
from .refinements import REFINEMENTS, Refinement
from .rms_norm import RMSNorm
from .rows import gather_rows
from .stack import Stack
from .swiglu import SwiGLU

__all__ = ["ACTIVATIONS", "BLOCK_FORMS", "DECODER_FORMS", "FEED_FORWARDS", "GRU", "ITEM_POSITIONS", "MECHANISMS",
           "MIXERS", "NORMS", "POSITIONS", "REFINEMENTS", "AttendingGRU", "AttendingGRUCache", "BidirectionalGRU",
           "BidirectionalGRUCache", "Block", "BlockCache", "DecoderBlock", "DecoderBlockCache", "FeedForward",
           "GaussianBlock", "LayerNorm", "Mechanism", "Mixer", "MultiHead", "Norm", "Past", "Position",
           "PositionWise", "RMSNorm", "Refinement", "Stack", "SwiGLU", "dense", "dense_backward", "dense_init",
           "dropout_mask", "dropped", "feed_forward", "feed_forward_backward", "feed_forward_init", "gather_rows",
           "glorot", "multi_head_attention", "multi_head_attention_backward", "multi_head_init", "nbytes", "norm",
           "norm_backward", "norm_init"]  # fmt: skip
