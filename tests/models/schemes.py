"""Two position schemes for tests, which act at the heads as later ones may."""

from dataclasses import dataclass

import numpy as np

from tinyattn.backend import asarray, get_xp
from tinyattn.layers import Position


@dataclass(frozen=True)
class Turning(Position):
    """Every pair of features (i, i + d/2) is turned by slot · 0.3, as rotary embeddings do."""

    name = "turning"
    at_heads = True

    def enter(self, p, q, k, slots):
        angle = (slots * 0.3).astype(q.dtype)[:, None, :, None]
        return self._turned(q, angle), self._turned(k, angle), {}, angle

    def enter_backward(self, p, dq, dk, dterms, cache):
        return self._turned(dq, -cache), self._turned(dk, -cache), {}

    def _turned(self, x, angle):
        xp, half = get_xp(x), x.shape[-1] // 2
        a, b = x[..., :half], x[..., half : 2 * half]
        cos, sin = xp.cos(angle), xp.sin(angle)
        return xp.concatenate([a * cos - b * sin, a * sin + b * cos, x[..., 2 * half :]], axis=-1)


@dataclass(frozen=True)
class Distances(Position):
    """A learned slope a head: bias -slope · |i - j|, added to the scores."""

    name = "distances"
    at_heads = True
    gives = frozenset({"bias"})

    def init_heads(self, rng, heads, width):
        return {"slopes": 0.1 + 0.1 * rng.random((heads, 1, 1))}

    def enter(self, p, q, k, slots):
        far = np.abs(np.subtract.outer(np.arange(q.shape[-2]), np.arange(k.shape[-2]))).astype(q.dtype)
        far = asarray(far, like=q)
        return q, k, {"bias": -p["slopes"] * far}, far

    def enter_backward(self, p, dq, dk, dterms, cache):
        xp = get_xp(dq)
        return dq, dk, {"slopes": -xp.sum(dterms["bias"] * cache, axis=(1, 2), keepdims=True)}


SCHEMES = {"turning": Turning, "distances": Distances}
