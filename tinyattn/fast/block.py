"""The pre-LN block with its norms folded into the products that read them (`norm_linear`): a faster `pre_block`.

LayerNorm is folded into the projections of full attention, whose scaled queries, keys and values are one product, and
into the inner map of a feed-forward network with ReLU. Outputs, weights and gradients are those of `pre_block` to
rounding; tests/fast/test_block.py compares them.
"""

import math
from typing import Any, NamedTuple

from ..backend import Array, get_xp
from ..layers import BlockCache, FeedForward, LayerNorm, dense, dense_backward
from ..layers.dense import DenseCache
from ..layers.dropout_mask import add_dropped, dropped_backward
from ..layers.heads import merge, split
from ..layers.norm import NormCache
from ..ops import Mask, norm_linear, norm_linear_backward, relu, relu_backward
from . import kernels
from .tiles import in_tiles

QKV = ("query", "key", "value")


class FusedHeadsCache(NamedTuple):
    """`cache.weights` as in `MultiHeadCache`."""

    attended: Any
    output: DenseCache | None        # None where there is no output projection

    @property
    def weights(self) -> Array:
        return self.attended.weights


class FusedBlockCache(BlockCache):
    """What `fused_pre_block` saves; with ReLU, `feed_forward` is the cache of the outer map alone."""

    def backward(self, block: Any, p: Any, dy: Array) -> tuple[Array, dict[str, Any]]:
        return fused_pre_block_backward(block, p, dy, self)


def fused_pre_block(
    block: Any, p: Any, x: Array, *, rng: Any = None, mask: Mask | Array | None = None, slots: Array | None = None,
    at: Array | None = None,
) -> Any:  # fmt: skip
    """`Block.forward` of a pre-LN block with LayerNorm, and a sublayer into which the norm can be folded."""
    suits = at is None and block.form == "pre" and type(block.norm) is LayerNorm
    if not (suits and (block.mixer.is_plain or _is_relu(block) or kernels.suits(x))):
        return NotImplemented
    a, norm_1, attention = _normed_mixer(block, p["norm_1"], p["attention"], x, mask, slots)
    x, keep_1 = add_dropped(x, a, block.rate, rng)
    f, norm_2, ffn = _normed_feed_forward(block, p["norm_2"], p["feed_forward"], x)
    y, keep_2 = add_dropped(x, f, block.rate, rng)
    return y, FusedBlockCache(norm_1, attention, keep_1, norm_2, ffn, keep_2)


def fused_pre_block_backward(block: Any, p: Any, dy: Array, cache: FusedBlockCache) -> tuple[Array, dict[str, Any]]:
    """The mirror of `fused_pre_block`. -> dx, grads."""
    df = dropped_backward(dy, cache.keep_2, block.rate)
    dx, norm_2, ffn = _normed_feed_forward_backward(block, p["norm_2"], p["feed_forward"], df, cache)
    dx += dy                                                 # y = x + ...
    da = dropped_backward(dx, cache.keep_1, block.rate)
    dh, norm_1, attention = _normed_mixer_backward(block, p["norm_1"], p["attention"], da, cache)
    dh += dx                                                 # x = x + ...
    return dh, {"norm_1": norm_1, "attention": attention, "norm_2": norm_2, "feed_forward": ffn}


def _normed_mixer(
    block: Any, norm: Any, p: Any, x: Array, mask: Mask | Array | None, slots: Array | None
) -> tuple[Array, Any, Any]:
    """attention(LN(x)); the norm is folded into the projections of full attention. Kernels make fewer calls apart."""
    if not block.mixer.is_plain or kernels.suits(x):
        h, normed = block.norm.forward(norm, x)
        a, attention = block.mixer.forward(p, h, mask=mask, slots=slots)
        return a, normed, attention
    heads = block.mixer.heads
    W, b = _side_by_side(p, heads)
    qkv, x_hat, rstd = norm_linear(x, norm["gamma"], norm["beta"], W, b, block.norm.eps)          # (..., n, 3 D)
    q, k, v = _three(split(qkv, 3 * heads))
    out, attended = in_tiles(q, k, v, mask, scale=1)
    y, output = merge(out), None
    if "output" in p:
        y, output = dense(p["output"], y)
    return y, NormCache(x_hat, rstd), FusedHeadsCache(attended, output)


def _normed_mixer_backward(
    block: Any, norm: Any, p: Any, dy: Array, cache: FusedBlockCache
) -> tuple[Array, dict[str, Any], dict[str, Any]]:
    if not isinstance(cache.attention, FusedHeadsCache):
        dh, _, grads = block.mixer.backward(p, dy, cache.attention)
        return *block.norm.backward(norm, dh, cache.norm_1), grads
    grads, heads, width, xp = {}, block.mixer.heads, dy.shape[-1], get_xp(dy)
    if cache.attention.output is not None:
        dy, grads["output"] = dense_backward(p["output"], dy, cache.attention.output)
    dqkv = xp.empty((*dy.shape[:-1], 3 * width), dtype=dy.dtype)
    cache.attention.attended.backward(split(dy, heads), into=_three(split(dqkv, 3 * heads)))
    W, _ = _side_by_side(p, heads)
    x_hat, rstd = cache.norm_1
    dx, dgamma, dbeta, dW, db = norm_linear_backward(dqkv, x_hat, rstd, norm["gamma"], norm["beta"], W)
    dW[:, :width] *= _scale(width, heads)                    # q / √d came out of W_q / √d and b_q / √d
    db[:width] *= _scale(width, heads)
    for i, name in enumerate(QKV):
        columns = slice(i * width, (i + 1) * width)
        grads[name] = {"W": xp.ascontiguousarray(dW[:, columns])}
        if "b" in p[name]:
            grads[name]["b"] = db[columns]
    return dx, {"gamma": dgamma, "beta": dbeta}, grads


def _normed_feed_forward(block: Any, norm: Any, p: Any, x: Array) -> tuple[Array, Any, Any]:
    """ffn(LN(x)); the norm is folded into the inner weights if ReLU follows, whose gradient needs only its output."""
    if not _is_relu(block) or kernels.suits(x):
        h, normed = block.norm.forward(norm, x)
        f, ffn = block.feed_forward.forward(p, h)
        return f, normed, ffn
    u, x_hat, rstd = norm_linear(x, norm["gamma"], norm["beta"], p["inner"]["W"], p["inner"]["b"], block.norm.eps)
    y, outer = dense(p["outer"], relu(u))
    return y, NormCache(x_hat, rstd), outer


def _normed_feed_forward_backward(
    block: Any, norm: Any, p: Any, dy: Array, cache: FusedBlockCache
) -> tuple[Array, dict[str, Any], dict[str, Any]]:
    if not isinstance(cache.feed_forward, DenseCache):
        dh, grads = block.feed_forward.backward(p, dy, cache.feed_forward)
        return *block.norm.backward(norm, dh, cache.norm_2), grads
    dh, outer = dense_backward(p["outer"], dy, cache.feed_forward)
    x_hat, rstd = cache.norm_2
    du = relu_backward(dh, cache.feed_forward.x)             # h = relu(u) is above 0 where u is
    dx, dgamma, dbeta, dW, db = norm_linear_backward(du, x_hat, rstd, norm["gamma"], norm["beta"], p["inner"]["W"])
    return dx, {"gamma": dgamma, "beta": dbeta}, {"inner": {"W": dW, "b": db}, "outer": outer}


def _is_relu(block: Any) -> bool:
    return type(block.feed_forward) is FeedForward and block.feed_forward.activation == "relu"


def _three(x: Array) -> tuple[Array, Array, Array]:
    """Views of the heads of q, of k and of v, in this order. Shapes: (..., 3 h, n, d) -> (..., h, n, d)."""
    h = x.shape[-3] // 3
    return x[..., :h, :, :], x[..., h : 2 * h, :, :], x[..., 2 * h :, :, :]


def _side_by_side(p: Any, heads: int) -> tuple[Array, Array | None]:
    """The weights (D, 3 D) and biases (3 D,) or None of queries / √d, keys and values."""
    xp, width = get_xp(p["query"]["W"]), p["query"]["W"].shape[0]
    W, b = xp.concatenate([p[name]["W"] for name in QKV], axis=1), None
    W[:, :width] *= _scale(width, heads)
    if "b" in p["query"]:
        b = xp.concatenate([p[name]["b"] for name in QKV])
        b[:width] *= _scale(width, heads)
    return W, b


def _scale(width: int, heads: int) -> float:
    """1 / √d, the scale of the scores: here it is folded into W_q, which has fewer numbers."""
    return math.sqrt(heads / width)
