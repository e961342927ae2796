"""Linear attention: features of queries and keys replace softmax (Katharopoulos et al. 2020)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...backend import Array
from ...ops import Mask, linear_attention, linear_attention_backward, linear_weights
from ...ops.attention.by_features import causal_sum
from ...ops.attention.linear_attention import key_features, query_features
from ...ops.shapes import transpose_last, with_ones
from ..heads import for_each_head
from .mechanism import Mechanism


class LinearCache(NamedTuple):
    q: Array
    k: Array
    v: Array
    out: Array
    denominator: Array
    causal: bool
    keys: Array | None          # (B, 1, m), True = no padding

    @property
    def weights(self) -> Array:
        """(..., h, n, m): computed on demand from the features."""
        return linear_weights(self.q, self.k, self.causal, self.keys)


@dataclass(frozen=True)
class Linear(Mechanism):
    """out_i = Σ_j (φ(q_i)·φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j), φ(x) = ELU(x) + 1, in time that grows with n."""

    name = "linear"
    takes = frozenset({"causal", "lengths"})
    extends = True

    def forward(
        self, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
    ) -> tuple[Array, LinearCache]:
        keys = mask.keys(k.shape[-2], like=k)
        out, denominator = linear_attention(q, k, v, mask.causal, keys)
        return out, LinearCache(q, k, v, out, denominator, mask.causal, keys)

    def extend(
        self, q: Array, k: Array, v: Array, past: Array | None, terms: Callable[[Array, Array], dict[str, Array]]
    ) -> tuple[Array, Array]:
        """The cache is the sum S = Σ_j φ(k_j)ᵀ [v_j, 1], (B, g, d, d + 1), for any number of tokens."""
        a, b, c, heads = query_features(q), key_features(k), with_ones(v), q.shape[-3]
        y = causal_sum(a, for_each_head(b, heads), for_each_head(c, heads))
        S = transpose_last(b) @ c
        if past is not None:
            y += a @ for_each_head(past, heads)
            S += past
        return y[..., :-1] / y[..., -1:], S

    def backward(
        self, p: Any, dout: Array, cache: LinearCache
    ) -> tuple[Array, Array, Array, dict[str, Array], dict[str, Any]]:
        q, k, v, out, denominator, causal, keys = cache
        return *linear_attention_backward(dout, q, k, v, out, denominator, causal, keys), {}, {}
