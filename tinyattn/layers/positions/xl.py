"""Transformer-XL's relative positions: sinusoids of the distance, and two biases (Dai et al. 2019, section 3.3)."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...ops import linear, linear_backward, relative_scores, relative_scores_backward, sinusoids
from ...ops.shapes import transpose_last, unbroadcast
from ..dense import glorot
from ..heads import for_each_head
from .position import Position


class XLCache(NamedTuple):
    q_v: Array        # (B, h, n, d): q + v
    k: Array
    R: Array          # (2 K + 1, D): sinusoids of the distances
    r: Array          # (h, 2 K + 1, d): projected


@dataclass(frozen=True)
class XL(Position):
    """score_ij = (q_i · k_j + q_i · r_{i-j} + u · k_j + v · r_{i-j}) / √d, with r = R W_R.

    The query is compared with content and with distance; so are u and v, vectors of each head that are the same for
    all queries. The mechanism computes the first term; the others are a bias.
    """

    name = "xl"
    gives = frozenset({"bias"})

    def init_heads(self, rng: np.random.Generator, heads: int, width: int) -> dict[str, Any]:
        dim = heads * width
        return {"W": glorot(rng, dim, dim), "u": glorot(rng, heads, width), "v": glorot(rng, heads, width)}

    def enter(self, p: Any, q: Array, k: Array, slots: Array) -> tuple[Array, Array, dict[str, Array], XLCache]:
        n, m, (h, d) = q.shape[-2], k.shape[-2], p["u"].shape
        R = _sinusoids(get_xp(q), max(n, m, 1) - 1, h * d, q.dtype)
        r = linear(R, p["W"]).reshape(-1, h, d).swapaxes(0, 1)
        q_v = q + p["v"][:, None, :]
        bias = relative_scores(q_v, r, m)                                # (q + v) · r
        bias += p["u"][:, None, :] @ transpose_last(k)                   # u · k: (..., h, 1, m), for all queries
        bias *= 1 / math.sqrt(d)
        return q, k, {"bias": bias}, XLCache(q_v, k, R, r)

    def terms(self, p: Any, q: Array, k: Array) -> dict[str, Array]:
        """As in `Shaw.terms`, read backwards."""
        m, (h, d) = k.shape[-2], p["u"].shape
        r = linear(_sinusoids(get_xp(q), m - 1, h * d, q.dtype), p["W"]).reshape(-1, h, d).swapaxes(0, 1)
        bias = relative_scores((q + p["v"][:, None, :])[..., ::-1, :], r[..., ::-1, :], m)[..., ::-1, ::-1]
        return {"bias": (bias + p["u"][:, None, :] @ transpose_last(for_each_head(k, h))) * (1 / math.sqrt(d))}

    def enter_backward(
        self, p: Any, dq: Array, dk: Array, dterms: dict[str, Array], cache: XLCache
    ) -> tuple[Array, Array, dict[str, Any]]:
        q_v, k, R, r = cache
        xp, (h, d) = get_xp(dq), p["u"].shape
        ds = dterms["bias"] * (1 / math.sqrt(d))
        by_key = xp.sum(ds, axis=-2, keepdims=True)                      # (..., h, 1, m): all queries share u · k
        dk_more = transpose_last(by_key) * p["u"][:, None, :]
        du = unbroadcast(by_key @ k, (h, 1, d)).reshape(h, d)
        dq_v, dr = relative_scores_backward(ds, q_v, r)
        dv = unbroadcast(dq_v, (h, 1, d)).reshape(h, d)                  # q + v
        _, dW, _ = linear_backward(dr.swapaxes(0, 1).reshape(-1, h * d), R, p["W"])
        return dq + dq_v, dk + dk_more, {"W": dW, "u": du, "v": dv}


@lru_cache(256)
def _sinusoids(xp: Any, furthest: int, dim: int, dtype: Any) -> Array:
    """R_{i-j} in the order of j - i = -K to K. Only ever read."""
    return sinusoids(xp.arange(furthest, -furthest - 1, -1), dim, dtype)
