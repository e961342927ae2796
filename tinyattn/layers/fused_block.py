"""The pre-LN block once more, arranged for speed: what models train with. `pre_block` is the one to read.

Same parameters, same numbers to rounding, fewer passes over the tokens: each LayerNorm is worked into the weights
that read it (`norm_linear`), and queries, keys and values come out of one product, the queries scaled already.
"""

import math
from typing import Any, NamedTuple

from ..backend import get_xp
from ..ops import (
    Looked,
    dropout,
    dropout_backward,
    fused_attention,
    fused_attention_backward,
    norm_linear,
    norm_linear_backward,
    relu,
    relu_backward,
)
from .block import BLOCKS, Block
from .block_at import pre_block_at
from .dense import DenseCache, dense, dense_backward
from .drop import draw_keep
from .multi_head import merge, split
from .norm import NormCache

QKV = ("query", "key", "value")


class FusedBlockCache(NamedTuple):
    """What one call remembers; `cache.attention.weights` is a picture waiting to be drawn, here too."""

    norm_1: NormCache
    attention: Looked
    output: DenseCache | None        # None where there is no output projection
    keep_1: Any                      # (..., n, D) or None
    norm_2: NormCache
    outer: DenseCache
    keep_2: Any                      # (..., n, D) or None
    rate: float


def fused_pre_block(p, x, *, heads, mask=None, eps=1e-5, rate=0.0, rng=None):
    """x + dropout(attention(LN(x))), then x + dropout(ffn(LN(x))). Shapes: x (..., n, D) -> y (..., n, D), cache."""
    gamma, beta = p["norm_1"]["gamma"], p["norm_1"]["beta"]
    W, b = _side_by_side(p["attention"], heads)
    qkv, x_hat, rstd = norm_linear(x, gamma, beta, W, b, eps)                               # (..., n, 3 D)
    norm_1 = NormCache(x_hat, rstd)
    q, k, v = _three(split(qkv, 3 * heads))
    a, attention = fused_attention(q, k, v, mask, scale=1)
    a, output = merge(a), None
    if "output" in p["attention"]:
        a, output = dense(p["attention"]["output"], a)
    keep_1 = draw_keep(x, x.shape, rate, rng)
    x = x + dropout(a, keep_1, rate)

    gamma, beta, inner = p["norm_2"]["gamma"], p["norm_2"]["beta"], p["feed_forward"]["inner"]
    u, x_hat, rstd = norm_linear(x, gamma, beta, inner["W"], inner["b"], eps)               # (..., n, hidden)
    norm_2 = NormCache(x_hat, rstd)
    f, outer = dense(p["feed_forward"]["outer"], relu(u))
    keep_2 = draw_keep(x, x.shape, rate, rng)
    y = dropout(f, keep_2, rate)
    y += x                                                   # in place: f is this function's own
    return y, FusedBlockCache(norm_1, attention, output, keep_1, norm_2, outer, keep_2, rate)


def fused_pre_block_backward(p, dy, cache):
    """The mirror of `fused_pre_block`. -> dx, grads shaped like p."""
    grads: dict[str, Any] = {"norm_1": {}, "attention": {}, "norm_2": {}, "feed_forward": {"inner": {}}}
    df = dropout_backward(dy, cache.keep_2, cache.rate)
    dh, grads["feed_forward"]["outer"] = dense_backward(p["feed_forward"]["outer"], df, cache.outer)
    du = relu_backward(dh, cache.outer.x)                    # h = relu(u) is above 0 where u is
    gamma, beta, inner = p["norm_2"]["gamma"], p["norm_2"]["beta"], grads["feed_forward"]["inner"]
    dx, grads["norm_2"]["gamma"], grads["norm_2"]["beta"], inner["W"], inner["b"] = norm_linear_backward(
        du, cache.norm_2.x_hat, cache.norm_2.rstd, gamma, beta, p["feed_forward"]["inner"]["W"]
    )
    dx += dy                                                 # y = x + ...

    da = dropout_backward(dx, cache.keep_1, cache.rate)
    if cache.output is not None:
        da, grads["attention"]["output"] = dense_backward(p["attention"]["output"], da, cache.output)
    heads, width, xp = cache.attention.q.shape[-3], dx.shape[-1], get_xp(dx)
    dqkv = xp.empty((*dx.shape[:-1], 3 * width), dtype=dx.dtype)
    fused_attention_backward(split(da, heads), cache.attention, into=_three(split(dqkv, 3 * heads)))
    gamma, beta, (W, _) = p["norm_1"]["gamma"], p["norm_1"]["beta"], _side_by_side(p["attention"], heads)
    dh, grads["norm_1"]["gamma"], grads["norm_1"]["beta"], dW, db = norm_linear_backward(
        dqkv, cache.norm_1.x_hat, cache.norm_1.rstd, gamma, beta, W
    )
    dx += dh                                                 # x = x + ...
    dW[:, :width] *= _scale(width, heads)                    # q / √d came out of W_q / √d and b_q / √d
    db[:width] *= _scale(width, heads)
    for i, name in enumerate(QKV):
        own = slice(i * width, (i + 1) * width)
        grads["attention"][name] = {"W": xp.ascontiguousarray(dW[:, own])}
        if "b" in p["attention"][name]:
            grads["attention"][name]["b"] = db[own]
    return dx, grads


def _three(x):
    """Views of the heads of q, of k and of v, which stand in this order. Shapes: (..., 3 h, n, d) -> (..., h, n, d)."""
    h = x.shape[-3] // 3
    return x[..., :h, :, :], x[..., h : 2 * h, :, :], x[..., 2 * h :, :, :]


def _side_by_side(p, heads):
    """The weights (D, 3 D) and biases (3 D,) or None of queries / √d, keys and values."""
    xp, width = get_xp(p["query"]["W"]), p["query"]["W"].shape[0]
    W, b = xp.concatenate([p[name]["W"] for name in QKV], axis=1), None
    W[:, :width] *= _scale(width, heads)
    if "b" in p["query"]:
        b = xp.concatenate([p[name]["b"] for name in QKV])
        b[:width] *= _scale(width, heads)
    return W, b


def _scale(width, heads):
    """1 / √d, by which attention divides its scores: here it is worked into W_q, which has fewer numbers."""
    return math.sqrt(heads / width)


# What models run: every form of the block, the fast one where there is one.
FUSED_BLOCKS = {**BLOCKS, "pre": Block(fused_pre_block, fused_pre_block_backward, pre_block_at)}
