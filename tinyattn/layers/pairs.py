"""A norm and the part that reads it: f(LN(x)). Some pairs have a faster form; it is chosen here, and nowhere else.

The readable pair is what the two say, one after the other. A faster form is held to it by tests/layers/test_pairs.py,
on every option of both, and gives the same caches' `weights` and the same gradients under the same names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from ..backend import Array, get_xp
from ..ops import (
    Mask,
    as_mask,
    norm_linear,
    norm_linear_backward,
    relu,
    relu_backward,
)
from ..ops.layer_norm import normalise
from .dense import DenseCache, dense, dense_backward
from .feed_forward import FeedForward
from .mechanisms import Full
from .mechanisms.full import in_tiles, in_tiles_backward
from .mixers.multi_head import MultiHead, attention_of_one, merge, split
from .norm import LayerNorm, NormCache
from .rows import gather_rows

QKV = ("query", "key", "value")


@dataclass(frozen=True)
class Pair:
    """f(LN(x)), for any norm and any f: a mixer or a feed-forward network."""

    norm: Any
    part: Any

    leaves: ClassVar[type] = object              # what its forward leaves as the part's cache

    def of(self, cache: Any) -> Pair:
        """The form of this pair that made the part's cache: its backward is the one to call."""
        fused = FUSED.get((type(self.norm), type(self.part)))
        form = fused if fused is not None and isinstance(cache, fused.leaves) else Pair
        return self if type(self) is form else form(self.norm, self.part)

    def forward(self, p_norm: Any, p: Any, x: Array, **context: Any) -> tuple[Array, Any, Any]:
        """-> y, the norm's cache, the part's. `context`: what the part takes beside its tokens."""
        h, normed = self.norm.forward(p_norm, x)
        y, cache = self.part.forward(p, h, **context)
        return y, normed, cache

    def backward(self, p_norm: Any, p: Any, dy: Array, normed: Any, cache: Any) -> tuple[Array, Any, Any]:
        """-> dx, the norm's grads, the part's."""
        dh, *_, grads = self.part.backward(p, dy, cache)
        dx, d_norm = self.norm.backward(p_norm, dh, normed)
        return dx, d_norm, grads

    def at(self, p_norm: Any, p: Any, x: Array, at: Array, **context: Any) -> Array:
        """Row `at` of each sequence, of a mixer, for inference. Shapes: x (B, n, D), at (B,) -> (B, 1, D)."""
        h, _ = self.norm.forward(p_norm, x)
        return self.part.at(p, h, None, at, **context)


class FusedHeadsCache(NamedTuple):
    """`cache.weights` is a picture waiting to be drawn, as in `MultiHeadCache`."""

    attended: Any
    output: DenseCache | None        # None where there is no output projection

    @property
    def weights(self) -> Array:
        return self.attended.weights


class NormedHeads(Pair):
    """LayerNorm, then multi-head full attention: the norm is worked into the weights that read it (`norm_linear`).

    Queries, keys and values come out of one product, and the queries scaled already.
    """

    leaves = FusedHeadsCache

    @staticmethod
    def suits(part: MultiHead) -> bool:
        return type(part.mechanism) is Full and not part.position.at_heads and part.groups == part.heads

    def forward(
        self, p_norm: Any, p: Any, x: Array, *, mask: Mask | Array | None = None, **context: Any
    ) -> tuple[Array, NormCache, Any]:
        heads = self.part.heads
        W, b = _side_by_side(p, heads)
        qkv, x_hat, rstd = norm_linear(x, p_norm["gamma"], p_norm["beta"], W, b, self.norm.eps)      # (..., n, 3 D)
        q, k, v = _three(split(qkv, 3 * heads))
        out, attended = in_tiles(q, k, v, mask, scale=1)
        y, output = merge(out), None
        if "output" in p:
            y, output = dense(p["output"], y)
        return y, NormCache(x_hat, rstd), FusedHeadsCache(attended, output)

    def backward(
        self, p_norm: Any, p: Any, dy: Array, normed: NormCache, cache: FusedHeadsCache
    ) -> tuple[Array, Any, Any]:
        grads, heads, width, xp = {}, self.part.heads, dy.shape[-1], get_xp(dy)
        if cache.output is not None:
            dy, grads["output"] = dense_backward(p["output"], dy, cache.output)
        dqkv = xp.empty((*dy.shape[:-1], 3 * width), dtype=dy.dtype)
        in_tiles_backward(split(dy, heads), cache.attended, into=_three(split(dqkv, 3 * heads)))
        W, _ = _side_by_side(p, heads)
        dx, dgamma, dbeta, dW, db = norm_linear_backward(dqkv, *normed, p_norm["gamma"], p_norm["beta"], W)
        dW[:, :width] *= _scale(width, heads)                # q / √d came out of W_q / √d and b_q / √d
        db[:width] *= _scale(width, heads)
        for i, name in enumerate(QKV):
            own = slice(i * width, (i + 1) * width)
            grads[name] = {"W": xp.ascontiguousarray(dW[:, own])}
            if "b" in p[name]:
                grads[name]["b"] = db[own]
        return dx, {"gamma": dgamma, "beta": dbeta}, grads

    def at(
        self, p_norm: Any, p: Any, x: Array, at: Array, *, mask: Mask | Array | None = None, **context: Any
    ) -> Array:
        """γ and β meet no tokens here either: the maps of LN(x) as maps of x_hat; `norm_linear` says how."""
        x_hat, _ = normalise(x, self.norm.eps)
        gamma, beta, maps = p_norm["gamma"], p_norm["beta"], dict(p)
        for name in QKV:
            maps[name] = {"W": gamma[:, None] * p[name]["W"], "b": beta @ p[name]["W"] + p[name].get("b", 0)}
        row = as_mask(mask).row(at, x.shape[1], like=x)
        return attention_of_one(maps, gather_rows(x_hat, at), x_hat, heads=self.part.heads, mask=row)


class NormedFeedForward(Pair):
    """LayerNorm, then the feed-forward network: the norm is worked into the inner weights (`norm_linear`)."""

    leaves = DenseCache

    @staticmethod
    def suits(part: FeedForward) -> bool:
        return part.activation == "relu"

    def forward(self, p_norm: Any, p: Any, x: Array, **context: Any) -> tuple[Array, NormCache, DenseCache]:
        inner = p["inner"]
        u, x_hat, rstd = norm_linear(x, p_norm["gamma"], p_norm["beta"], inner["W"], inner["b"], self.norm.eps)
        y, outer = dense(p["outer"], relu(u))
        return y, NormCache(x_hat, rstd), outer

    def backward(
        self, p_norm: Any, p: Any, dy: Array, normed: NormCache, cache: DenseCache
    ) -> tuple[Array, Any, Any]:
        dh, outer = dense_backward(p["outer"], dy, cache)
        du = relu_backward(dh, cache.x)                      # h = relu(u) is above 0 where u is
        dx, dgamma, dbeta, dW, db = norm_linear_backward(
            du, *normed, p_norm["gamma"], p_norm["beta"], p["inner"]["W"]
        )
        return dx, {"gamma": dgamma, "beta": dbeta}, {"inner": {"W": dW, "b": db}, "outer": outer}


FUSED: dict[tuple[type, type], Any] = {
    (LayerNorm, MultiHead): NormedHeads,
    (LayerNorm, FeedForward): NormedFeedForward,
}


def paired(norm: Any, part: Any) -> Pair:
    """The two as one: the faster form where there is one, and it suits; else the readable one."""
    fused = FUSED.get((type(norm), type(part)))
    return fused(norm, part) if fused is not None and fused.suits(part) else Pair(norm, part)


def _three(x: Array) -> tuple[Array, Array, Array]:
    """Views of the heads of q, of k and of v, which stand in this order. Shapes: (..., 3 h, n, d) -> (..., h, n, d)."""
    h = x.shape[-3] // 3
    return x[..., :h, :, :], x[..., h : 2 * h, :, :], x[..., 2 * h :, :, :]


def _side_by_side(p: Any, heads: int) -> tuple[Array, Array | None]:
    """The weights (D, 3 D) and biases (3 D,) or None of queries / √d, keys and values."""
    xp, width = get_xp(p["query"]["W"]), p["query"]["W"].shape[0]
    W, b = xp.concatenate([p[name]["W"] for name in QKV], axis=1), None
    W[:, :width] *= _scale(width, heads)
    if "b" in p["query"]:
        b = xp.concatenate([p[name]["b"] for name in QKV])
        b[:width] *= _scale(width, heads)
    return W, b


def _scale(width: int, heads: int) -> float:
    """1 / √d, by which attention multiplies its scores: here it is worked into W_q, which has fewer numbers."""
    return math.sqrt(heads / width)
