"""Attention in all its forms: which keys a query sees, and what it makes of their scores."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ...backend import Array
from ...ops import Mask, as_mask
from ...random import PairMask
from .basics import linear, softmax


def attention(
    q: Array, k: Array, v: Array, mask: Array | None = None, bias: Array | None = None, keep: Array | None = None,
    rate: float = 0.0, scale: float | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    n, m, d = q.shape[-2], k.shape[-2], q.shape[-1]
    scale = 1 / math.sqrt(d) if scale is None else scale
    s = np.zeros((*q.shape[:-1], m))
    for lead in np.ndindex(q.shape[:-2]):
        for i in range(n):
            for j in range(m):
                s[lead][i, j] = scale * sum(q[lead][i, c] * k[lead][j, c] for c in range(d))
    if bias is not None:
        s = s + bias
    weights = softmax(s, mask)
    kept = weights if keep is None else weights * keep / (1 - rate)
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for lead in np.ndindex(q.shape[:-2]):
        for i in range(n):
            for c in range(v.shape[-1]):
                out[lead][i, c] = sum(kept[lead][i, j] * v[lead][j, c] for j in range(m))
    return out, weights


def fused_attention(
    q: Array, k: Array, v: Array, mask: Mask | Array | None = None, scale: float | None = None
) -> Array:
    return attention(q, k, v, as_mask(mask).array(q.shape[-2], k.shape[-2], like=q), scale=scale)[0]


def flash_attention(
    q: Array, k: Array, v: Array, mask: Mask | Array | None = None, keep: PairMask | None = None,
    scale: float | None = None, tile: Any = None,
) -> Array:  # fmt: skip
    """All weights at once. (Without dropout.)"""
    assert keep is None
    return fused_attention(q, k, v, mask, scale)


def multi_head_attention(
    x: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, heads: int, mask: Array | None = None
) -> Array:
    return cross_attention(x, x, W_q, W_k, W_v, W_o, heads, mask)


def cross_attention(
    x: Array, memory: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, heads: int, mask: Array | None = None
) -> Array:
    return linear(_side_by_side(linear(x, W_q), linear(memory, W_k), linear(memory, W_v), heads, heads, mask), W_o)


def biased_multi_head_attention(
    x: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, b_q: Array, b_k: Array, b_v: Array, b_o: Array,
    heads: int, mask: Array | None = None,
) -> Array:  # fmt: skip
    q, k, v = linear(x, W_q, b_q), linear(x, W_k, b_k), linear(x, W_v, b_v)
    return linear(_side_by_side(q, k, v, heads, heads, mask), W_o, b_o)


def grouped_query_attention(
    x: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, heads: int, kv_heads: int, mask: Array | None = None
) -> Array:
    return linear(_side_by_side(linear(x, W_q), linear(x, W_k), linear(x, W_v), heads, kv_heads, mask), W_o)


def _side_by_side(q: Array, k: Array, v: Array, heads: int, kv_heads: int, mask: Array | None) -> Array:
    """A loop over heads, each with its own columns of q; heads // kv_heads of them in a row share those of k and v."""
    d, outputs = q.shape[-1] // heads, []
    for h in range(heads):
        own, g = slice(h * d, (h + 1) * d), h // (heads // kv_heads)
        shared = slice(g * d, (g + 1) * d)
        outputs.append(attention(q[..., own], k[..., shared], v[..., shared], mask)[0])
    return np.concatenate(outputs, axis=-1)


def window_attention(
    q: Array, k: Array, v: Array, window: int, causal: bool = True, keys: Array | None = None,
    keep: Array | None = None, rate: float = 0.0, scale: float | None = None,
) -> Any:  # fmt: skip
    """Query by query: a list of the places it may look at, and the softmax over these. (Without dropout.)"""
    assert keep is None
    n, d = q.shape[-2:]
    scale = 1 / math.sqrt(d) if scale is None else scale
    real = np.broadcast_to(True if keys is None else keys, q.shape[:-1])
    out = np.zeros(v.shape)
    for *lead, i in np.ndindex(q.shape[:-1]):
        at = tuple(lead)
        last = i if causal else i + window - 1
        places = [j for j in range(n) if i - window < j <= last and real[at][j]]
        scores = [scale * sum(q[at][i, c] * k[at][j, c] for c in range(d)) for j in places]
        top = max(scores, default=0.0)
        total = sum(math.exp(s - top) for s in scores)
        for s, j in zip(scores, places, strict=True):
            for c in range(v.shape[-1]):
                out[at][i, c] += math.exp(s - top) / total * v[at][j, c]
    return out


def block_sparse_attention(
    q: Array, k: Array, v: Array, layout: Any, keys: Array | None = None, bias: Array | None = None,
    keep: Any = None, scale: float | None = None,
) -> Any:  # fmt: skip
    """Block by block and query by query: the softmax over the keys that the query may look at. (Without dropout.)"""
    assert keep is None
    d = q.shape[-1]
    scale = 1 / math.sqrt(d) if scale is None else scale
    real = np.broadcast_to(True if keys is None else keys, k.shape[:-1])
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for of, at in itertools.product(layout.groups, list(np.ndindex(q.shape[:-2]))):
        added = np.broadcast_to(0.0 if bias is None else bias, (*q.shape[:-2], *of.looks.shape))
        for block, row in np.ndindex(of.queries.shape):
            i = of.queries[block, row]
            places = [(c, j) for c, j in enumerate(of.keys[block]) if j >= 0 and real[at][j]
                      and (of.allowed is None or of.allowed[block, row, c])]  # fmt: skip
            if i < 0 or not places:
                continue
            scores = [scale * sum(q[at][i, c] * k[at][j, c] for c in range(d)) + added[at][block, row, place]
                      for place, j in places]  # fmt: skip
            top = max(scores)
            total = sum(math.exp(s - top) for s in scores)
            for s, (_, j) in zip(scores, places, strict=True):
                for c in range(v.shape[-1]):
                    out[at][i, c] += math.exp(s - top) / total * v[at][j, c]
    return out


def linear_attention(
    q: Array, k: Array, v: Array, causal: bool = True, keys: Array | None = None, form: str = ""
) -> Any:
    """Pair by pair. Whatever the form, the result is this one."""
    real = np.broadcast_to(True if keys is None else keys, k.shape[:-1])
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for *lead, i in np.ndindex(q.shape[:-1]):
        at, total = tuple(lead), 0.0
        for j in range(i + 1 if causal else k.shape[-2]):
            pairs = zip(q[at][i], k[at][j], strict=True)
            weight = sum(elu_plus_1(a) * elu_plus_1(b) for a, b in pairs) if real[at][j] else 0.0
            total += weight
            for c in range(v.shape[-1]):
                out[at][i, c] += weight * v[at][j, c]
        if total:
            out[at][i] /= total
    return out


def elu_plus_1(x: float) -> float:
    return x + 1 if x > 0 else math.exp(x)


def performer_attention(
    q: Array, k: Array, v: Array, W: Array, causal: bool = True, keys: Array | None = None, form: str = ""
) -> Any:
    """Pair by pair and feature by feature; all exponents of a query are lowered together."""
    real = np.broadcast_to(True if keys is None else keys, k.shape[:-1])
    out, root = np.zeros((*q.shape[:-1], v.shape[-1])), q.shape[-1] ** 0.25
    for *lead, i in np.ndindex(q.shape[:-1]):
        at, exponents = tuple(lead), {}
        for j in range(i + 1 if causal else k.shape[-2]):
            for r in range(len(W)) if real[at][j] else ():
                both = sum(w * (a + b) / root for w, a, b in zip(W[r], q[at][i], k[at][j], strict=True))
                exponents[j, r] = both - sum((b / root) ** 2 for b in k[at][j]) / 2
        top = max(exponents.values(), default=0.0)
        weights = {pair: math.exp(exponent - top) for pair, exponent in exponents.items()}
        for c in range(v.shape[-1]):
            total = sum(weight * v[at][j, c] for (j, _), weight in weights.items())
            out[at][i, c] = total / sum(weights.values()) if weights else 0.0
    return out


def additive_scores(q: Array, k: Array, w: Array) -> Any:
    """Pair by pair."""
    s = np.zeros((*q.shape[:-1], k.shape[-2]))
    for *lead, i, j in np.ndindex(s.shape):
        pairs = zip(q[(*lead, i)], k[(*lead, j)], w, strict=True)
        s[(*lead, i, j)] = sum(weight * math.tanh(a + b) for a, b, weight in pairs)
    return s


def wasserstein_scores(q_mean: Array, q_dev: Array, k_mean: Array, k_dev: Array, root: bool = False) -> Any:
    """Pair by pair: the differences themselves, squared and added."""
    s = np.zeros((*q_mean.shape[:-1], k_mean.shape[-2]))
    for *lead, i, j in np.ndindex(s.shape):
        at = tuple(lead)
        pairs = [*zip(q_mean[at][i], k_mean[at][j], strict=True), *zip(q_dev[at][i], k_dev[at][j], strict=True)]
        squared = sum((a - b) ** 2 for a, b in pairs)
        s[(*at, i, j)] = -(math.sqrt(squared) if root else squared) / math.sqrt(q_mean.shape[-1])
    return s


def gaussian_attention(s: Array, v_mean: Array, v_cov: Array, mask: Array | None = None) -> Any:
    """Number by number: the mean and the variance of a weighted sum of independent numbers."""
    weights, e = softmax(s, mask), v_mean.shape[-1]
    out = np.zeros((*s.shape[:-1], e + v_cov.shape[-1]))
    for *lead, i, j in np.ndindex(s.shape):
        at = tuple(lead)
        p = weights[at][i, j]
        for o in range(e):
            out[at][i, o] += p * v_mean[at][j, o]
        for o in range(v_cov.shape[-1]):
            out[at][i, e + o] += p * p * v_cov[at][j, o]
    return out, weights


def additive_attention(q: Array, k: Array, v: Array, w: Array, causal: bool = True) -> Any:
    """Pair by pair and unit by unit."""
    weights = np.zeros((*q.shape[:-1], k.shape[-2]))
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for *lead, i in np.ndindex(q.shape[:-1]):
        at = tuple(lead)
        for j in range(i + 1 if causal else k.shape[-2]):
            units = zip(q[at][i], k[at][j], w, strict=True)
            weights[at][i, j] = sum(c / (1 + math.exp(-a - b)) for a, b, c in units)
            for o in range(v.shape[-1]):
                out[at][i, o] += weights[at][i, j] * v[at][j, o]
    return out, weights
