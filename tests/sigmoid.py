"""Sigmoid attention, added by CONTRIBUTING.md alone: weights that do not sum to 1 (Ramapuram et al. 2024)."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from tinyattn.backend import Array, get_xp
from tinyattn.layers.mechanisms.mechanism import Attended, Mechanism
from tinyattn.ops import Mask, sigmoid
from tinyattn.ops.shapes import transpose_last
from tinyattn.options import option


class SigmoidCache(NamedTuple):
    q: Array
    k: Array
    v: Array
    weights: Array


@dataclass(frozen=True)
class Sigmoid(Mechanism):
    """out = σ(q kᵀ / √d + b) v, 0 where the mask forbids: each pair is weighed for itself."""

    offset: float = option(-1.0, "b: added to the scores of sigmoid attention")

    name = "sigmoid"
    takes = frozenset({"causal", "window", "lengths", "allowed"})
    sums_to_one = False
    linear_memory = False            # all n² weights are kept

    def forward(
        self, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
    ) -> tuple[Array, Attended]:
        weights = sigmoid(q @ transpose_last(k) * (1 / math.sqrt(q.shape[-1])) + self.offset)
        allowed = mask.array(q.shape[-2], k.shape[-2], like=q)
        if allowed is not None:
            weights = get_xp(weights).where(allowed, weights, 0)
        return weights @ v, SigmoidCache(q, k, v, weights)

    def backward(
        self, p: Any, dout: Array, cache: SigmoidCache
    ) -> tuple[Array, Array, Array, dict[str, Array], dict[str, Any]]:
        q, k, v, weights = cache
        ds = (dout @ transpose_last(v)) * weights * (1 - weights) * (1 / math.sqrt(q.shape[-1]))
        return ds @ k, transpose_last(ds) @ q, transpose_last(weights) @ dout, {}, {}
