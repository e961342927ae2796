"""The gated form of the block: gates computed from the tokens scale the outputs of sublayers.

LiGR is by Borisyuk et al. 2025 ("From Features to Transformers: Redefining Ranking for Scalable Impact", arXiv
2502.03417); this is its form in eSASRec (Tikhonovich et al. 2025, arXiv 2508.06450).
"""

from typing import Any, NamedTuple

import numpy as np

from ..backend import Array
from ..ops import dropout, dropout_backward, sigmoid
from .dense import DenseCache, dense, dense_backward, dense_init
from .dropout_mask import dropout_mask
from .rows import gather_rows


class LiGRCache(NamedTuple):
    """What one forward saves, as `BlockCache`, with the gates."""

    norm_1: Any
    attention: Any                   # the mixer's cache
    gated_1: "GatedCache"
    norm_2: Any
    feed_forward: Any
    gated_2: "GatedCache"


class GatedCache(NamedTuple):
    keep: Array | None               # (..., n, D): dropout on the sublayer's output
    f: Array                         # (..., n, D): the sublayer's output after dropout
    gate: Array                      # (..., n, D): σ(x W + b), 0..1
    dense: DenseCache


def gates_init(rng: np.random.Generator, dim: int) -> dict[str, Any]:
    """Parameters: gate_1 and gate_2, {"W": (dim, dim), "b": (dim,)}. A fresh gate is half open on average."""
    return {"gate_1": dense_init(rng, dim, dim), "gate_2": dense_init(rng, dim, dim)}


def gated(p: Any, x: Array, f: Array, rate: float, rng: Any) -> tuple[Array, GatedCache]:
    """y = x + σ(x W + b) ⊙ dropout(f). Shapes: x, f (..., n, D) -> y (..., n, D), cache."""
    keep = dropout_mask(x, x.shape, rate, rng)
    u, read = dense(p, x)
    gate, f = sigmoid(u), dropout(f, keep, rate)
    return x + gate * f, GatedCache(keep, f, gate, read)


def gated_backward(p: Any, dy: Array, cache: GatedCache, rate: float) -> tuple[Array, Array, dict[str, Any]]:
    """-> dx (..., n, D) through the residual and the gate, df, and grads. σ' = σ (1 - σ)."""
    gate = cache.gate
    du = dy * cache.f * gate * (1 - gate)                    # gate = σ(u)
    dx, grads = dense_backward(p, du, cache.dense)           # u = x W + b
    return dx + dy, dropout_backward(dy * gate, cache.keep, rate), grads


def ligr_block(
    block: Any, p: Any, x: Array, *, at: Array | None = None, rng: Any = None, **context: Any
) -> tuple[Array, LiGRCache]:
    """x + σ(x W1 + b1) ⊙ dropout(attention(LN(x))), then x + σ(x W2 + b2) ⊙ dropout(ffn(LN(x))).

    The gates read the tokens before the norm. Hidden units of the feed-forward network are dropped, too.
    Shapes: x (..., n, D) -> y (..., n, D), cache.
    """
    h, norm_1 = block.norm.forward(p["norm_1"], x)
    a, attention = block.mixer.mix(p["attention"], h, at=at, **context)
    x, gated_1 = gated(p["gate_1"], gather_rows(x, at), a, block.rate, rng)

    h, norm_2 = block.norm.forward(p["norm_2"], x)
    f, ffn = block.feed_forward.forward(p["feed_forward"], h, rate=block.rate, rng=rng)
    y, gated_2 = gated(p["gate_2"], x, f, block.rate, rng)
    return y, LiGRCache(norm_1, attention, gated_1, norm_2, ffn, gated_2)


def ligr_block_backward(block: Any, p: Any, dy: Array, cache: LiGRCache) -> tuple[Array, dict[str, Any]]:
    """The mirror of `ligr_block`: x is read by the residual, the gate and the norm. -> dx, grads."""
    dx, df, gate_2 = gated_backward(p["gate_2"], dy, cache.gated_2, block.rate)
    dh, ffn = block.feed_forward.backward(p["feed_forward"], df, cache.feed_forward)
    through, norm_2 = block.norm.backward(p["norm_2"], dh, cache.norm_2)
    dy = dx + through

    dx, da, gate_1 = gated_backward(p["gate_1"], dy, cache.gated_1, block.rate)
    dh, _, attention = block.mixer.backward(p["attention"], da, cache.attention)
    through, norm_1 = block.norm.backward(p["norm_1"], dh, cache.norm_1)
    parts = {"norm_1": norm_1, "attention": attention, "norm_2": norm_2, "feed_forward": ffn}
    return dx + through, parts | {"gate_1": gate_1, "gate_2": gate_2}
