"""A mechanism whose scores are refined before their softmax (AWRSR; Liu et al. 2024)."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...ops import Mask, softmax, softmax_backward
from ...ops.shapes import transpose_last
from ..dropout_mask import dropout_mask
from ..refinements import Refinement, pairs_allowed
from .full import scores_backward, weigh, weigh_backward
from .mechanism import Mechanism


class RefinedCache(NamedTuple):
    q: Array
    k: Array
    v: Array
    bias: Array | None
    refined: Any                # the refinement's
    weights: Array              # (..., h, n, n): softmax(B), before dropout
    keep: Array | None
    rate: float
    a: Array | None             # (2 K + 1, d): a relative value for every distance


@dataclass(frozen=True)
class Refined(Mechanism):
    """out = dropout(softmax(B, mask)) v, where the refinement computes B from A = q kᵀ / √d + bias.

    `of` is the mechanism whose mask applies; all n² scores are computed. `longest`: tokens of the longest sequence, the
    size of the maps. Raises ValueError for a mechanism without scores; and, when called, for longer sequences and for
    more or fewer keys than queries.
    """

    of: Mechanism
    refinement: Refinement
    longest: int

    needs_lengths = True                 # maps count places from the newest token
    linear_memory = False                # all n² scores and weights are kept

    def __post_init__(self) -> None:
        if not self.of.has_scores:
            raise ValueError(f"refinement {self.refinement.name} refines scores, and mechanism {self.of.name} has none")

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.of.name} refined by {self.refinement.name}"

    @property
    def takes(self) -> frozenset[str]:  # type: ignore[override]
        return self.of.takes

    @property
    def reads_all(self) -> bool:  # type: ignore[override]
        return self.refinement.reads_all

    def init(self, rng: np.random.Generator, heads: int, width: int) -> dict[str, Any]:
        return self.refinement.init(rng, heads, self.longest)

    def refuse_length(self, longest: int) -> None:
        self.of.refuse_length(longest)

    def refuse(self, mask: Mask, terms: dict[str, Array], dropout: bool) -> None:
        super().refuse(mask, terms, dropout)
        self.refinement.refuse(mask.causal)

    def forward(
        self, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
    ) -> tuple[Array, RefinedCache]:
        n, m = q.shape[-2], k.shape[-2]
        if n != m:
            raise ValueError(
                f"mechanism {self.name} has {n} queries and {m} keys, expected as many of each: "
                "it compares the scores of queries, and of keys"
            )
        full = self.of.as_full(mask, q.shape[-3], get_xp(q).arange(n)[None, :, None], n)
        assert full is not None, self.of.name
        allowed = pairs_allowed(full, n, like=q)
        s = (q * (1 / math.sqrt(q.shape[-1]))) @ transpose_last(k)                   # A, before it is masked
        bias, a = terms.get("bias"), terms.get("relative_values")
        if bias is not None:
            s += bias
        B, refined = self.refinement.forward(p, s, allowed, q.shape[-1], full.lengths)
        weights = softmax(B, allowed)
        keep = dropout_mask(q, weights.shape, rate, rng)
        out = weigh(weights, v, keep, rate, a)
        return out, RefinedCache(q, k, v, bias, refined, weights, keep, rate, a)

    def backward(
        self, p: Any, dout: Array, cache: RefinedCache
    ) -> tuple[Array, Array, Array, dict[str, Array], dict[str, Any]]:
        q, k, v, bias, refined, weights, keep, rate, a = cache
        dweights, dv, da = weigh_backward(dout, weights, v, keep, rate, a)
        ds, d_refinement = self.refinement.backward(p, softmax_backward(dweights, weights), refined)
        dq, dk, terms = scores_backward(ds, q, k, bias)
        return dq, dk, dv, terms if da is None else terms | {"relative_values": da}, d_refinement


def refined(mechanism: Mechanism, refinement: Refinement, longest: int) -> Mechanism:
    """The mechanism with its scores refined; itself where nothing refines them."""
    return mechanism if refinement.identity else Refined(mechanism, refinement, longest)
