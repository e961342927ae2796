"""SwiGLU: a feed-forward network with gated hidden units (Shazeer 2020)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..backend import Array
from ..ops import dropout, dropout_backward, silu, silu_backward
from .dense import DenseCache, dense, dense_backward, dense_init
from .dropout_mask import dropout_mask


class SwiGLUCache(NamedTuple):
    gate: DenseCache
    inner: DenseCache
    a: Array              # (..., hidden): x W1, before the SiLU
    s: Array              # (..., hidden): silu(a)
    b: Array              # (..., hidden): x W3
    keep: Array | None    # (..., hidden)
    rate: float
    outer: DenseCache


@dataclass(frozen=True)
class SwiGLU:
    """y = dropout(silu(x W1) ⊙ (x W3)) W2, without biases.

    This is FFN_SwiGLU of Shazeer 2020, equation 6, with V as W3. `hidden` None is two thirds of the tokens' width,
    rounded up: the three matrices then have as many numbers as the two of `FeedForward` (section 2).
    """

    hidden: int | None = None

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        """Parameters: gate W1 and inner W3, {"W": (dim, hidden)}, and outer W2, {"W": (hidden, dim)}."""
        hidden = self.hidden or -(-2 * dim // 3)
        return {
            "gate": dense_init(rng, dim, hidden, bias=False),
            "inner": dense_init(rng, dim, hidden, bias=False),
            "outer": dense_init(rng, hidden, dim, bias=False),
        }

    def forward(self, p: Any, x: Array, *, rate: float = 0.0, rng: Any = None) -> tuple[Array, SwiGLUCache]:
        """Shapes: x (..., dim) -> y (..., dim), cache."""
        a, gate = dense(p["gate"], x)                            # (..., hidden)
        b, inner = dense(p["inner"], x)                          # (..., hidden)
        s = silu(a)
        keep = dropout_mask(x, s.shape, rate, rng)
        y, outer = dense(p["outer"], dropout(s * b, keep, rate))
        return y, SwiGLUCache(gate, inner, a, s, b, keep, rate, outer)

    def backward(self, p: Any, dy: Array, cache: SwiGLUCache) -> tuple[Array, dict[str, Any]]:
        """-> dx (..., dim), grads shaped like p. Each factor of a product receives the gradient times the other."""
        dh, outer = dense_backward(p["outer"], dy, cache.outer)  # y = h W2
        dh = dropout_backward(dh, cache.keep, cache.rate)
        da = silu_backward(dh * cache.b, cache.a)                # h = silu(a) ⊙ b
        dx, inner = dense_backward(p["inner"], dh * cache.s, cache.inner)        # b = x W3
        dx_gate, gate = dense_backward(p["gate"], da, cache.gate)                # a = x W1
        return dx + dx_gate, {"gate": gate, "inner": inner, "outer": outer}
