"""Full attention: every query is compared with every key that the mask allows (Vaswani et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ...backend import Array
from ...ops import AttentionCache, Mask, attention, attention_backward, fused_attention, fused_attention_backward
from ..dropout_mask import dropout_mask
from ..readable import is_readable
from .mechanism import Mechanism


class FullCache(NamedTuple):
    attended: AttentionCache
    bias: Array | None = None     # (h, n, m)
    keep: Array | None = None     # (..., h, n, m): dropout of the weights
    rate: float = 0.0

    @property
    def weights(self) -> Array:
        """(..., h, n, m), before dropout."""
        return self.attended.weights


@dataclass(frozen=True)
class Full(Mechanism):
    """out = dropout(softmax(q kᵀ / √d + bias, mask)) v."""

    name = "full"
    takes = frozenset({"causal", "window", "lengths", "allowed", "dropout", "bias"})

    def forward(
        self, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
    ) -> tuple[Array, FullCache]:
        bias, n, m = terms.get("bias"), q.shape[-2], k.shape[-2]
        keep = dropout_mask(q, (*q.shape[:-1], m), rate, rng)
        if bias is None and keep is None and not is_readable():
            out, attended = fused_attention(q, k, v, mask)                      # the same numbers, sooner
            return out, FullCache(attended)
        out, weights = attention(q, k, v, mask.array(n, m, like=q), bias, keep, rate)
        return out, FullCache(AttentionCache(q, k, v, None, plain=weights), bias, keep, rate)

    def backward(
        self, p: Any, dout: Array, cache: FullCache
    ) -> tuple[Array, Array, Array, dict[str, Array], dict[str, Any]]:
        attended, bias, keep, rate = cache
        if attended.plain is None:
            return *fused_attention_backward(dout, attended), {}, {}
        q, k, v = attended[:3]
        dq, dk, dv, dbias = attention_backward(dout, q, k, v, attended.weights, bias, keep, rate)
        return dq, dk, dv, {} if bias is None else {"bias": dbias}, {}

    def as_full(self, mask: Mask) -> Mask | None:
        return mask
