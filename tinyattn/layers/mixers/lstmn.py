"""A long short-term memory network: an LSTM that looks at all of its past states (Cheng, Dong & Lapata 2016)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...ops import (
    additive_scores,
    additive_scores_backward,
    linear,
    linear_backward,
    lstm,
    lstm_backward,
    softmax,
    softmax_backward,
)
from .lstm import LSTM
from .recurrent import Recurrent, uniform


class LSTMNPast(NamedTuple):
    """The cache of m tokens: it grows with them, while other recurrent mixers keep a state of one size."""

    h: Array                         # (B, m, D)
    c: Array                         # (B, m, D)
    keys: Array                      # (B, m, D): h W_h
    read: Array                      # (B, 1, D): h~ of the last token


class LSTMNCache(NamedTuple):
    x: Array
    q: Array                         # (B, n, D): the query, of a token and the last h~
    weights: Array                   # (B, n, n): row t over the states before t, 0 from t on
    read: Array                      # (B, n, D): h~
    cells: Array                     # (B, n, D): c~
    gates: Array
    h: Array
    c: Array
    keys: Array


@dataclass(frozen=True)
class LSTMN(Recurrent):
    """h_t, c_t = the step of `lstm` from h~_t = Σ_i s_ti h_i and c~_t = Σ_i s_ti c_i, over i < t.

    s_t is the softmax of v · tanh(h_i W_h + x_t W_x + h~_{t-1} W_r) over i: section 3.2, equations 4 to 9. The first
    token reads zeros. An LSTM summarises the past in h_{t-1} and c_{t-1}; here every past state is kept, to be read.
    That takes time n² D, in n steps one after the other.
    """

    name = "lstmn"
    keeps_tokens = True

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        """The LSTM's W, U and b, with a forget gate; and, uniform in ±1/√dim, Wh, Wx and Wr (dim, dim) and v (dim,)."""
        maps = {name: uniform(rng, dim, dim) for name in ("Wh", "Wx", "Wr")}
        return {**LSTM().init(rng, dim), **maps, "v": uniform(rng, dim, 1)[:, 0]}

    def run(self, p: Any, x: Array) -> tuple[Array, LSTMNCache]:
        cache = self._run(p, x, None)
        return cache.h, cache

    def _run(self, p: Any, x: Array, past: LSTMNPast | None) -> LSTMNCache:
        """With m states in the past: h, c and keys (B, m + n, D), weights (B, n, m + n)."""
        xp, (B, n, D) = get_xp(x), x.shape
        *rows, last = past or (x[:, :0], x[:, :0], x[:, :0], xp.zeros_like(x[:, :1]))
        h, c, keys = (xp.concatenate([a, xp.zeros_like(x)], axis=1) for a in rows)
        m = h.shape[1] - n
        q = linear(x, p["Wx"])
        weights, gates = xp.zeros((B, n, m + n), dtype=x.dtype), xp.zeros((B, n, 4 * D), dtype=x.dtype)
        read, cells = xp.zeros_like(x), xp.zeros_like(x)
        for t in range(n):
            now, before, here = slice(t, t + 1), slice(m + t), slice(m + t, m + t + 1)
            q[:, now] += linear(last, p["Wr"])
            s = softmax(additive_scores(q[:, now], keys[:, before], p["v"]))
            last = s @ h[:, before]
            cell = s @ c[:, before]
            h[:, here], c[:, here], gates[:, now] = lstm(x[:, now], p["W"], p["U"], p["b"], last[:, 0], cell[:, 0])
            keys[:, here] = linear(h[:, here], p["Wh"])
            weights[:, now, before], read[:, now], cells[:, now] = s, last, cell
        return LSTMNCache(x, q, weights, read, cells, gates, h, c, keys)

    def run_backward(self, p: Any, dy: Array, cache: LSTMNCache) -> tuple[Array, dict[str, Any]]:
        """Through time, from the last token to the first.

        All later tokens have read h_t and c_t, and have compared h_t's key k_t = h_t W_h with their queries, so

            dh_t = dy_t + Σ_{j > t} s_jt dh~_j + dk_t W_hᵀ         dc_t = Σ_{j > t} s_jt dc~_j

        are complete when token t is reached. The LSTM's step turns them into dh~_t and dc~_t; h~_t is in the next
        token's query, and gets dq_{t+1} W_rᵀ as well. The weight of state i gets dh~_t · h_i + dc~_t · c_i, which
        softmax and scores pass to q_t and to the keys before t.
        """
        x, q, weights, read, cells, gates, h, c, keys = cache
        xp = get_xp(x)
        dh, dx, dq = dy.copy(), xp.zeros_like(x), xp.zeros_like(x)
        dc, dkeys = xp.zeros_like(c), xp.zeros_like(keys)
        grads = {name: xp.zeros_like(p[name]) for name in ("W", "U", "b", "v")}
        dlast = xp.zeros_like(x[:, :1])
        for t in range(x.shape[1] - 1, -1, -1):
            now, before = slice(t, t + 1), slice(t)
            dh[:, now] += dkeys[:, now] @ p["Wh"].T                         # linear(h, Wh)
            dx[:, now], dW, dU, db, dread, dcell = lstm_backward(
                dh[:, now], x[:, now], p["W"], p["U"], h[:, now], c[:, now], gates[:, now], read[:, t], cells[:, t],
                dc=dc[:, now],
            )  # fmt: skip
            assert dread is not None
            assert dcell is not None
            dread, dcell, s = dread[:, None] + dlast, dcell[:, None], weights[:, now, before]
            dh[:, before] += s.swapaxes(-1, -2) @ dread                     # s @ h
            dc[:, before] += s.swapaxes(-1, -2) @ dcell                     # s @ c
            ds = dread @ h[:, before].swapaxes(-1, -2) + dcell @ c[:, before].swapaxes(-1, -2)
            dq[:, now], dk, dv = additive_scores_backward(
                softmax_backward(ds, s), q[:, now], keys[:, before], p["v"]
            )
            dkeys[:, before] += dk
            dlast = dq[:, now] @ p["Wr"].T                                  # linear(last, Wr)
            for name, g in (("W", dW), ("U", dU), ("b", db), ("v", dv)):
                grads[name] += g
        _, grads["Wh"], _ = linear_backward(dkeys, h, p["Wh"])
        _, grads["Wr"], _ = linear_backward(dq[:, 1:], read[:, :-1], p["Wr"])
        dx_query, grads["Wx"], _ = linear_backward(dq, x, p["Wx"])
        return dx + dx_query, grads

    def extend(self, p: Any, x: Array, memory: Array | None, past: LSTMNPast | None) -> tuple[Array, LSTMNPast]:
        """The cache grows with the tokens: every state and cell, and the states' keys, (B, m, D) each."""
        after = self._run(p, x, past)
        return after.h[:, -x.shape[1] :], LSTMNPast(after.h, after.c, after.keys, after.read[:, -1:])
