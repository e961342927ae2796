"""The block: attention, then the feed-forward network, each with a residual and a LayerNorm, in three forms.

    pre       x + dropout(f(LN(x)))             the SASRec paper (Kang & McAuley 2018, section III-C); GPT-2
    post      LN(x + dropout(f(x)))             the original Transformer (Vaswani et al. 2017)
    sasrec    q = LN(x); u = q + attention(q, x)    SASRec's released code: only queries are normalised, and
              h = LN(u); h + dropout(ffn(h))        the residual carries the normalised tokens

The first two drop the output of each sublayer; `sasrec` drops attention weights and both feed-forward layers.
Every form has the same parameters, so one set can be run in all three and compared.
"""

from typing import Any, NamedTuple

from ..ops import dropout, dropout_backward
from .block_at import post_block_at, pre_block_at, sasrec_block_at
from .drop import draw_keep
from .feed_forward import FeedForwardCache, feed_forward, feed_forward_backward, feed_forward_init
from .multi_head import (
    MultiHeadCache,
    multi_head_attention,
    multi_head_attention_backward,
    multi_head_init,
)
from .norm import NormCache, norm, norm_backward, norm_init


def block_init(rng, dim, *, hidden=None, bias=True, output=True):
    """Parameters: norm_1, attention, norm_2, feed_forward (hidden width `hidden`, by default dim)."""
    return {
        "norm_1": norm_init(dim),
        "attention": multi_head_init(rng, dim, bias=bias, output=output),
        "norm_2": norm_init(dim),
        "feed_forward": feed_forward_init(rng, dim, hidden or dim),
    }


class BlockCache(NamedTuple):
    """What one call remembers; `cache.attention.weights` is a picture waiting to be drawn."""

    norm_1: NormCache
    attention: MultiHeadCache
    keep_1: Any                      # (..., n, D) or None: dropout on the attention's output
    norm_2: NormCache
    feed_forward: FeedForwardCache
    keep_2: Any                      # (..., n, D) or None: dropout on the feed-forward's output
    rate: float


def pre_block(p, x, *, heads, mask=None, eps=1e-5, rate=0.0, rng=None):
    """x + dropout(attention(LN(x))), then x + dropout(ffn(LN(x))). Shapes: x (..., n, D) -> y (..., n, D), cache."""
    h, norm_1 = norm(p["norm_1"], x, eps=eps)
    a, attention = multi_head_attention(p["attention"], h, h, heads=heads, mask=mask)
    keep_1 = draw_keep(x, x.shape, rate, rng)
    x = x + dropout(a, keep_1, rate)

    h, norm_2 = norm(p["norm_2"], x, eps=eps)
    f, ffn = feed_forward(p["feed_forward"], h)
    keep_2 = draw_keep(x, x.shape, rate, rng)
    y = x + dropout(f, keep_2, rate)
    return y, BlockCache(norm_1, attention, keep_1, norm_2, ffn, keep_2, rate)


def pre_block_backward(p, dy, cache):
    """The mirror of `pre_block`: at each residual the gradient goes both ways and is added. -> dx, grads."""
    df = dropout_backward(dy, cache.keep_2, cache.rate)
    dh, ffn = feed_forward_backward(p["feed_forward"], df, cache.feed_forward)
    dx, norm_2 = norm_backward(p["norm_2"], dh, cache.norm_2)
    dx = dx + dy                                             # y = x + ...

    da = dropout_backward(dx, cache.keep_1, cache.rate)
    dq, dkv, attention = multi_head_attention_backward(p["attention"], da, cache.attention)
    dh, norm_1 = norm_backward(p["norm_1"], dq + dkv, cache.norm_1)
    dx = dx + dh                                             # x = x + ...
    return dx, {"norm_1": norm_1, "attention": attention, "norm_2": norm_2, "feed_forward": ffn}


def post_block(p, x, *, heads, mask=None, eps=1e-5, rate=0.0, rng=None):
    """LN(x + dropout(attention(x))), then LN(x + dropout(ffn(x))). Shapes: x (..., n, D) -> y (..., n, D), cache."""
    a, attention = multi_head_attention(p["attention"], x, x, heads=heads, mask=mask)
    keep_1 = draw_keep(x, x.shape, rate, rng)
    x, norm_1 = norm(p["norm_1"], x + dropout(a, keep_1, rate), eps=eps)

    f, ffn = feed_forward(p["feed_forward"], x)
    keep_2 = draw_keep(x, x.shape, rate, rng)
    y, norm_2 = norm(p["norm_2"], x + dropout(f, keep_2, rate), eps=eps)
    return y, BlockCache(norm_1, attention, keep_1, norm_2, ffn, keep_2, rate)


def post_block_backward(p, dy, cache):
    """The mirror of `post_block`: every path, residuals too, passes the norms. -> dx, grads."""
    du, norm_2 = norm_backward(p["norm_2"], dy, cache.norm_2)
    df = dropout_backward(du, cache.keep_2, cache.rate)
    dx, ffn = feed_forward_backward(p["feed_forward"], df, cache.feed_forward)
    dx = dx + du                                             # u = x + ...

    du, norm_1 = norm_backward(p["norm_1"], dx, cache.norm_1)
    da = dropout_backward(du, cache.keep_1, cache.rate)
    dq, dkv, attention = multi_head_attention_backward(p["attention"], da, cache.attention)
    dx = dq + dkv + du                                       # u = x + ...
    return dx, {"norm_1": norm_1, "attention": attention, "norm_2": norm_2, "feed_forward": ffn}


def sasrec_block(p, x, *, heads, mask=None, eps=1e-5, rate=0.0, rng=None):
    """q = LN(x), u = q + attention(q, x); h = LN(u), y = h + ffn(h). Shapes: x (..., n, D) -> y (..., n, D), cache."""
    q, norm_1 = norm(p["norm_1"], x, eps=eps)
    a, attention = multi_head_attention(p["attention"], q, x, heads=heads, mask=mask, rate=rate, rng=rng)
    u = q + a                                                # not x + a: the residual of the normed

    h, norm_2 = norm(p["norm_2"], u, eps=eps)
    f, ffn = feed_forward(p["feed_forward"], h, rate=rate, rng=rng)
    keep_2 = draw_keep(x, x.shape, rate, rng)
    y = h + dropout(f, keep_2, rate)
    return y, BlockCache(norm_1, attention, None, norm_2, ffn, keep_2, rate)


def sasrec_block_backward(p, dy, cache):
    """The mirror of `sasrec_block`: x is read by the norm and, raw, by keys and values. -> dx, grads."""
    df = dropout_backward(dy, cache.keep_2, cache.rate)
    dh, ffn = feed_forward_backward(p["feed_forward"], df, cache.feed_forward)
    du, norm_2 = norm_backward(p["norm_2"], dh + dy, cache.norm_2)       # y = h + ...

    dq, dkv, attention = multi_head_attention_backward(p["attention"], du, cache.attention)
    dx, norm_1 = norm_backward(p["norm_1"], dq + du, cache.norm_1)       # u = q + ...
    dx = dx + dkv                                                        # keys and values saw the raw x
    return dx, {"norm_1": norm_1, "attention": attention, "norm_2": norm_2, "feed_forward": ffn}


class Block(NamedTuple):
    """A form of the block: a new one is three functions and one line in BLOCKS."""

    forward: Any
    backward: Any
    at: Any          # forward alone, at one position of each sequence


BLOCKS = {
    "pre": Block(pre_block, pre_block_backward, pre_block_at),
    "post": Block(post_block, post_block_backward, post_block_at),
    "sasrec": Block(sasrec_block, sasrec_block_backward, sasrec_block_at),
}
