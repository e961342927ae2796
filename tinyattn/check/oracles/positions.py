"""Position schemes."""

from typing import Any

import numpy as np

from ...backend import Array
from .basics import dot


def alibi(heads: int, n: int, authors: bool = False) -> Any:
    """The bias of keys up to each query, 0 elsewhere; with `authors`, the slopes of the authors' code."""
    slopes = [2 ** (-8 * (head + 1) / heads) for head in range(heads)]
    if authors and heads & (heads - 1):
        power = 2 ** (heads.bit_length() - 1)
        every = [2 ** (-4 * (head + 1) / power) for head in range(2 * power)]  # the slopes of twice as many heads
        slopes = every[1::2] + every[0::2][: heads - power]
    return np.array([[[-slope * max(i - j, 0) for j in range(n)] for i in range(n)] for slope in slopes])


def rotary(x: Array, cos: Array, sin: Array) -> Any:
    c, s = (np.broadcast_to(table, (*x.shape[:-1], x.shape[-1] // 2)) for table in (cos, sin))
    y = np.zeros(x.shape)
    for *token, i in np.ndindex(c.shape):
        at = tuple(token)
        even, odd = x[at][2 * i], x[at][2 * i + 1]
        y[at][2 * i] = c[at][i] * even - s[at][i] * odd
        y[at][2 * i + 1] = s[at][i] * even + c[at][i] * odd
    return y


def bucket_bias(table: Array, buckets: Array) -> Any:
    bias = np.zeros((table.shape[1], *buckets.shape))
    for k, i, j in np.ndindex(bias.shape):
        bias[k, i, j] = table[buckets[i, j], k]
    return bias


def relative_scores(q: Array, a: Array, m: int) -> Any:
    """Pair by pair: the query times the vector of the clipped distance."""
    K = a.shape[-2] // 2
    every, s = np.broadcast_to(a, (*q.shape[:-2], *a.shape[-2:])), np.zeros((*q.shape[:-1], m))
    for *lead, i, j in np.ndindex(s.shape):
        at = tuple(lead)
        s[at][i, j] = dot(q[at][i], every[at][min(max(j - i, -K), K) + K])
    return s


def relative_values(w: Array, a: Array) -> Any:
    K, out = a.shape[-2] // 2, np.zeros((*w.shape[:-1], a.shape[-1]))
    every = np.broadcast_to(a, (*w.shape[:-2], *a.shape[-2:]))
    for *lead, i, j in np.ndindex(w.shape):
        at = tuple(lead)
        out[at][i] += w[at][i, j] * every[at][min(max(j - i, -K), K) + K]
    return out
