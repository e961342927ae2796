"""Composites of ops: `(p, x, ...) -> y, cache` and `(p, dy, cache) -> dx, ..., grads`. No state anywhere else."""

from .block import BLOCKS, BlockCache, block_init
from .block_at import pick
from .dense import dense, dense_backward, dense_init, glorot
from .drop import draw_keep
from .feed_forward import feed_forward, feed_forward_backward, feed_forward_init
from .fused_block import FUSED_BLOCKS, FusedBlockCache
from .multi_head import multi_head_attention, multi_head_attention_backward, multi_head_init
from .norm import norm, norm_backward, norm_init

__all__ = [
    "BLOCKS",
    "FUSED_BLOCKS",
    "BlockCache",
    "FusedBlockCache",
    "block_init",
    "dense",
    "dense_backward",
    "dense_init",
    "draw_keep",
    "feed_forward",
    "feed_forward_backward",
    "feed_forward_init",
    "glorot",
    "multi_head_attention",
    "multi_head_attention_backward",
    "multi_head_init",
    "norm",
    "norm_backward",
    "norm_init",
    "pick",
]
