"""The form of the block in HSTU: attention, a gate and one map, without a feed-forward network.

By Zhai et al. 2024 ("Actions Speak Louder than Words", arXiv 2402.17152, equations 1 to 3). The mixer's queries, keys
and values pass through SiLU (`MultiHead.activated`). The paper's mechanism is `pointwise`; others are possible.
"""

from typing import Any, NamedTuple

import numpy as np

from ..backend import Array
from ..ops import dropout, dropout_backward, silu, silu_backward
from .dense import DenseCache, dense, dense_backward, dense_init
from .dropout_mask import dropout_mask
from .rows import gather_rows


class HSTUCache(NamedTuple):
    norm_1: Any
    attention: Any                   # the mixer's cache
    norm_2: Any
    gate: DenseCache
    w: Array                         # (..., n, D): h W_u, before SiLU
    u: Array                         # (..., n, D): the gate, silu(w)
    normed: Array                    # (..., n, D): LN(a)
    keep: Array | None               # (..., n, D): dropout of what goes into the last map
    out: DenseCache


def hstu_init(rng: np.random.Generator, dim: int) -> dict[str, Any]:
    """Parameters: gate, {"W": (dim, dim)}, without a bias, and out, {"W": (dim, dim), "b": (dim,)}."""
    return {"gate": dense_init(rng, dim, dim, bias=False), "out": dense_init(rng, dim, dim)}


def hstu_block(
    block: Any, p: Any, x: Array, *, at: Array | None = None, rng: Any = None, **context: Any
) -> tuple[Array, HSTUCache]:
    """y = x + dropout(u ⊙ LN(a)) W_o + b_o, with h = LN(x), u = silu(h W_u) and a = attention(h).

    Shapes: x (..., n, D) -> y (..., n, D), cache.
    """
    h, norm_1 = block.norm.forward(p["norm_1"], x)
    a, attention = block.mixer.mix(p["attention"], h, at=at, **context)
    normed, norm_2 = block.norm.forward(p["norm_2"], a)
    w, gate = dense(p["gate"], gather_rows(h, at))
    u, x = silu(w), gather_rows(x, at)
    keep = dropout_mask(x, x.shape, block.rate, rng)
    y, out = dense(p["out"], dropout(u * normed, keep, block.rate))
    return x + y, HSTUCache(norm_1, attention, norm_2, gate, w, u, normed, keep, out)


def hstu_block_backward(block: Any, p: Any, dy: Array, cache: HSTUCache) -> tuple[Array, dict[str, Any]]:
    """The mirror of `hstu_block`: a product passes to each factor the gradient times the other. -> dx, grads."""
    dz, out = dense_backward(p["out"], dy, cache.out)
    dz = dropout_backward(dz, cache.keep, block.rate)                          # z = u ⊙ LN(a)
    da, norm_2 = block.norm.backward(p["norm_2"], dz * cache.u, cache.norm_2)
    du, gate = dense_backward(p["gate"], silu_backward(dz * cache.normed, cache.w), cache.gate)
    dh, _, attention = block.mixer.backward(p["attention"], da, cache.attention)
    dx, norm_1 = block.norm.backward(p["norm_1"], dh + du, cache.norm_1)       # h is read by the mixer and the gate
    return dx + dy, {"norm_1": norm_1, "attention": attention, "norm_2": norm_2, "gate": gate, "out": out}
