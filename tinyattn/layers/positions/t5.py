"""T5's biases: a learned number for every head and bucket of distances (Raffel et al. 2020, section 2.1)."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ...backend import Array, get_xp
from ...ops import bucket_bias, bucket_bias_backward, distance_buckets
from ...ops.positions.buckets import sides
from ...options import option
from ..dense import glorot
from .position import Position


@dataclass(frozen=True)
class T5(Position):
    """score_ij = q_i · k_j / √d + T[bucket(i - j), head].

    Each block has a table (T5 shares one among all). `causal`: no buckets for keys after the query.
    """

    buckets: int = option(32, "buckets: half for one distance each, half for ranges", at_least=2, at_most=100_000)
    furthest: int = option(128, "distances from here on share the last bucket", at_least=2)
    causal: bool = True

    name = "t5"
    gives = frozenset({"bias"})

    def __post_init__(self) -> None:
        super().__post_init__()
        sides(self.buckets, self.furthest, self.causal)         # refuses what does not fit

    def both_ways(self) -> "T5":
        return replace(self, causal=False)

    def init_heads(self, rng: np.random.Generator, heads: int, width: int) -> dict[str, Any]:
        return {"table": glorot(rng, self.buckets, heads)}

    def enter(self, p: Any, q: Array, k: Array, slots: Array) -> tuple[Array, Array, dict[str, Array], Array]:
        buckets = _buckets(get_xp(q), q.shape[-2], k.shape[-2], self.buckets, self.furthest, self.causal)
        return q, k, {"bias": bucket_bias(p["table"], buckets)}, buckets

    def terms(self, p: Any, q: Array, k: Array) -> dict[str, Array]:
        xp, n, m = get_xp(q), q.shape[-2], k.shape[-2]
        by_distance = _buckets(xp, m, 1, self.buckets, self.furthest, self.causal)[:, 0]
        far = xp.arange(m - n, m)[:, None] - xp.arange(m)
        return {"bias": bucket_bias(p["table"], by_distance[xp.maximum(far, 0)])}      # later keys are not looked at

    def enter_backward(
        self, p: Any, dq: Array, dk: Array, dterms: dict[str, Array], cache: Array
    ) -> tuple[Array, Array, dict[str, Any]]:
        return dq, dk, {"table": bucket_bias_backward(dterms["bias"], p["table"], cache)}


@lru_cache(32)
def _buckets(xp: Any, n: int, m: int, buckets: int, furthest: int, causal: bool) -> Array:
    return distance_buckets(n, m, xp.zeros(0), buckets, furthest, causal)                  # only ever read
