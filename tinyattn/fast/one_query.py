"""Multi-head attention of one query per sequence, without computing keys and values. For inference."""

import math
from typing import Any

from ..backend import Array
from ..layers import MultiHead, dense, gather_rows
from ..layers.heads import for_each_head, merge, split
from ..ops import Mask, as_mask, softmax
from ..ops.shapes import row_sum, transpose_last


def multi_head_at(
    mixer: Any, p: Any, x: Array, memory: Array | None, at: Array, *, mask: Mask | Array | None = None,
    slots: Array | None = None,
) -> Any:  # fmt: skip
    """`Mixer.at` of multi-head attention, if full attention has the same result and no positions act at the heads."""
    if not isinstance(mixer, MultiHead):
        return NotImplemented
    memory, mask = x if memory is None else memory, as_mask(mask)
    mixer.mechanism.refuse(mask, {}, dropout=False)
    as_full = mixer.mechanism.as_full(mask, mixer.heads, at[:, None, None, None], memory.shape[1])
    if as_full is None or mixer.position.at_heads or mixer.activated:
        return NotImplemented
    row = as_full.row(at, memory.shape[1], like=x)
    return attention_of_one(p, gather_rows(x, at), memory, heads=mixer.heads, kv_heads=mixer.groups, mask=row)


def attention_of_one(
    p: Any, x: Array, memory: Array, *, heads: int, kv_heads: int | None = None, mask: Array | None = None
) -> Array:
    """`multi_head_attention` of one query per sequence, without computing keys and values. For inference.

    W_k can multiply the query instead of the tokens, and W_v the weighted sum of the tokens:

        q · (W_kᵀ m + b_k)  =  (W_k q) · m + q · b_k            for every token m of the memory
        Σ w (W_vᵀ m + b_v)  =  W_vᵀ (Σ w m) + b_v Σ w

    So W_k multiplies one query and W_v one sum, instead of n tokens each. q · b_k is the same for all tokens, so it
    does not change softmax. Shapes: x (B, 1, D), memory (B, n, D), mask onto (B, heads, 1, n) -> y (B, 1, D).
    """

    def of_heads(W: Array) -> Array:
        """The columns of W_k, W_v or a bias for each head; shared ones are repeated."""
        return for_each_head(split(W, kv_heads or heads), heads)

    q, _ = dense(p["query"], x)
    q = split(q, heads)                                              # (B, h, 1, d)
    memory = memory[:, None]                                         # (B, 1, n, D), the same for all heads
    s = q @ transpose_last(of_heads(p["key"]["W"]))                       # (B, h, 1, d) (h, d, D) -> (B, h, 1, D)
    s = s @ transpose_last(memory)                                   # (B, h, 1, D) (B, 1, D, n) -> (B, h, 1, n)
    s *= 1 / math.sqrt(q.shape[-1])
    weights = softmax(s, mask)                                       # (B, h, 1, n)
    a = weights @ memory @ of_heads(p["value"]["W"])                      # (B, h, 1, D) (h, D, d) -> (B, h, 1, d)
    a = merge(a)
    if "b" in p["value"]:
        a += merge(row_sum(weights) * of_heads(p["value"]["b"][None]))
    return dense(p["output"], a)[0] if "output" in p else a
