"""Full attention: every query is compared with every key that the mask allows (Vaswani et al. 2017)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...backend import Array
from ...ops import (
    AttentionCache,
    Mask,
    attention,
    attention_backward,
    dropout,
    dropout_backward,
    flash_attention,
    flash_attention_backward,
    fused_attention,
    fused_attention_backward,
    relative_values,
    relative_values_backward,
    softmax_backward,
)
from ...ops.shapes import transpose_last, unbroadcast
from ...random import PairMask, pair_mask
from ..dropout_mask import dropout_mask
from ..readable import is_readable
from .mechanism import Mechanism

# From so many keys on weights are not kept but made again; benchmarks/results/long_attention.md says what that costs.
LONG, LONG_WITH_DROPOUT = 2048, 512


class FullCache(NamedTuple):
    attended: AttentionCache
    bias: Array | None = None     # (h, n, m), or (..., h, n, m)
    keep: Array | None = None     # (..., h, n, m): dropout of the weights
    rate: float = 0.0
    a: Array | None = None        # (2 K + 1, d): a value more for every distance

    @property
    def weights(self) -> Array:
        """(..., h, n, m), before dropout."""
        return self.attended.weights


class FlashCache(NamedTuple):
    q: Array
    k: Array
    v: Array
    out: Array
    L: Array
    mask: Mask
    keep: PairMask | None         # dropout of the weights

    @property
    def weights(self) -> Array:
        """(..., h, n, m), before dropout: made here, and only for who asks."""
        allowed = self.mask.array(self.q.shape[-2], self.k.shape[-2], like=self.q)
        return attention(self.q, self.k, self.v, allowed)[1]


@dataclass(frozen=True)
class Full(Mechanism):
    """out = dropout(softmax(q kᵀ / √d + bias, mask)) v; with relative values, v_j + a_{j-i} in the place of v_j."""

    name = "full"
    takes = frozenset({"causal", "window", "lengths", "allowed", "dropout", "bias", "relative_values"})

    def forward(
        self, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
    ) -> tuple[Array, FullCache | FlashCache]:
        bias, a, n, m = terms.get("bias"), terms.get("relative_values"), q.shape[-2], k.shape[-2]
        dropping = rng is not None and rate > 0
        if bias is None and a is None and not is_readable():                    # the same numbers, sooner:
            if m >= (LONG_WITH_DROPOUT if dropping else LONG):
                kept = pair_mask(rng, rate) if dropping else None
                out, L = flash_attention(q, k, v, mask, kept)
                return out, FlashCache(q, k, v, out, L, mask, kept)
            if not dropping:
                out, attended = fused_attention(q, k, v, mask)
                return out, FullCache(attended)
        keep = dropout_mask(q, (*q.shape[:-1], m), rate, rng)
        out, weights = attention(q, k, v, mask.array(n, m, like=q), bias, keep, rate)
        if a is not None:
            out += relative_values(dropout(weights, keep, rate), a)
        return out, FullCache(AttentionCache(q, k, v, None, plain=weights), bias, keep, rate, a)

    def backward(
        self, p: Any, dout: Array, cache: FullCache | FlashCache
    ) -> tuple[Array, Array, Array, dict[str, Array], dict[str, Any]]:
        if isinstance(cache, FlashCache):
            return *flash_attention_backward(dout, *cache), {}, {}
        attended, bias, keep, rate, a = cache
        if attended.plain is None:
            return *fused_attention_backward(dout, attended), {}, {}
        q, k, v = attended[:3]
        if a is not None:
            return *_with_relative_values(dout, q, k, v, attended.weights, bias, keep, rate, a), {}
        dq, dk, dv, dbias = attention_backward(dout, q, k, v, attended.weights, bias, keep, rate)
        return dq, dk, dv, {} if bias is None else {"bias": dbias}, {}

    def as_full(self, mask: Mask, heads: int, queries: Array, m: int) -> Mask | None:
        return mask


def _with_relative_values(
    dout: Array, q: Array, k: Array, v: Array, weights: Array, bias: Array | None, keep: Array | None, rate: float,
    a: Array,
) -> tuple[Array, Array, Array, dict[str, Array]]:  # fmt: skip
    """`attention_backward` where out has two terms: weights get gradients of both. -> dq, dk, dv, those of terms."""
    dropped, c = dropout(weights, keep, rate), 1 / math.sqrt(q.shape[-1])
    dmore, da = relative_values_backward(dout, dropped, a)                      # out += dropped, times a
    dp = dropout_backward(dout @ transpose_last(v) + dmore, keep, rate)         # out = dropped @ v
    ds = softmax_backward(dp, weights)
    terms = {"relative_values": da} | ({} if bias is None else {"bias": unbroadcast(ds, bias.shape)})
    return ds @ k * c, transpose_last(ds) @ q * c, transpose_last(dropped) @ dout, terms
