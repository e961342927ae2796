"""RWKV's time mixing: a mean of past values that decays, behind a gate (Peng et al. 2023, section 3.1)."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...ops import linear, linear_backward, sigmoid, wkv, wkv_backward
from .recurrent import Recurrent, uniform

FASTEST = 60            # log w: with a decay of exp(-e^60) nothing is left, as with exp(-e^5)


class RWKVCache(NamedTuple):
    x: Array
    before: Array                    # each token's predecessor
    mixed: dict[str, Array]          # k, v, r before their projections
    k: Array
    v: Array
    gate: Array                      # σ(r)
    y: Array
    mean: Array
    size: Array


def _decay(p: Any) -> Array:
    """w = exp(log w), with log w at most FASTEST: w stays finite, and far smaller rates forget a state at once."""
    xp = get_xp(p["log_w"])
    return xp.exp(xp.minimum(p["log_w"], FASTEST))


@dataclass(frozen=True)
class RWKV(Recurrent):
    """(σ(r) ⊙ wkv(k, v)) W_o, where k, v and r are projections of μ ⊙ x_t + (1 - μ) ⊙ x_{t-1}, each with a separate μ.

    This is RWKV-4's time mixing. Its channel mixing is replaced by the block's feed-forward network, so that mixers can
    be compared.
    """

    name = "rwkv"

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        """Channels from slow to fast: log w from -5 to 3, μ from 0 to 1, u = log .3.

        RWKV-4's code has the same ends, with curves between them that depend on the layer, and a zigzag in u.
        """
        place = np.arange(dim) / max(1, dim - 1)
        mixes = {f"mu_{name}": place.copy() for name in "kvr"}
        maps = {f"W{name}": uniform(rng, dim, dim) for name in "kvro"}
        return {**mixes, **maps, "log_w": -5 + 8 * place, "u": np.full(dim, math.log(0.3))}

    def run(self, p: Any, x: Array, past: tuple[Array, Array, Array] | None = None) -> tuple[Array, RWKVCache]:
        xp = get_xp(x)
        first, *state = (past[0][:, None], *past[1:]) if past else (xp.zeros_like(x[:, :1]),)
        before = xp.concatenate([first, x[:, :-1]], axis=1)[:, : x.shape[1]]
        mixed = {name: before + p[f"mu_{name}"] * (x - before) for name in "kvr"}
        k, v, r = (linear(mixed[name], p[f"W{name}"]) for name in "kvr")
        y, mean, size = wkv(k, v, _decay(p), p["u"], *state)
        gate = sigmoid(r)
        return linear(gate * y, p["Wo"]), RWKVCache(x, before, mixed, k, v, gate, y, mean, size)

    def run_backward(self, p: Any, dy: Array, cache: RWKVCache) -> tuple[Array, dict[str, Any]]:
        x, before, mixed, k, v, gate, y, mean, size = cache
        xp = get_xp(x)
        w = _decay(p)
        dread, dWo, _ = linear_backward(dy, gate * y, p["Wo"])
        dk, dv, dw, du, _, _ = wkv_backward(gate * dread, k, v, w, p["u"], mean, size)
        dr = dread * y * gate * (1 - gate)
        grads = {"Wo": dWo, "log_w": dw * w, "u": du}           # w = exp(log w)
        dx, dbefore = xp.zeros_like(x), xp.zeros_like(x)
        for name, d in (("k", dk), ("v", dv), ("r", dr)):
            dmixed, grads[f"W{name}"], _ = linear_backward(d, mixed[name], p[f"W{name}"])
            grads[f"mu_{name}"] = xp.sum(dmixed * (x - before), axis=(0, 1))
            dx += p[f"mu_{name}"] * dmixed
            dbefore += (1 - p[f"mu_{name}"]) * dmixed
        dx[:, :-1] += dbefore[:, 1:]                            # a token is the next one's predecessor
        return dx, grads

    def extend(
        self, p: Any, x: Array, memory: Array | None, past: tuple[Array, Array, Array] | None
    ) -> tuple[Array, tuple[Array, Array, Array]]:
        """The cache is the last token, and the mean and its size, (B, D) each."""
        y, cache = self.run(p, x, past)
        return y, (x[:, -1].copy(), cache.mean[:, -1].copy(), cache.size[:, -1].copy())
