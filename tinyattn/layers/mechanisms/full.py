"""Full attention: every query is compared with every key that the mask allows (Vaswani et al. 2017)."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...backend import Array
from ...forms import replaceable
from ...ops import (
    Mask,
    attention,
    attention_backward,
    dropout,
    dropout_backward,
    relative_values,
    relative_values_backward,
    softmax_backward,
)
from ...ops.shapes import transpose_last, unbroadcast
from ..dropout_mask import dropout_mask
from .mechanism import Mechanism


class FullCache(NamedTuple):
    q: Array
    k: Array
    v: Array
    weights: Array                # (..., h, n, m), before dropout
    bias: Array | None = None     # (h, n, m), or (..., h, n, m)
    keep: Array | None = None     # (..., h, n, m): dropout of the weights
    rate: float = 0.0
    a: Array | None = None        # (2 K + 1, d): a relative value for every distance


@dataclass(frozen=True)
class Full(Mechanism):
    """out = dropout(softmax(q kᵀ / √d + bias, mask)) v; with relative values, v_j + a_{j-i} replaces v_j."""

    name = "full"
    has_scores = True
    looks_at_kept = True
    takes = frozenset({"causal", "window", "lengths", "allowed", "dropout", "bias", "relative_values"})

    @replaceable
    def forward(
        self, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
    ) -> tuple[Array, Any]:
        bias, a, n, m = terms.get("bias"), terms.get("relative_values"), q.shape[-2], k.shape[-2]
        keep = dropout_mask(q, (*q.shape[:-1], m), rate, rng)
        out, weights = attention(q, k, v, mask.array(n, m, like=q), bias, keep, rate)
        if a is not None:
            out += relative_values(dropout(weights, keep, rate), a)
        return out, FullCache(q, k, v, weights, bias, keep, rate, a)

    def backward(self, p: Any, dout: Array, cache: Any) -> tuple[Array, Array, Array, dict[str, Array], dict[str, Any]]:
        if not isinstance(cache, FullCache):                     # of a faster form
            return *cache.backward(dout), {}, {}
        q, k, v, weights, bias, keep, rate, a = cache
        if a is None:
            dq, dk, dv, dbias = attention_backward(dout, q, k, v, weights, bias, keep, rate)
            return dq, dk, dv, {} if bias is None else {"bias": dbias}, {}
        dp, dv, da = weigh_backward(dout, weights, v, keep, rate, a)
        dq, dk, terms = scores_backward(softmax_backward(dp, weights), q, k, bias)
        return dq, dk, dv, terms | {"relative_values": da}, {}

    def as_full(self, mask: Mask, heads: int, queries: Array, m: int) -> Mask | None:
        return mask


def weigh(weights: Array, v: Array, keep: Array | None, rate: float, a: Array | None) -> Array:
    """out = dropout(weights) v; with relative values a, v_j + a_{j-i} replaces v_j."""
    dropped = dropout(weights, keep, rate)
    out = dropped @ v
    if a is not None:
        out += relative_values(dropped, a)
    return out


def weigh_backward(
    dout: Array, weights: Array, v: Array, keep: Array | None, rate: float, a: Array | None
) -> tuple[Array, Array, Array | None]:
    """-> dweights, dv, da (None without a). With a, the weights get gradients from both terms of out."""
    dropped, da = dropout(weights, keep, rate), None
    dp, dv = dout @ transpose_last(v), transpose_last(dropped) @ dout            # out = dropped @ v
    if a is not None:
        more, da = relative_values_backward(dout, dropped, a)                    # out += dropped, times a
        dp += more
    return dropout_backward(dp, keep, rate), dv, da


def scores_backward(ds: Array, q: Array, k: Array, bias: Array | None) -> tuple[Array, Array, dict[str, Array]]:
    """The backward of s = q kᵀ / √d + bias. -> dq, dk, the gradients of terms."""
    c = 1 / math.sqrt(q.shape[-1])
    return ds @ k * c, transpose_last(ds) @ q * c, {} if bias is None else {"bias": unbroadcast(ds, bias.shape)}
