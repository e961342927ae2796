"""The form of the block without residuals: the sublayers alone.

It is for comparison with `pre` (Kang & McAuley 2018, section IV-F, ablation "remove residual connections").
"""

from typing import Any

from ..backend import Array
from ..ops import dropout, dropout_backward
from .block_cache import BlockCache
from .dropout_mask import dropout_mask


def plain_block(
    block: Any, p: Any, x: Array, *, at: Array | None = None, rng: Any = None, **context: Any
) -> tuple[Array, BlockCache]:
    """u = dropout(attention(LN(x))), then y = dropout(ffn(LN(u))). Shapes: x (..., n, D) -> y (..., n, D), cache."""
    h, norm_1 = block.norm.forward(p["norm_1"], x)
    a, attention = block.mixer.mix(p["attention"], h, at=at, **context)
    keep_1 = dropout_mask(a, a.shape, block.rate, rng)
    u = dropout(a, keep_1, block.rate)
    h, norm_2 = block.norm.forward(p["norm_2"], u)
    f, ffn = block.feed_forward.forward(p["feed_forward"], h)
    keep_2 = dropout_mask(f, f.shape, block.rate, rng)
    return dropout(f, keep_2, block.rate), BlockCache(norm_1, attention, keep_1, norm_2, ffn, keep_2)


def plain_block_backward(block: Any, p: Any, dy: Array, cache: BlockCache) -> tuple[Array, dict[str, Any]]:
    """The mirror of `plain_block`: without residuals the gradient passes through every sublayer. -> dx, grads."""
    df = dropout_backward(dy, cache.keep_2, block.rate)
    dh, ffn = block.feed_forward.backward(p["feed_forward"], df, cache.feed_forward)
    du, norm_2 = block.norm.backward(p["norm_2"], dh, cache.norm_2)
    da = dropout_backward(du, cache.keep_1, block.rate)
    dh, _, attention = block.mixer.backward(p["attention"], da, cache.attention)
    dx, norm_1 = block.norm.backward(p["norm_1"], dh, cache.norm_1)
    return dx, {"norm_1": norm_1, "attention": attention, "norm_2": norm_2, "feed_forward": ffn}
