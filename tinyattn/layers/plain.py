"""The form of the block without residuals: what is left when the paths around the sublayers are taken away.

It is here to be compared with `pre` (Kang & McAuley 2018, section IV-F, ablation "remove residual connections").
"""

from __future__ import annotations

from typing import Any

from ..backend import Array
from ..ops import dropout, dropout_backward
from .block_cache import BlockCache
from .dropout_mask import dropout_mask


def plain_block(
    block: Any, p: Any, x: Array, *, at: Array | None = None, rng: Any = None, **context: Any
) -> tuple[Array, BlockCache]:
    """u = dropout(attention(LN(x))), then y = dropout(ffn(LN(u))). Shapes: x (..., n, D) -> y (..., n, D), cache."""
    if at is None:
        a, norm_1, attention = block.normed_mixer.forward(p["norm_1"], p["attention"], x, **context)
    else:
        a, norm_1, attention = block.normed_mixer.at(p["norm_1"], p["attention"], x, at, **context), None, None
    keep_1 = dropout_mask(a, a.shape, block.rate, rng)
    u = dropout(a, keep_1, block.rate)
    f, norm_2, ffn = block.normed_feed_forward.forward(p["norm_2"], p["feed_forward"], u)
    keep_2 = dropout_mask(f, f.shape, block.rate, rng)
    return dropout(f, keep_2, block.rate), BlockCache(norm_1, attention, keep_1, norm_2, ffn, keep_2)


def plain_block_backward(block: Any, p: Any, dy: Array, cache: BlockCache) -> tuple[Array, dict[str, Any]]:
    """The mirror of `plain_block`: there is one path, and the gradient passes everything on it. -> dx, grads."""
    df = dropout_backward(dy, cache.keep_2, block.rate)
    du, norm_2, ffn = block.normed_feed_forward.of(cache.feed_forward).backward(
        p["norm_2"], p["feed_forward"], df, cache.norm_2, cache.feed_forward
    )
    da = dropout_backward(du, cache.keep_1, block.rate)
    dx, norm_1, attention = block.normed_mixer.of(cache.attention).backward(
        p["norm_1"], p["attention"], da, cache.norm_1, cache.attention
    )
    return dx, {"norm_1": norm_1, "attention": attention, "norm_2": norm_2, "feed_forward": ffn}
