"""Mamba's block as a mixer: a selective scan between two projections, behind a gate (Gu & Dao 2023, section 3.4)."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...ops import (
    depthwise_conv1d,
    depthwise_conv1d_backward,
    linear,
    linear_backward,
    selective_scan,
    selective_scan_backward,
    sigmoid,
    silu,
    silu_backward,
)
from ...ops.recurrence.selective_scan import ScanStates
from ...options import option
from .recurrent import Recurrent, uniform

FASTEST = 60            # log -A


class MambaCache(NamedTuple):
    x: Array
    wide: Array                      # the convolution's input, after kernel - 1 earlier rows
    gate: Array                      # before SiLU
    convolved: Array                 # before SiLU
    read: Array                      # SiLU of `convolved`: the scan's input
    short: Array                     # the projection of low rank, from which Δ is computed
    delta: Array
    raw: Array                       # before softplus
    B: Array
    C: Array
    y: Array
    states: ScanStates


def _rates(p: Any) -> Array:
    """A = -exp(log A), with log A at most FASTEST: A stays finite, and far smaller rates forget a state at once."""
    xp = get_xp(p["log_A"])
    return -xp.exp(xp.minimum(p["log_A"], FASTEST))


@dataclass(frozen=True)
class Mamba(Recurrent):
    """(y ⊙ SiLU(z)) W_out, with [a, z] = x W_in, u = SiLU(conv(a) + b_conv) and y the selective scan of u.

    Δ = softplus(r W_Δ + b_Δ), where r is the first D / 16 columns, rounded up, of u W_x; B and C are the others (Gu &
    Dao 2023, section 3.4).
    """

    state: int = option(16, "N: numbers that each channel remembers", at_least=1, at_most=100_000)
    expand: int = option(2, "width of the scanned channels, as a multiple of a token's width", at_least=1, at_most=1000)
    kernel: int = option(4, "tokens that the convolution before the scan sees", at_least=1, at_most=100_000)
    exact_hold: bool = option(False, "weigh the input as in the paper's equation 4, not as in its code")

    name = "mamba"

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        """As in the paper's code: in each channel A = -1 .. -N, D = 1, and with b_Δ, Δ begins between .001 and .1."""
        wide, rank = self.expand * dim, self._rank(dim)
        first = np.exp(rng.uniform(math.log(1e-3), math.log(1e-1), wide))
        return {
            "W_in": uniform(rng, dim, 2 * wide),
            "conv": uniform(rng, self.kernel, wide), "b_conv": np.zeros(wide),
            "W_x": uniform(rng, wide, rank + 2 * self.state),
            "W_delta": uniform(rng, rank, wide), "b_delta": np.log(np.expm1(first)),
            "log_A": np.log(np.arange(1, self.state + 1))[:, None] * np.ones(wide), "D": np.ones(wide),
            "W_out": uniform(rng, wide, dim),
        }  # fmt: skip

    @staticmethod
    def _rank(dim: int) -> int:
        return math.ceil(dim / 16)

    def run(self, p: Any, x: Array, past: tuple[Array, Array] | None = None) -> tuple[Array, MambaCache]:
        xp, (batch, _, dim) = get_xp(x), x.shape
        both, wide_dim, rank = linear(x, p["W_in"]), self.expand * dim, self._rank(dim)
        coming, gate = both[..., :wide_dim], both[..., wide_dim:]
        before = xp.zeros((batch, self.kernel - 1, wide_dim), dtype=x.dtype) if past is None else past[0]
        wide = xp.concatenate([before, coming], axis=1)
        convolved = depthwise_conv1d(wide, p["conv"]) + p["b_conv"]
        read = silu(convolved)
        chosen = linear(read, p["W_x"])
        short, B, C = chosen[..., :rank], chosen[..., rank : -self.state], chosen[..., -self.state :]
        raw = linear(short, p["W_delta"], p["b_delta"])
        delta = xp.logaddexp(raw, xp.zeros_like(raw))           # softplus
        y, states = selective_scan(
            read, delta, _rates(p), B, C, p["D"], None if past is None else past[1], self.exact_hold
        )
        cache = MambaCache(x, wide, gate, convolved, read, short, delta, raw, B, C, y, states)
        return linear(y * silu(gate), p["W_out"]), cache

    def run_backward(self, p: Any, dy: Array, cache: MambaCache) -> tuple[Array, dict[str, Any]]:
        x, wide, gate, convolved, read, short, delta, raw, B, C, y, states = cache
        xp, open_ = get_xp(x), silu(gate)
        dgated, dW_out, _ = linear_backward(dy, y * open_, p["W_out"])
        A = _rates(p)
        dread, ddelta, dA, dB, dC, dD, _ = selective_scan_backward(
            dgated * open_, read, delta, A, B, C, p["D"], states, None, self.exact_hold
        )
        dshort, dW_delta, db_delta = linear_backward(ddelta * sigmoid(raw), short, p["W_delta"])   # softplus' = σ
        more, dW_x, _ = linear_backward(xp.concatenate([dshort, dB, dC], axis=-1), read, p["W_x"])
        dconvolved = silu_backward(dread + more, convolved)
        dwide, dconv = depthwise_conv1d_backward(dconvolved, wide, p["conv"])
        dcoming = dwide[:, self.kernel - 1 :]                   # the earlier rows are not of x
        dx, dW_in, _ = linear_backward(
            xp.concatenate([dcoming, silu_backward(dgated * y, gate)], axis=-1), x, p["W_in"]
        )
        return dx, {
            "W_in": dW_in, "conv": dconv, "b_conv": xp.sum(dconvolved, axis=(0, 1)), "W_x": dW_x,
            "W_delta": dW_delta, "b_delta": db_delta, "log_A": dA * A, "D": dD, "W_out": dW_out,
        }  # fmt: skip

    def extend(
        self, p: Any, x: Array, memory: Array | None, past: tuple[Array, Array] | None
    ) -> tuple[Array, tuple[Array, Array]]:
        """The cache: tokens that the convolution sees, (B, kernel - 1, expand D), and the state, (B, N, expand D)."""
        y, cache = self.run(p, x, past)
        return y, (cache.wide[:, cache.wide.shape[1] - self.kernel + 1 :].copy(), cache.states.last.copy())
