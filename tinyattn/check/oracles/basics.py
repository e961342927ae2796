"""The ops that act on each token, row or number alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...backend import Array


def linear(x: Array, W: Array, b: Array | None = None) -> Array:
    y = np.zeros((*x.shape[:-1], W.shape[1]))
    for token in np.ndindex(x.shape[:-1]):
        for o in range(W.shape[1]):
            y[token][o] = sum(x[token][i] * W[i, o] for i in range(W.shape[0])) + (0 if b is None else b[o])
    return y


def softmax(s: Array, mask: Array | None = None) -> Array:
    allowed = np.broadcast_to(True if mask is None else mask, s.shape)
    p = np.zeros(s.shape)
    for row in np.ndindex(s.shape[:-1]):
        places = [j for j in range(s.shape[-1]) if allowed[row][j]]
        if places:
            top = max(s[row][j] for j in places)
            total = sum(math.exp(s[row][j] - top) for j in places)
            for j in places:
                p[row][j] = math.exp(s[row][j] - top) / total
    return p


def layer_norm(x: Array, gamma: Array, beta: Array, eps: float = 1e-5) -> tuple[Array, Array, Array]:
    y, x_hat = np.zeros(x.shape), np.zeros(x.shape)
    rstd = np.zeros((*x.shape[:-1], 1))
    d = x.shape[-1]
    for token in np.ndindex(x.shape[:-1]):
        mean = sum(x[token]) / d
        variance = sum((value - mean) ** 2 for value in x[token]) / d
        rstd[token][0] = 1 / math.sqrt(variance + eps)
        for i in range(d):
            x_hat[token][i] = (x[token][i] - mean) * rstd[token][0]
            y[token][i] = x_hat[token][i] * gamma[i] + beta[i]
    return y, x_hat, rstd


def rms_norm(x: Array, gamma: Array, eps: float = 1e-5) -> tuple[Array, Array, Array]:
    y, x_hat, r = np.zeros(x.shape), np.zeros(x.shape), np.zeros((*x.shape[:-1], 1))
    for token in np.ndindex(x.shape[:-1]):
        r[token][0] = 1 / math.sqrt(sum(value * value for value in x[token]) / x.shape[-1] + eps)
        for i in range(x.shape[-1]):
            x_hat[token][i] = x[token][i] * r[token][0]
            y[token][i] = x_hat[token][i] * gamma[i]
    return y, x_hat, r


def batch_norm(
    x: Array, gamma: Array, beta: Array, eps: float = 1e-5, mean: Array | None = None, var: Array | None = None
) -> tuple[Array, Array, Array]:
    y, x_hat, inv_std = np.zeros(x.shape), np.zeros(x.shape), np.zeros(x.shape[-1:])
    rows = list(np.ndindex(x.shape[:-1]))
    n = max(len(rows), 1)
    for i in range(x.shape[-1]):
        centre = sum(x[row][i] for row in rows) / n if mean is None else mean[i]
        variance = sum((x[row][i] - centre) ** 2 for row in rows) / n if var is None else var[i]
        inv_std[i] = 1 / math.sqrt(variance + eps)
        for row in rows:
            x_hat[row][i] = (x[row][i] - centre) * inv_std[i]
            y[row][i] = x_hat[row][i] * gamma[i] + beta[i]
    return y, x_hat, inv_std


def norm_linear(
    x: Array, gamma: Array, beta: Array, W: Array, b: Array | None = None, eps: float = 1e-5
) -> tuple[Array, Array, Array]:
    h, x_hat, rstd = layer_norm(x, gamma, beta, eps)
    return linear(h, W, b), x_hat, rstd


def gelu(x: Array, approximate: bool = False) -> Array:
    y = np.zeros(x.shape)
    for i in np.ndindex(x.shape):
        if approximate:
            y[i] = 0.5 * x[i] * (1 + math.tanh(math.sqrt(2 / math.pi) * (x[i] + 0.044715 * x[i] ** 3)))
        else:
            y[i] = 0.5 * x[i] * (1 + math.erf(x[i] / math.sqrt(2)))
    return y


def elu(x: Array, alpha: float = 1.0) -> Array:
    return np.array([v if v > 0 else alpha * math.expm1(v) for v in x.reshape(-1)]).reshape(x.shape)


def silu(x: Array) -> Array:
    return np.array([v / (1 + math.exp(-v)) for v in x.reshape(-1)]).reshape(x.shape)


def relu(x: Array) -> Array:
    return np.array([max(value, 0.0) for value in x.reshape(-1)]).reshape(x.shape)


def dropout(x: Array, keep: Array | None, rate: float) -> Array:
    if keep is None:
        return np.array(x)
    flat = zip(x.reshape(-1), np.broadcast_to(keep, x.shape).reshape(-1), strict=True)
    return np.array([value / (1 - rate) if kept else 0.0 for value, kept in flat]).reshape(x.shape)


def embedding(ids: Array, E: Array) -> Array:
    return np.array([[E[i, c] for c in range(E.shape[1])] for i in ids.reshape(-1)]).reshape(*ids.shape, E.shape[1])


def embedding_backward(dy: Array, ids: Array, E: Array) -> Array:
    dE = np.zeros(E.shape)
    for place in np.ndindex(ids.shape):
        for c in range(E.shape[1]):
            dE[ids[place], c] += dy[place][c]
    return dE


def root_elu(x: Array) -> Any:
    """Number by number."""
    y = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        y[at] = math.sqrt(1 + x[at]) if x[at] > 0 else math.exp(x[at] / 2)
    return y
