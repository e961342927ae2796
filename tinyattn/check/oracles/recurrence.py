"""Recurrences, a token after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...backend import Array


def gru(x: Array, W: Array, U: Array, b: Array, c: Array, h0: Array | None = None) -> Any:
    """Token by token and unit by unit."""
    H = U.shape[0]
    h = np.zeros((*x.shape[:-1], H))
    for lead in np.ndindex(x.shape[:-2]):
        state = [0.0] * H if h0 is None else list(h0[lead])
        for t in range(x.shape[-2]):
            from_x, from_h = (
                [known[o] + sum(y * w for y, w in zip(given, M[:, o], strict=True)) for o in range(3 * H)]
                for given, M, known in ((x[lead][t], W, b), (state, U, c))
            )
            for j in range(H):
                r, z = (1 / (1 + math.exp(-from_x[o] - from_h[o])) for o in (j, H + j))
                new = math.tanh(from_x[2 * H + j] + r * from_h[2 * H + j])
                h[lead][t, j] = (1 - z) * new + z * state[j]
            state = list(h[lead][t])
    return h


def rnn(x: Array, W: Array, U: Array, b: Array, h0: Array | None = None) -> Any:
    """Token by token and unit by unit."""
    H = U.shape[0]
    h = np.zeros((*x.shape[:-1], H))
    for lead in np.ndindex(x.shape[:-2]):
        state = [0.0] * H if h0 is None else list(h0[lead])
        for t in range(x.shape[-2]):
            state = [
                math.tanh(b[j] + sum(y * w for y, w in zip((*x[lead][t], *state), (*W[:, j], *U[:, j]), strict=True)))
                for j in range(H)
            ]
            h[lead][t] = state
    return h


def lstm(x: Array, W: Array, U: Array, b: Array, h0: Array | None = None, c0: Array | None = None) -> Any:
    """Token by token and unit by unit."""
    H, columns = U.shape
    h = np.zeros((*x.shape[:-1], H))
    for lead in np.ndindex(x.shape[:-2]):
        state, cell = ([0.0] * H if first is None else list(first[lead]) for first in (h0, c0))
        for t in range(x.shape[-2]):
            u = [
                b[o] + sum(y * w for y, w in zip((*x[lead][t], *state), (*W[:, o], *U[:, o]), strict=True))
                for o in range(columns)
            ]
            gate = [1 / (1 + math.exp(-max(value, -700))) for value in u]
            for j in range(H):
                kept = gate[H + j] * cell[j] if columns == 4 * H else cell[j]
                cell[j] = kept + gate[j] * math.tanh(u[columns - H + j])
            state = [gate[columns - 2 * H + j] * math.tanh(cell[j]) for j in range(H)]
            h[lead][t] = state
    return h


def wkv(
    k: Array, v: Array, w: Array, u: Array, mean0: Array | None = None, size0: Array | None = None
) -> Any:
    """Channel by channel: a softmax over all that has come by."""
    y = np.zeros(k.shape)
    for *lead, t, c in np.ndindex(k.shape):
        place = tuple(lead)
        logits = [float(k[(*place, s, c)] - (t - 1 - s) * w[c]) for s in range(t)] + [float(k[(*place, t, c)] + u[c])]
        values = [v[(*place, s, c)] for s in range(t + 1)]
        if mean0 is not None and size0 is not None:
            logits, values = [float(size0[(*place, c)] - t * w[c]), *logits], [mean0[(*place, c)], *values]
        top = max(logits)
        weights = [math.exp(value - top) for value in logits]
        y[(*place, t, c)] = sum(a * b for a, b in zip(weights, values, strict=True)) / sum(weights)
    return y


def associative_scan(a: Array, b: Array, h0: Array | None = None, form: str = "") -> Any:
    """Token by token, number by number."""
    h = np.zeros(a.shape)
    for *lead, c in np.ndindex((*a.shape[:-2], a.shape[-1])):
        state = 0.0 if h0 is None else float(h0[(*lead, c)])
        for t in range(a.shape[-2]):
            state = float(a[(*lead, t, c)]) * state + float(b[(*lead, t, c)])
            h[(*lead, t, c)] = state
    return h


def zero_order_hold(z: Array) -> Any:
    """φ(z) = (exp(z) - 1) / z, and 1 at 0, number by number."""
    return np.vectorize(lambda x: math.expm1(x) / x if x else 1.0, otypes=[float])(z)


def selective_scan(
    x: Array, delta: Array, A: Array, B: Array, C: Array, D: Array, h0: Array | None = None, exact: bool = False
) -> Any:
    """Token by token, channel by channel, state by state."""
    y, N = np.zeros(x.shape), len(A)
    for *lead, c in np.ndindex((*x.shape[:-2], x.shape[-1])):
        place = tuple(lead)
        h = [0.0] * N if h0 is None else [float(h0[(*place, m, c)]) for m in range(N)]
        for t in range(x.shape[-2]):
            long, value = float(delta[(*place, t, c)]), float(x[(*place, t, c)])
            for m in range(N):
                z = long * float(A[m, c])
                held = math.expm1(z) / z if exact and z else 1.0
                h[m] = math.exp(z) * h[m] + held * long * float(B[(*place, t, m)]) * value
            y[(*place, t, c)] = D[c] * value + sum(float(C[(*place, t, m)]) * h[m] for m in range(N))
    return y
