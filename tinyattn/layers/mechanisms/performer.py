"""Performer: softmax attention by random features, in time that grows with n (Choromanski et al. 2021)."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from ...backend import Array, get_xp
from ...ops import Mask, orthogonal_features, performer_attention, performer_attention_backward, performer_weights
from ...options import option
from ...random import Stream, generator
from .mechanism import Mechanism


class PerformerCache(NamedTuple):
    q: Array
    k: Array
    v: Array
    W: Array                    # (features, d)
    out: Array
    denominator: Array
    causal: bool
    keys: Array | None          # (B, 1, m), True = no padding

    @property
    def weights(self) -> Array:
        """(..., h, n, m): computed on demand from the features."""
        return performer_weights(self.q, self.k, self.W, self.causal, self.keys)


@dataclass(frozen=True)
class Performer(Mechanism):
    """out_i = Σ_j (φ(q_i)·φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j), φ(x) = exp(W x̂ - |x̂|²/2) / √m: softmax attention, roughly.

    W is not a parameter and is not saved. It is drawn from a key made of its shape alone, so that it is the same in all
    heads and blocks, in every run, with every seed and on every device.
    """

    features: int = option(
        64, "m, random features that stand for softmax: time and state grow with it, error falls with 1 / √m",
        at_least=1, at_most=100_000,
    )  # fmt: skip

    name = "performer"
    takes = frozenset({"causal", "lengths"})

    def forward(
        self, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
    ) -> tuple[Array, PerformerCache]:
        W = _drawn(get_xp(q), self.features, q.shape[-1], q.dtype)
        keys = mask.keys(k.shape[-2], like=k)
        out, denominator = performer_attention(q, k, v, W, mask.causal, keys)
        return out, PerformerCache(q, k, v, W, out, denominator, mask.causal, keys)

    def backward(
        self, p: Any, dout: Array, cache: PerformerCache
    ) -> tuple[Array, Array, Array, dict[str, Array], dict[str, Any]]:
        return *performer_attention_backward(dout, *cache), {}, {}


@lru_cache(8)
def _drawn(xp: Any, features: int, width: int, dtype: Any) -> Array:
    W = orthogonal_features(generator(0, Stream.FEATURES, features, width), features, width)
    return xp.asarray(W.astype(dtype))                          # only ever read
