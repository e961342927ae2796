"""Relative positions at keys and values: a vector for every distance (Shaw et al. 2018, equations 3 and 4)."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backend import Array
from ...ops import relative_scores, relative_scores_backward
from ...options import option
from ..dense import glorot
from .position import Position


@dataclass(frozen=True)
class Shaw(Position):
    """score_ij = q_i · (k_j + a_r) / √d, and out_i = Σ_j weights_ij (v_j + b_r), with r = clip(j - i, -K, K).

    All heads share the vectors a and b. The vectors a make a bias of the scores; the mechanism adds the vectors b.
    """

    clip: int = option(16, "K: distances beyond it share a vector", at_least=0, at_most=100_000)

    name = "shaw"
    gives = frozenset({"bias", "relative_values"})

    def init_heads(self, rng: np.random.Generator, heads: int, width: int) -> dict[str, Any]:
        return {name: glorot(rng, 2 * self.clip + 1, width) for name in ("keys", "values")}

    def enter(self, p: Any, q: Array, k: Array, slots: Array) -> tuple[Array, Array, dict[str, Array], Array]:
        bias = relative_scores(q, p["keys"], k.shape[-2])
        bias *= 1 / math.sqrt(q.shape[-1])
        return q, k, {"bias": bias, "relative_values": p["values"]}, q

    def terms(self, p: Any, q: Array, k: Array) -> dict[str, Array]:
        """Read backwards, the last n of m tokens are the first, and every distance changes its sign."""
        bias = relative_scores(q[..., ::-1, :], p["keys"][::-1], k.shape[-2])[..., ::-1, ::-1]
        return {"bias": bias * (1 / math.sqrt(q.shape[-1])), "relative_values": p["values"]}

    def enter_backward(
        self, p: Any, dq: Array, dk: Array, dterms: dict[str, Array], cache: Array
    ) -> tuple[Array, Array, dict[str, Any]]:
        ds = dterms["bias"] * (1 / math.sqrt(cache.shape[-1]))
        dq_more, dkeys = relative_scores_backward(ds, cache, p["keys"])
        return dq + dq_more, dk, {"keys": dkeys, "values": dterms["relative_values"]}
