"""Attention in all its forms: the keys that a query sees, and the weights of their scores."""

import itertools
import math
from typing import Any

import numpy as np

from ...backend import Array
from ...ops import Mask, as_mask
from ...random import PairMask
from .basics import dot, linear, silu, softmax, softmax_mean


def attention(
    q: Array, k: Array, v: Array, mask: Array | None = None, bias: Array | None = None, keep: Array | None = None,
    rate: float = 0.0, scale: float | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    s = np.zeros((*q.shape[:-1], k.shape[-2]))
    for *lead, i, j in np.ndindex(s.shape):
        s[(*lead, i, j)] = scale * dot(q[(*lead, i)], k[(*lead, j)])
    if bias is not None:
        s = s + bias
    weights = softmax(s, mask)
    kept = weights if keep is None else weights * keep / (1 - rate)
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for *lead, i, c in np.ndindex(out.shape):
        out[(*lead, i, c)] = dot(kept[(*lead, i)], v[tuple(lead)][:, c])
    return out, weights


def pointwise_attention(q: Array, k: Array, v: Array, mask: Array | None = None, bias: Array | None = None) -> Array:
    """Query by query: the mean of silu(score) · value over the keys that the query may look at."""
    pairs = (*q.shape[:-1], k.shape[-2])
    allowed = np.broadcast_to(True if mask is None else mask, pairs)
    added = np.broadcast_to(0.0 if bias is None else bias, pairs)
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for *lead, i in np.ndindex(out.shape[:-1]):
        at = tuple(lead)
        keys = [j for j in range(pairs[-1]) if allowed[at][i, j]]
        for j in keys:
            s = dot(q[at][i], k[at][j]) + added[at][i, j]
            out[at][i] += silu(np.maximum(s, -700)) * v[at][j] / len(keys)            # e^709 is the largest float
    return out


def fused_attention(
    q: Array, k: Array, v: Array, mask: Mask | Array | None = None, scale: float | None = None
) -> Array:
    return attention(q, k, v, as_mask(mask).array(q.shape[-2], k.shape[-2], like=q), scale=scale)[0]


def flash_attention(
    q: Array, k: Array, v: Array, mask: Mask | Array | None = None, keep: PairMask | None = None,
    scale: float | None = None, tile: Any = None,
) -> Array:  # fmt: skip
    """All weights at once, without dropout."""
    assert keep is None
    return fused_attention(q, k, v, mask, scale)


def tiled_attention(q: Array, k: Array, v: Array, width: int) -> Array:
    """Query by query, with running sums over `width` keys at a time: (n, d), (m, d), (m, e) -> (n, e)."""
    out = np.zeros((len(q), v.shape[-1]))
    for i in range(len(q)):
        top, total, acc = -math.inf, 0.0, np.zeros(v.shape[-1])
        for start in range(0, len(k), width):
            tile = slice(start, start + width)
            s = k[tile] @ q[i] / math.sqrt(q.shape[-1])
            new_top = max(top, np.max(s))
            weights, shrink = np.exp(s - new_top), math.exp(top - new_top)
            total = shrink * total + np.sum(weights)
            acc = shrink * acc + weights @ v[tile]
            top = new_top
        out[i] = acc / total
    return out


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
    """The heads' outputs, side by side. Head h has the h-th d columns of q; heads // kv_heads successive heads share
    d columns of k and v."""
    d, outputs = q.shape[-1] // heads, []
    for h in range(heads):
        columns, shared = (slice(g * d, (g + 1) * d) for g in (h, h // (heads // kv_heads)))
        outputs.append(attention(q[..., columns], k[..., shared], v[..., shared], mask)[0])
    return np.concatenate(outputs, axis=-1)


def window_attention(
    q: Array, k: Array, v: Array, window: int, causal: bool = True, keys: Array | None = None,
    keep: Array | None = None, rate: float = 0.0, scale: float | None = None,
) -> Any:  # fmt: skip
    """Query by query: softmax attention over the keys that the query may see, without dropout."""
    assert keep is None
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    real = np.broadcast_to(True if keys is None else keys, q.shape[:-1])
    out = np.zeros(v.shape)
    for *lead, i in np.ndindex(q.shape[:-1]):
        at = tuple(lead)
        last = i if causal else i + window - 1
        places = [j for j in range(q.shape[-2]) if i - window < j <= last and real[at][j]]
        scores = [scale * dot(q[at][i], k[at][j]) for j in places]
        out[at][i] = softmax_mean(scores, [v[at][j] for j in places])
    return out


def block_sparse_attention(
    q: Array, k: Array, v: Array, layout: Any, keys: Array | None = None, bias: Array | None = None,
    keep: Any = None, scale: float | None = None,
) -> Any:  # fmt: skip
    """Block by block and query by query: softmax attention over the keys that the query may see, without dropout."""
    assert keep is None
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    real = np.broadcast_to(True if keys is None else keys, k.shape[:-1])
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for of, at in itertools.product(layout.groups, list(np.ndindex(q.shape[:-2]))):
        added = np.broadcast_to(0.0 if bias is None else bias, (*q.shape[:-2], *of.looks.shape))
        for block, row in np.ndindex(of.queries.shape):
            i = of.queries[block, row]
            places = [(c, j) for c, j in enumerate(of.keys[block]) if j >= 0 and real[at][j]
                      and (of.allowed is None or of.allowed[block, row, c])]  # fmt: skip
            if i >= 0 and places:
                scores = [scale * dot(q[at][i], k[at][j]) + added[at][block, row, place] for place, j in places]
                out[at][i] += softmax_mean(scores, [v[at][j] for _, j in places])
    return out


def linear_attention(
    q: Array, k: Array, v: Array, causal: bool = True, keys: Array | None = None, form: str = ""
) -> Any:
    """Pair by pair. All values of `form` have this result."""
    real = np.broadcast_to(True if keys is None else keys, k.shape[:-1])
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for *lead, i in np.ndindex(q.shape[:-1]):
        at, total = tuple(lead), 0.0
        for j in range(i + 1 if causal else k.shape[-2]):
            pairs = zip(q[at][i], k[at][j], strict=True)
            weight = sum(elu_plus_1(a) * elu_plus_1(b) for a, b in pairs) if real[at][j] else 0.0
            total += weight
            out[at][i] += weight * v[at][j]
        if total:
            out[at][i] /= total
    return out


def elu_plus_1(x: float) -> float:
    return x + 1 if x > 0 else math.exp(x)


def performer_attention(
    q: Array, k: Array, v: Array, W: Array, causal: bool = True, keys: Array | None = None, form: str = ""
) -> Any:
    """Pair by pair and feature by feature: the mean of the values, weighted by the softmax of a query's exponents."""
    real = np.broadcast_to(True if keys is None else keys, k.shape[:-1])
    out, root = np.zeros((*q.shape[:-1], v.shape[-1])), q.shape[-1] ** 0.25
    for *lead, i in np.ndindex(q.shape[:-1]):
        at, exponents, values = tuple(lead), [], []
        for j in range(i + 1 if causal else k.shape[-2]):
            for r in range(len(W)) if real[at][j] else ():
                both = sum(w * (a + b) / root for w, a, b in zip(W[r], q[at][i], k[at][j], strict=True))
                exponents.append(both - sum((b / root) ** 2 for b in k[at][j]) / 2)
                values.append(v[at][j])
        out[at][i] = softmax_mean(exponents, values)
    return out


def additive_scores(q: Array, k: Array, w: Array) -> Any:
    s = np.zeros((*q.shape[:-1], k.shape[-2]))
    for *lead, i, j in np.ndindex(s.shape):
        pairs = zip(q[(*lead, i)], k[(*lead, j)], w, strict=True)
        s[(*lead, i, j)] = sum(weight * math.tanh(a + b) for a, b, weight in pairs)
    return s


def wasserstein_scores(q_mean: Array, q_dev: Array, k_mean: Array, k_dev: Array, root: bool = False) -> Any:
    """Pair by pair: the sum of squared differences."""
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
        p = weights[(*lead, i, j)]
        out[(*lead, i)][:e] += p * v_mean[(*lead, j)]
        out[(*lead, i)][e:] += p * p * v_cov[(*lead, j)]
    return out, weights


def additive_attention(q: Array, k: Array, v: Array, w: Array, causal: bool = True) -> Any:
    weights = np.zeros((*q.shape[:-1], k.shape[-2]))
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for *lead, i in np.ndindex(q.shape[:-1]):
        at = tuple(lead)
        for j in range(i + 1 if causal else k.shape[-2]):
            units = zip(q[at][i], k[at][j], w, strict=True)
            weights[at][i, j] = sum(c / (1 + math.exp(-a - b)) for a, b, c in units)
            out[at][i] += weights[at][i, j] * v[at][j]
    return out, weights
