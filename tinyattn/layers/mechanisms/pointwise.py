"""Pointwise attention: SiLU of the scores in place of softmax (Zhai et al. 2024, HSTU)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...backend import Array, get_xp
from ...ops import Mask, pointwise_attention, pointwise_attention_backward, pointwise_weights
from ..heads import for_each_head
from .mechanism import KeysValues, Mechanism


class PointwiseCache(NamedTuple):
    q: Array
    k: Array
    v: Array
    s: Array                      # (..., h, n, m): the scores
    mask: Array | None
    bias: Array | None

    @property
    def weights(self) -> Array:
        """(..., h, n, m): of either sign; they do not sum to 1."""
        return pointwise_weights(self.s, self.mask)


@dataclass(frozen=True)
class Pointwise(Mechanism):
    """out_i = (1 / N_i) Σ_j silu(q_i · k_j + bias_ij) v_j, over the N_i keys that query i may look at."""

    name = "pointwise"
    takes = frozenset({"causal", "window", "lengths", "allowed", "bias"})
    sums_to_one = False
    linear_memory = False            # all n² scores are kept
    extends = True

    def forward(
        self, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
    ) -> tuple[Array, PointwiseCache]:
        allowed, bias = mask.array(q.shape[-2], k.shape[-2], like=q), terms.get("bias")
        out, s = pointwise_attention(q, k, v, allowed, bias)
        return out, PointwiseCache(q, k, v, s, allowed, bias)

    def backward(
        self, p: Any, dout: Array, cache: PointwiseCache
    ) -> tuple[Array, Array, Array, dict[str, Array], dict[str, Any]]:
        dq, dk, dv, dbias = pointwise_attention_backward(dout, *cache)
        return dq, dk, dv, {} if dbias is None else {"bias": dbias}, {}

    def extend(
        self, q: Array, k: Array, v: Array, past: KeysValues | None, terms: Callable[[Array, Array], dict[str, Array]]
    ) -> tuple[Array, KeysValues]:
        kept, heads, n = KeysValues.with_new(past, k, v), q.shape[-3], q.shape[-2]
        m = kept.k.rows.shape[-2]
        allowed = Mask(causal=True).rows(get_xp(q).arange(m - n, m)[None, :, None], m, q)
        every = for_each_head(kept.k.rows, heads), for_each_head(kept.v.rows, heads)
        return pointwise_attention(q, *every, allowed, terms(q, kept.k.rows).get("bias"))[0], kept
