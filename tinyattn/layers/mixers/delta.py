"""Gated DeltaNet's layer as a mixer: its state has one value for a key, the newest (Yang et al. 2024, 2025)."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...ops import (
    delta_rule,
    delta_rule_backward,
    depthwise_conv1d,
    depthwise_conv1d_backward,
    linear,
    linear_backward,
    rms_norm,
    rms_norm_backward,
    sigmoid,
    silu,
    silu_backward,
)
from ...ops.recurrence.delta_rule import DeltaStates
from ...options import option
from ..heads import merge, split
from .recurrent import Recurrent, uniform

SMALL = 1e-6            # added to the mean square of queries, keys and outputs


class DeltaCache(NamedTuple):
    x: Array
    wide: Array                      # the convolution's input, after kernel - 1 earlier rows
    gate: Array                      # before SiLU
    convolved: Array                 # before SiLU
    rates: Array                     # before σ and softplus
    q: tuple[Array, Array, Array]    # of length 1, and what the norm's backward takes
    k: tuple[Array, Array, Array]
    v: Array                         # (B, h, n, d)
    beta: Array                      # (B, h, n)
    a: Array | None
    y: tuple[Array, Array, Array]
    states: DeltaStates


@dataclass(frozen=True)
class DeltaRule(Recurrent):
    """(norm(y) ⊙ SiLU(z)) W_out, with y = delta_rule(q / |q|, k / |k|, v, β, a) in every head.

    [c, z] = x W_in and [q, k, v] = SiLU(conv(c)). [s, r] = x W_rate + b_rate, where s and r have one number for each
    head; β = limit σ(s) and a = -softplus(r). The norm is RMSNorm, of each head (Yang, Kautz & Hatamizadeh 2025, figure
    1). The paper also multiplies the softplus by a learned rate, whose place b_rate takes here.
    """

    delta_heads: int = option(1, "heads, each with a state of (D / heads)² numbers; must divide dim", at_least=1)
    kernel: int = option(4, "tokens that the convolution of queries, keys and values sees", at_least=1, at_most=100_000)
    gated: bool = option(True, "a decay that forgets; without it, DeltaNet (Yang et al. 2024)")
    beta_limit: float = option(
        1.0, "β is below it: at 1 a value is replaced; between 1 and 2 a key's part of the state may change its sign",
        above=0, at_most=2,
    )  # fmt: skip

    name = "delta"

    def refuse_dim(self, dim: int) -> None:
        if dim % self.delta_heads:
            raise ValueError(f"dim {dim} is not divisible by delta_heads {self.delta_heads}")

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        """β begins near limit / 2; exp(a), the decay, between .999 and .9, evenly in the logarithm of a."""
        self.refuse_dim(dim)
        h = self.delta_heads
        b = np.zeros(2 * h if self.gated else h)
        b[h:] = np.log(np.expm1(np.exp(rng.uniform(math.log(1e-3), math.log(1e-1), len(b) - h))))
        return {
            "W_in": uniform(rng, dim, 4 * dim), "conv": uniform(rng, self.kernel, 3 * dim),
            "W_rate": uniform(rng, dim, len(b)), "b_rate": b, "gamma": np.ones(dim // h),
            "W_out": uniform(rng, dim, dim),
        }  # fmt: skip

    def run(self, p: Any, x: Array, past: tuple[Array, Array] | None = None) -> tuple[Array, DeltaCache]:
        xp, (batch, _, dim), h = get_xp(x), x.shape, self.delta_heads
        both, rates = linear(x, p["W_in"]), linear(x, p["W_rate"], p["b_rate"])
        before = xp.zeros((batch, self.kernel - 1, 3 * dim), dtype=x.dtype) if past is None else past[0]
        wide = xp.concatenate([before, both[..., : 3 * dim]], axis=1)
        convolved = depthwise_conv1d(wide, p["conv"])
        read, gate = silu(convolved), both[..., 3 * dim :]
        q, k, v = (split(read[..., i * dim : (i + 1) * dim], h) for i in range(3))
        one = _one(v)
        q_, k_ = rms_norm(q, one, SMALL), rms_norm(k, one, SMALL)
        beta = self.beta_limit * sigmoid(rates[..., :h]).swapaxes(1, 2)
        slow = rates[..., h:].swapaxes(1, 2)
        a = -xp.logaddexp(slow, xp.zeros_like(slow)) if self.gated else None          # -softplus
        y, states = delta_rule(q_[0], k_[0], v, beta, a, None if past is None else past[1])
        y_ = rms_norm(y, p["gamma"], SMALL)
        cache = DeltaCache(x, wide, gate, convolved, rates, q_, k_, v, beta, a, y_, states)
        return linear(merge(y_[0]) * silu(gate), p["W_out"]), cache

    def run_backward(self, p: Any, dy: Array, cache: DeltaCache) -> tuple[Array, dict[str, Any]]:
        x, wide, gate, convolved, rates, q, k, v, beta, a, y, states = cache
        xp, h, one = get_xp(x), self.delta_heads, _one(v)
        open_, normed = silu(gate), merge(y[0])
        dgated, dW_out, _ = linear_backward(dy, normed * open_, p["W_out"])
        dgate = silu_backward(dgated * normed, gate)
        dread, dgamma = rms_norm_backward(split(dgated * open_, h), *y[1:], p["gamma"])
        dq, dk, dv, dbeta, da, _ = delta_rule_backward(dread, q[0], k[0], v, beta, states, a)
        dq, dk = rms_norm_backward(dq, *q[1:], one)[0], rms_norm_backward(dk, *k[1:], one)[0]
        dconvolved = silu_backward(xp.concatenate([merge(part) for part in (dq, dk, dv)], axis=-1), convolved)
        dwide, dconv = depthwise_conv1d_backward(dconvolved, wide, p["conv"])
        s = sigmoid(rates)                                      # σ' = σ (1 - σ), softplus' = σ
        drates = [self.beta_limit * dbeta.swapaxes(1, 2) * s[..., :h] * (1 - s[..., :h])]
        if da is not None:
            drates.append(-da.swapaxes(1, 2) * s[..., h:])
        dx, dW_rate, db_rate = linear_backward(xp.concatenate(drates, axis=-1), x, p["W_rate"])
        both = xp.concatenate([dwide[:, self.kernel - 1 :], dgate], axis=-1)
        more, dW_in, _ = linear_backward(both, x, p["W_in"])
        grads = {"W_in": dW_in, "conv": dconv, "W_rate": dW_rate, "b_rate": db_rate, "gamma": dgamma, "W_out": dW_out}
        return dx + more, grads

    def extend(
        self, p: Any, x: Array, memory: Array | None, past: tuple[Array, Array] | None
    ) -> tuple[Array, tuple[Array, Array]]:
        """The cache is the last kernel - 1 rows before the convolution, and the state, (B, h, d, d)."""
        y, cache = self.run(p, x, past)
        return y, (cache.wide[:, cache.wide.shape[1] - self.kernel + 1 :].copy(), cache.states.last.copy())


def _one(v: Array) -> Array:
    """γ with which RMSNorm makes vectors of length 1."""
    xp, d = get_xp(v), v.shape[-1]
    return xp.full(d, 1 / math.sqrt(d), dtype=v.dtype)
