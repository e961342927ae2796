"""Attention among attention weights."""

import math
from typing import Any

import numpy as np

from ...backend import Array
from .attention import attention, elu_plus_1
from .basics import dot, entrywise, softmax


def refine_simp(A: Array, W_Q: Array, W_K: Array, scale: float | None = None, lags: bool = False) -> Any:
    A, c = _read(A, lags), 1 / math.sqrt(W_Q.shape[-1]) if scale is None else scale
    X, Y = _product(A, W_Q), _product(A, W_K)
    B = np.zeros((*A.shape[:-1], A.shape[-2]))
    for *lead, k, t in np.ndindex(B.shape):
        B[(*lead, k, t)] = c * dot(X[(*lead, k)], Y[(*lead, t)])
    return B


def refine_add(A: Array, W_Q: Array, W_K: Array, scale: float | None = None, lags: bool = False) -> Any:
    return (refine_simp(A, W_Q, W_K, scale, lags) + A) / 2


def refine_value(A: Array, W_Q: Array, W_K: Array, W_V: Array) -> Any:
    """Row k is the last row of the literal form for the first k + 1 tokens."""
    B = np.zeros(A.shape)
    A, W_Q, W_K, W_V = (np.broadcast_to(np.tril(x), A.shape) for x in (A, W_Q, W_K, W_V))
    for *lead, k in np.ndindex(A.shape[:-1]):
        until = (*lead, slice(k + 1), slice(k + 1))
        B[(*lead, k, slice(k + 1))] = refine_value_literal(A[until], W_Q[until], W_K[until], W_V[until])[-1]
    return B


def refine_value_literal(A: Array, W_Q: Array, W_K: Array, W_V: Array) -> Any:
    """Each column of B mixes the columns of Z, with weights by softmax."""
    X, Y, Z = (_product(np.broadcast_to(W, A.shape), A) for W in (W_Q, W_K, W_V))
    B, n = np.zeros(A.shape), A.shape[-1]
    for *lead, t in np.ndindex((*A.shape[:-2], n)):
        x, y, z = (M[tuple(lead)] for M in (X, Y, Z))
        weights = softmax(np.array([dot(x[:, t], y[:, j]) for j in range(n)]))
        B[tuple(lead)][:, t] = [dot(z[k], weights) for k in range(n)]
    return B


def refine_value_rows(
    A: Array, W_Q: Array, W_K: Array, W_V: Array, mask: Array | None = None, scale: float | None = None,
    lags: bool = False,
) -> Any:  # fmt: skip
    A = _read(A, lags)
    X, Y, Z = (_product(A, W) for W in (W_Q, W_K, W_V))
    return _read(attention(X, Y, Z, mask, scale=scale)[0], lags)


def refine_stoc(A: Array, W_mu: Array, W_sigma: Array, scale: float | None = None, lags: bool = False) -> Any:
    A, c = _read(A, lags), 1 / math.sqrt(W_mu.shape[-1]) if scale is None else scale
    sigma = entrywise(lambda z: math.sqrt(elu_plus_1(z)), _product(A, W_sigma))
    x = np.concatenate([_product(A, W_mu), sigma], axis=-1)
    B = np.zeros((*A.shape[:-1], A.shape[-2]))
    for *lead, k, t in np.ndindex(B.shape):
        B[(*lead, k, t)] = -c * sum((a - b) ** 2 for a, b in zip(x[(*lead, k)], x[(*lead, t)], strict=True))
    return B


def _read(A: Array, lags: bool) -> Array:
    """A; or, with `lags`, the scores by lag: entry (k, r) is A[k, k - r], or 0 before the first token."""
    y = np.zeros(A.shape)
    for *row, r in np.ndindex(A.shape):
        column = row[-1] - r if lags else r
        y[(*row, r)] = A[(*row, column)] if column >= 0 else 0.0
    return y


def _product(A: Array, W: Array) -> Array:
    """A W for all leading axes; W is broadcast along the axes that it lacks."""
    W = np.broadcast_to(W, (*A.shape[:-2], *W.shape[-2:]))
    y = np.zeros((*A.shape[:-1], W.shape[-1]))
    for *lead, k, r in np.ndindex(y.shape):
        y[(*lead, k, r)] = dot(A[(*lead, k)], W[tuple(lead)][:, r])
    return y
