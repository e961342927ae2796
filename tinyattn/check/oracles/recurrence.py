"""Recurrences, token by token and channel by channel."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...backend import Array
from .basics import dot, softmax_mean


def _over_tokens(x: Array, H: int, step: Callable[..., tuple[Any, ...]], *first: Array | None) -> Array:
    """h (..., n, H), token by token. `step(x_t, *states) -> states`; the first state is h_t. `first` has the initial
    states; None is 0."""
    h = np.zeros((*x.shape[:-1], H))
    for lead in np.ndindex(x.shape[:-2]):
        states: tuple[Any, ...] = tuple([0.0] * H if state is None else list(state[lead]) for state in first)
        for t in range(x.shape[-2]):
            states = step(x[lead][t], *states)
            h[lead][t] = states[0]
    return h


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-max(x, -700)))


def gru(x: Array, W: Array, U: Array, b: Array, c: Array, h0: Array | None = None) -> Any:
    H = U.shape[0]

    def step(x: Array, h: list[float]) -> tuple[Any, ...]:
        new = []
        for j in range(H):
            x_r, x_z, x_n = (dot(x, W[:, o]) + b[o] for o in (j, H + j, 2 * H + j))
            h_r, h_z, h_n = (dot(h, U[:, o]) + c[o] for o in (j, H + j, 2 * H + j))
            r, z = _sigmoid(x_r + h_r), _sigmoid(x_z + h_z)
            n = math.tanh(x_n + r * h_n)
            new.append((1 - z) * n + z * h[j])
        return (new,)

    return _over_tokens(x, H, step, h0)


def rnn(x: Array, W: Array, U: Array, b: Array, h0: Array | None = None) -> Any:
    H = U.shape[0]

    def step(x: Array, h: list[float]) -> tuple[Any, ...]:
        return ([math.tanh(dot(x, W[:, j]) + dot(h, U[:, j]) + b[j]) for j in range(H)],)

    return _over_tokens(x, H, step, h0)


def lstm(x: Array, W: Array, U: Array, b: Array, h0: Array | None = None, c0: Array | None = None) -> Any:
    H, columns = U.shape

    def step(x: Array, h: list[float], c: list[float]) -> tuple[Any, ...]:
        new_h, new_c = [], []
        u = [dot(x, W[:, column]) + dot(h, U[:, column]) + b[column] for column in range(columns)]
        for j in range(H):
            i, o = _sigmoid(u[j]), _sigmoid(u[columns - 2 * H + j])
            f = _sigmoid(u[H + j]) if columns == 4 * H else 1.0
            g = math.tanh(u[columns - H + j])
            cell = f * c[j] + i * g
            new_c.append(cell)
            new_h.append(o * math.tanh(cell))
        return new_h, new_c

    return _over_tokens(x, H, step, h0, c0)


def wkv(k: Array, v: Array, w: Array, u: Array, mean0: Array | None = None, size0: Array | None = None) -> Any:
    """Channel by channel: the mean of the values, weighted by a softmax over all tokens up to the present one."""
    y = np.zeros(k.shape)
    for *lead, t, c in np.ndindex(k.shape):
        place = tuple(lead)
        logits = [float(k[(*place, s, c)] - (t - 1 - s) * w[c]) for s in range(t)] + [float(k[(*place, t, c)] + u[c])]
        values = [v[(*place, s, c)] for s in range(t + 1)]
        if mean0 is not None and size0 is not None:
            logits, values = [float(size0[(*place, c)] - t * w[c]), *logits], [mean0[(*place, c)], *values]
        y[(*place, t, c)] = softmax_mean(logits, values)
    return y


def associative_scan(a: Array, b: Array, h0: Array | None = None, form: str = "") -> Any:
    h = np.zeros(a.shape)
    for *lead, c in np.ndindex((*a.shape[:-2], a.shape[-1])):
        state = 0.0 if h0 is None else float(h0[(*lead, c)])
        for t in range(a.shape[-2]):
            state = float(a[(*lead, t, c)]) * state + float(b[(*lead, t, c)])
            h[(*lead, t, c)] = state
    return h


def selective_scan(
    x: Array, delta: Array, A: Array, B: Array, C: Array, D: Array, h0: Array | None = None, exact: bool = False
) -> Any:
    y, N = np.zeros(x.shape), len(A)
    for *lead, c in np.ndindex((*x.shape[:-2], x.shape[-1])):
        place = tuple(lead)
        h = [0.0] * N if h0 is None else [float(h0[(*place, m, c)]) for m in range(N)]
        for t in range(x.shape[-2]):
            duration, value = float(delta[(*place, t, c)]), float(x[(*place, t, c)])
            read = 0.0
            for m in range(N):
                z = duration * float(A[m, c])
                hold = math.expm1(z) / z if exact and z else 1.0
                h[m] = math.exp(z) * h[m] + hold * duration * float(B[(*place, t, m)]) * value
                read += float(C[(*place, t, m)]) * h[m]
            y[(*place, t, c)] = read + D[c] * value
    return y


def delta_rule(
    q: Array, k: Array, v: Array, beta: Array, a: Array | None = None, S0: Array | None = None, chunk: int = 0
) -> Any:
    y, N = np.zeros(v.shape), k.shape[-1]
    for *lead, c in np.ndindex((*v.shape[:-2], v.shape[-1])):
        place = tuple(lead)
        S = [0.0] * N if S0 is None else [float(S0[(*place, i, c)]) for i in range(N)]
        for t in range(v.shape[-2]):
            at = (*place, t)
            if a is not None:
                S = [math.exp(a[at]) * s for s in S]
            held = dot(k[at], S)
            S = [s + float(beta[at]) * float(x) * (float(v[(*at, c)]) - held) for s, x in zip(S, k[at], strict=True)]
            y[(*at, c)] = dot(q[at], S)
    return y
