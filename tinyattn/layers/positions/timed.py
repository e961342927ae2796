"""HSTU's biases: a learned number for every bucket of distances, and one for every bucket of time differences."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backend import Array, get_xp
from ...ops import bucket_bias_backward, embedding, embedding_backward, time_buckets
from ...options import option
from ..dense import glorot
from .position import Position
from .t5 import T5


@dataclass(frozen=True)
class Timed(T5):
    """score_ij = q_i · k_j / √d + T[bucket(i - j), head] + U[bucket(t_i - t_j), head], for items with times t.

    Zhai et al. 2024, equation 2; T is T5's table, U has a number for every step of the logarithm (`time_buckets`). Each
    block has its tables. There is no cache of earlier items.
    """

    time_buckets: int = option(128, "buckets of time differences, each 1.35 times as wide as the last", at_least=1,
                               at_most=100_000)  # fmt: skip

    name = "timed"
    takes_times = True
    terms = Position.terms           # T5's terms do not depend on times

    def init_heads(self, rng: np.random.Generator, heads: int, width: int) -> dict[str, Any]:
        return super().init_heads(rng, heads, width) | {"times": glorot(rng, self.time_buckets, heads)}

    def enter(self, p: Any, q: Array, k: Array, slots: Array) -> tuple[Array, Array, dict[str, Array], Any]:
        q, k, terms, distances = super().enter(p, q, k, slots)
        passed = time_buckets(slots, self.time_buckets)                                   # (B, n, n)
        of_times = get_xp(q).moveaxis(embedding(passed, p["times"]), -1, 1)               # (B, h, n, n)
        return q, k, {"bias": terms["bias"] + of_times}, (distances, passed)

    def enter_backward(
        self, p: Any, dq: Array, dk: Array, dterms: dict[str, Array], cache: Any
    ) -> tuple[Array, Array, dict[str, Any]]:
        xp, dbias, (distances, passed) = get_xp(dq), dterms["bias"], cache
        grads = {
            "table": bucket_bias_backward(xp.sum(dbias, axis=0), p["table"], distances),  # all sequences read it
            "times": embedding_backward(xp.moveaxis(dbias, 1, -1), passed, p["times"]),
        }
        return dq, dk, grads
