"""Full attention: every query is compared with every key that the mask allows (Vaswani et al. 2017)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...backend import Array
from ...ops import (
    AttentionCache,
    Mask,
    as_mask,
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
    keep: PairMask | None = None  # dropout of the weights
    scale: float | None = None

    @property
    def weights(self) -> Array:
        """(..., h, n, m), before dropout: computed on demand."""
        allowed = self.mask.array(self.q.shape[-2], self.k.shape[-2], like=self.q)
        return attention(self.q, self.k, self.v, allowed, scale=self.scale)[1]


def in_tiles(
    q: Array, k: Array, v: Array, mask: Mask | Array | None, keep: PairMask | None = None, scale: float | None = None
) -> tuple[Array, AttentionCache | FlashCache]:
    """`attention` without bias: of short sequences the weights are kept for the backward, of long ones made again."""
    if keep is None and k.shape[-2] < LONG:
        return fused_attention(q, k, v, mask, scale)
    mask = as_mask(mask)
    out, L = flash_attention(q, k, v, mask, keep, scale)
    return out, FlashCache(q, k, v, out, L, mask, keep, scale)


def in_tiles_backward(
    dout: Array, cache: AttentionCache | FlashCache, into: tuple[Array, Array, Array] | None = None
) -> tuple[Array, Array, Array]:
    """-> dq, dk, dv, which are written into the three arrays of `into`, if given."""
    if isinstance(cache, AttentionCache):
        return fused_attention_backward(dout, cache, into)
    gradients = flash_attention_backward(dout, *cache)
    for target, gradient in zip(into or (), gradients, strict=False):
        target[...] = gradient
    return gradients


@dataclass(frozen=True)
class Full(Mechanism):
    """out = dropout(softmax(q kᵀ / √d + bias, mask)) v; with relative values, v_j + a_{j-i} in the place of v_j."""

    name = "full"
    has_scores = True
    takes = frozenset({"causal", "window", "lengths", "allowed", "dropout", "bias", "relative_values"})

    def forward(
        self, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
    ) -> tuple[Array, AttentionCache | FlashCache | FullCache]:
        bias, a, n, m = terms.get("bias"), terms.get("relative_values"), q.shape[-2], k.shape[-2]
        dropping = rng is not None and rate > 0
        if bias is None and a is None and not is_readable() and (not dropping or m >= LONG_WITH_DROPOUT):
            return in_tiles(q, k, v, mask, pair_mask(rng, rate) if dropping else None)     # the same numbers, sooner
        keep = dropout_mask(q, (*q.shape[:-1], m), rate, rng)
        out, weights = attention(q, k, v, mask.array(n, m, like=q), bias, keep, rate)
        if a is not None:
            out += relative_values(dropout(weights, keep, rate), a)
        return out, FullCache(AttentionCache(q, k, v, None, plain=weights), bias, keep, rate, a)

    def backward(
        self, p: Any, dout: Array, cache: AttentionCache | FlashCache | FullCache
    ) -> tuple[Array, Array, Array, dict[str, Array], dict[str, Any]]:
        if not isinstance(cache, FullCache):
            return *in_tiles_backward(dout, cache), {}, {}
        attended, bias, keep, rate, a = cache
        q, k, v = attended[:3]
        if a is not None:
            return *_with_relative_values(dout, q, k, v, attended.weights, bias, keep, rate, a), {}
        dq, dk, dv, dbias = attention_backward(dout, q, k, v, attended.weights, bias, keep, rate)
        return dq, dk, dv, {} if bias is None else {"bias": dbias}, {}

    def as_full(self, mask: Mask, heads: int, queries: Array, m: int) -> Mask | None:
        return mask


def weigh(weights: Array, v: Array, keep: Array | None, rate: float, a: Array | None) -> Array:
    """out = dropout(weights) v; with relative values a, v_j + a_{j-i} in the place of v_j."""
    dropped = dropout(weights, keep, rate)
    out = dropped @ v
    if a is not None:
        out += relative_values(dropped, a)
    return out


def weigh_backward(
    dout: Array, weights: Array, v: Array, keep: Array | None, rate: float, a: Array | None
) -> tuple[Array, Array, Array | None]:
    """-> dweights, dv, da (None without a): where out has two terms, the weights get gradients of both."""
    dropped, da = dropout(weights, keep, rate), None
    dp, dv = dout @ transpose_last(v), transpose_last(dropped) @ dout            # out = dropped @ v
    if a is not None:
        more, da = relative_values_backward(dout, dropped, a)                    # out += dropped, times a
        dp += more
    return dropout_backward(dp, keep, rate), dv, da


def _with_relative_values(
    dout: Array, q: Array, k: Array, v: Array, weights: Array, bias: Array | None, keep: Array | None, rate: float,
    a: Array,
) -> tuple[Array, Array, Array, dict[str, Array]]:  # fmt: skip
    """`attention_backward` with relative values. -> dq, dk, dv, the gradients of terms."""
    dp, dv, da = weigh_backward(dout, weights, v, keep, rate, a)
    ds, c = softmax_backward(dp, weights), 1 / math.sqrt(q.shape[-1])
    terms = {"relative_values": da} | ({} if bias is None else {"bias": unbroadcast(ds, bias.shape)})
    return ds @ k * c, transpose_last(ds) @ q * c, dv, terms
