"""Multi-head attention: several small attentions side by side (Vaswani et al. 2017, section 3.2.2)."""

from typing import Any, NamedTuple

from ..ops import Looked, attention, attention_backward, fused_attention, fused_attention_backward
from .dense import DenseCache, dense, dense_backward, dense_init
from .drop import draw_keep


def multi_head_init(rng, dim, *, bias=True, output=True):
    """Parameters: query, key, value and, unless `output` is False, output; each {"W": (dim, dim), "b": (dim,)}."""
    names = ["query", "key", "value"] + (["output"] if output else [])
    return {name: dense_init(rng, dim, dim, bias) for name in names}


class MultiHeadCache(NamedTuple):
    query: DenseCache
    key: DenseCache
    value: DenseCache
    looked: Looked              # its `weights` (..., h, n, m), before dropout, say who looks at whom
    keep: Any                   # (..., h, n, m) or None
    rate: float
    output: DenseCache | None   # None where there is no output projection

    @property
    def weights(self) -> Any:
        return self.looked.weights


def multi_head_attention(p, x, memory, *, heads, mask=None, rate=0.0, rng=None):
    """Queries from x, keys and values from memory; self-attention is `memory = x`.

    y = concat_h(attention(x Wq_h, memory Wk_h, memory Wv_h)) Wo. The output projection is left out where `p`
    has none, as in SASRec. Dropout falls on the attention weights.

    Shapes: x (..., n, D), memory (..., m, D); mask broadcasts to (..., heads, n, m), so a mask of one sequence
    each is (B, 1, n, m) -> y (..., n, D), cache.
    Raises ValueError where heads does not divide D.
    """
    q, query = dense(p["query"], x)                             # (..., n, D)
    k, key = dense(p["key"], memory)                            # (..., m, D)
    v, value = dense(p["value"], memory)
    q, k, v = split(q, heads), split(k, heads), split(v, heads)  # (..., h, n or m, D / h)
    keep = draw_keep(x, (*q.shape[:-1], k.shape[-2]), rate, rng)
    if keep is None:
        out, looked = fused_attention(q, k, v, mask)            # the same numbers, sooner
    else:
        out, weights = attention(q, k, v, mask, keep=keep, rate=rate)
        looked = Looked(q, k, v, None, plain=weights)
    y, output = merge(out), None                                # (..., n, D)
    if "output" in p:
        y, output = dense(p["output"], y)
    return y, MultiHeadCache(query, key, value, looked, keep, rate, output)


def multi_head_attention_backward(p, dy, cache):
    """-> dx (..., n, D), dmemory (..., m, D), grads. Self-attention adds the two: x was read in both places."""
    grads = {}
    if cache.output is not None:
        dy, grads["output"] = dense_backward(p["output"], dy, cache.output)
    q, k, v = cache.looked[:3]                                  # (..., h, n or m, D / h)
    dout = split(dy, q.shape[-3])                               # out was merged: split undoes it
    if cache.keep is None:
        dq, dk, dv = fused_attention_backward(dout, cache.looked)
    else:
        dq, dk, dv, _ = attention_backward(dout, q, k, v, cache.weights, keep=cache.keep, rate=cache.rate)
    dx, grads["query"] = dense_backward(p["query"], merge(dq), cache.query)
    dmemory_k, grads["key"] = dense_backward(p["key"], merge(dk), cache.key)
    dmemory_v, grads["value"] = dense_backward(p["value"], merge(dv), cache.value)
    return dx, dmemory_k + dmemory_v, grads


def split(x, heads):
    """(..., n, D) -> (..., heads, n, D / heads). Head i owns columns i D/h to (i + 1) D/h: reshape, then swap."""
    *lead, n, dim = x.shape
    if heads < 1 or dim % heads:
        raise ValueError(f"heads = {heads} does not divide the dimension {dim}")
    return x.reshape(*lead, n, heads, dim // heads).swapaxes(-2, -3)


def merge(x):
    """(..., heads, n, d) -> (..., n, heads d): the inverse of `split`, and so its gradient."""
    *lead, heads, n, dim = x.shape
    return x.swapaxes(-2, -3).reshape(*lead, n, heads * dim)
