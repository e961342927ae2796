"""Oracles: the ops as plain loops over float64 numbers, slow and simple."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ..backend import Array
from ..ops import Mask, as_mask
from ..random import PairMask


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


def cross_entropy(logits: Array, targets: Array, weights: Array | None = None) -> float:
    total = loss = 0.0
    for place in np.ndindex(targets.shape):
        w = 1.0 if weights is None else weights[place]
        top = max(logits[place])
        log_sum = top + math.log(sum(math.exp(z - top) for z in logits[place]))
        loss += w * (log_sum - logits[place][targets[place]])
        total += w
    return loss / total if total else 0.0


def smoothed_cross_entropy(
    logits: Array, targets: Array, weights: Array | None = None, smoothing: float = 0.1
) -> float:
    """The cross-entropies of all classes, each by the probability that it is given."""
    V = logits.shape[-1]
    return sum(
        (smoothing / V) * cross_entropy(logits, np.full(targets.shape, j), weights) for j in range(V)
    ) + (1 - smoothing) * cross_entropy(logits, targets, weights)


def bpr_max(positive: Array, negatives: Array, weights: Array | None = None, regularisation: float = 1.0) -> float:
    """log σ alone is computed around 0; -log Σ sσ is then a sum of exponentials."""
    total = loss = 0.0
    for at in np.ndindex(positive.shape):
        w = 1.0 if weights is None else float(weights[at])
        r, s = negatives[at], softmax(negatives[at])
        top = max(r)
        log_total = top + math.log(sum(math.exp(x - top) for x in r))
        logs = []
        for x in r:
            gap = positive[at] - x
            logs.append(x - log_total - (math.log1p(math.exp(-gap)) if gap > 0 else math.log1p(math.exp(gap)) - gap))
        high = max(logs)
        loss -= w * (high + math.log(sum(math.exp(x - high) for x in logs)))
        loss += w * regularisation * sum(s[j] * r[j] ** 2 for j in range(len(r)))
        total += w
    return loss / total if total else 0.0


def bce_with_logits(z: Array, targets: Array, weights: Array | None = None) -> float:
    total = loss = 0.0
    for place in np.ndindex(z.shape):
        w, t = (1.0 if weights is None else weights[place]), targets[place]
        loss += w * (t * _minus_log_sigmoid(z[place]) + (1 - t) * _minus_log_sigmoid(-z[place]))
        total += w
    return loss / total if total else 0.0


def _minus_log_sigmoid(z: float) -> float:
    return math.log1p(math.exp(-z)) if z > 0 else -z + math.log1p(math.exp(z))


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


def feed_forward(x: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array) -> Array:
    return linear(relu(linear(x, W_1, b_1)), W_2, b_2)


def gelu_feed_forward(
    x: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array, approximate: bool = False
) -> Array:
    return linear(gelu(linear(x, W_1, b_1), approximate), W_2, b_2)


def block(
    x: Array, gamma_1: Array, beta_1: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, gamma_2: Array,
    beta_2: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array, heads: int, mask: Array | None = None,
    eps: float = 1e-5,
) -> Array:  # fmt: skip
    x = x + multi_head_attention(layer_norm(x, gamma_1, beta_1, eps)[0], W_q, W_k, W_v, W_o, heads, mask)
    return x + feed_forward(layer_norm(x, gamma_2, beta_2, eps)[0], W_1, b_1, W_2, b_2)


def post_ln_block(
    x: Array, W_q: Array, W_k: Array, W_v: Array, W_o: Array, gamma_1: Array, beta_1: Array, W_1: Array, b_1: Array,
    W_2: Array, b_2: Array, gamma_2: Array, beta_2: Array, heads: int, mask: Array | None = None, eps: float = 1e-5,
) -> Array:  # fmt: skip
    x = layer_norm(x + multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask), gamma_1, beta_1, eps)[0]
    return layer_norm(x + feed_forward(x, W_1, b_1, W_2, b_2), gamma_2, beta_2, eps)[0]


def rank(scores: Array, target: int) -> float:
    """The mean rank under ties: 1 is best."""
    greater = sum(1 for s in scores if s > scores[target])
    equal = sum(1 for s in scores if s == scores[target]) - 1
    return 1 + greater + equal / 2


def hit_rate(scores: Array, target: int, k: int) -> float:
    return 1.0 if rank(scores, target) < k + 1 else 0.0


def ndcg(scores: Array, target: int, k: int) -> float:
    return 1 / math.log2(rank(scores, target) + 1) if rank(scores, target) < k + 1 else 0.0


def adam(
    vector: Array, gradient: Array, m: Array, v: Array, step: int, lr: float = 1e-3, beta1: float = 0.9,
    beta2: float = 0.98, eps: float = 1e-8,
) -> tuple[Array, ...]:  # fmt: skip
    """-> new vector, m, v, entry by entry."""
    results = np.zeros((3, len(vector)))
    for i in range(len(vector)):
        m_i = beta1 * m[i] + (1 - beta1) * gradient[i]
        v_i = beta2 * v[i] + (1 - beta2) * gradient[i] ** 2
        m_hat, v_hat = m_i / (1 - beta1**step), v_i / (1 - beta2**step)
        results[:, i] = vector[i] - lr * m_hat / (math.sqrt(v_hat) + eps), m_i, v_i
    return tuple(results)


def adamw(
    vector: Array, gradient: Array, m: Array, v: Array, step: int, lr: float = 1e-3, beta1: float = 0.9,
    beta2: float = 0.98, eps: float = 1e-8, weight_decay: float | Array = 0.01,
) -> tuple[Array, ...]:  # fmt: skip
    """-> new vector, m, v, entry by entry."""
    new, m_new, v_new = adam(vector, gradient, m, v, step, lr, beta1, beta2, eps)
    decay = np.broadcast_to(weight_decay, vector.shape)
    return np.array([new[i] - lr * decay[i] * vector[i] for i in range(len(vector))]), m_new, v_new


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
            weight = sum(_elu_plus_1(a) * _elu_plus_1(b) for a, b in pairs) if real[at][j] else 0.0
            total += weight
            for c in range(v.shape[-1]):
                out[at][i, c] += weight * v[at][j, c]
        if total:
            out[at][i] /= total
    return out


def _elu_plus_1(x: float) -> float:
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


def conv1d(x: Array, W: Array, dilation: int = 1, padding: str = "same") -> Any:
    """As a grid of one row."""
    return conv2d(x[..., None, :, :], W[None], dilation, padding)[..., 0, :, :]


def conv2d(x: Array, W: Array, dilation: int = 1, padding: str = "same") -> Any:
    """Token by token, place by place and number by number."""
    reach = [(K - 1) * dilation for K in W.shape[:2]]
    before = [{"valid": 0, "same": r // 2, "causal": r}[padding] for r in reach]
    sizes = [n - (r if padding == "valid" else 0) for n, r in zip(x.shape[-3:-1], reach, strict=True)]
    y = np.zeros((*x.shape[:-3], *sizes, W.shape[-1]))
    for *lead, s, t, o in np.ndindex(y.shape):
        for j, l, i in np.ndindex(W.shape[:3]):
            row, column = s + j * dilation - before[0], t + l * dilation - before[1]
            if 0 <= row < x.shape[-3] and 0 <= column < x.shape[-2]:
                y[(*lead, s, t, o)] += x[(*lead, row, column, i)] * W[j, l, i, o]
    return y


def depthwise_conv1d(x: Array, W: Array) -> Any:
    """Number by number."""
    y = np.zeros((*x.shape[:-2], x.shape[-2] - len(W) + 1, x.shape[-1]))
    for *lead, t, c in np.ndindex(y.shape):
        y[(*lead, t, c)] = sum(x[(*lead, t + j, c)] * W[j, c] for j in range(len(W)))
    return y


def additive_scores(q: Array, k: Array, w: Array) -> Any:
    """Pair by pair."""
    s = np.zeros((*q.shape[:-1], k.shape[-2]))
    for *lead, i, j in np.ndindex(s.shape):
        pairs = zip(q[(*lead, i)], k[(*lead, j)], w, strict=True)
        s[(*lead, i, j)] = sum(weight * math.tanh(a + b) for a, b, weight in pairs)
    return s


def patchify(x: Array, patch: int) -> Any:
    """Number by number."""
    *lead, h, w, C = x.shape
    y = np.zeros((*lead, h // patch * (w // patch), patch * patch * C))
    for *batch, row, column, c in np.ndindex(x.shape):
        token = row // patch * (w // patch) + column // patch
        y[(*batch, token, (row % patch * patch + column % patch) * C + c)] = x[(*batch, row, column, c)]
    return y


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


def max_pool1d(x: Array, width: int) -> Any:
    """Number by number."""
    y = np.zeros((*x.shape[:-2], x.shape[-2] - width + 1, x.shape[-1]))
    for *lead, t, c in np.ndindex(y.shape):
        y[(*lead, t, c)] = max(x[(*lead, t + j, c)] for j in range(width))
    return y


def distance_bpr(
    positive: Array, negative: Array, between: Array, weights: Array | None = None, pvn_weight: float = 0.0
) -> float:
    """Position by position; -log σ(z) is log(1 + exp(-z)), around 0."""
    total = loss = 0.0
    for at in np.ndindex(positive.shape):
        w, z = 1.0 if weights is None else float(weights[at]), negative[at] - positive[at]
        each = math.log1p(math.exp(-z)) if z > 0 else math.log1p(math.exp(z)) - z
        total, loss = total + w, loss + w * (each + pvn_weight * max(positive[at] - between[at], 0.0))
    return loss / total if total else 0.0


def root_elu(x: Array) -> Any:
    """Number by number."""
    y = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        y[at] = math.sqrt(1 + x[at]) if x[at] > 0 else math.exp(x[at] / 2)
    return y


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


def rotary(x: Array, cos: Array, sin: Array) -> Any:
    """Every pair as a complex number, times another."""
    c, s = (np.broadcast_to(table, (*x.shape[:-1], x.shape[-1] // 2)) for table in (cos, sin))
    y = np.zeros(x.shape)
    for *token, i in np.ndindex(c.shape):
        at = tuple(token)
        turned = complex(x[at][2 * i], x[at][2 * i + 1]) * complex(c[at][i], s[at][i])
        y[at][2 * i], y[at][2 * i + 1] = turned.real, turned.imag
    return y


def bucket_bias(table: Array, buckets: Array) -> Any:
    bias = np.zeros((table.shape[1], *buckets.shape))
    for k, i, j in np.ndindex(bias.shape):
        bias[k, i, j] = table[buckets[i, j], k]
    return bias


def relative_scores(q: Array, a: Array, m: int) -> Any:
    """Pair by pair, with a vector each."""
    K = a.shape[-2] // 2
    every, s = np.broadcast_to(a, (*q.shape[:-2], *a.shape[-2:])), np.zeros((*q.shape[:-1], m))
    for *lead, i, j in np.ndindex(s.shape):
        at = tuple(lead)
        s[at][i, j] = sum(x * y for x, y in zip(q[at][i], every[at][min(max(j - i, -K), K) + K], strict=True))
    return s


def relative_values(w: Array, a: Array) -> Any:
    K, out = a.shape[-2] // 2, np.zeros((*w.shape[:-1], a.shape[-1]))
    every = np.broadcast_to(a, (*w.shape[:-2], *a.shape[-2:]))
    for *lead, i, j in np.ndindex(w.shape):
        at = tuple(lead)
        for c in range(a.shape[-1]):
            out[at][i, c] += w[at][i, j] * every[at][min(max(j - i, -K), K) + K][c]
    return out


def refine_simp(A: Array, W_Q: Array, W_K: Array, scale: float | None = None, lags: bool = False) -> Any:
    """Pair of rows by pair of rows."""
    A, c = _read(A, lags), 1 / math.sqrt(W_Q.shape[-1]) if scale is None else scale
    X, Y = _product(A, W_Q), _product(A, W_K)
    B = np.zeros((*A.shape[:-1], A.shape[-2]))
    for *lead, k, t in np.ndindex(B.shape):
        B[(*lead, k, t)] = c * sum(x * y for x, y in zip(X[(*lead, k)], Y[(*lead, t)], strict=True))
    return B


def refine_add(A: Array, W_Q: Array, W_K: Array, scale: float | None = None, lags: bool = False) -> Any:
    return (refine_simp(A, W_Q, W_K, scale, lags) + A) / 2


def refine_value(A: Array, W_Q: Array, W_K: Array, W_V: Array) -> Any:
    """For every row anew: the literal form of a sequence that ends there."""
    B = np.zeros(A.shape)
    A, W_Q, W_K, W_V = (np.broadcast_to(np.tril(x), A.shape) for x in (A, W_Q, W_K, W_V))
    for *lead, k in np.ndindex(A.shape[:-1]):
        until = (*lead, slice(k + 1), slice(k + 1))
        B[(*lead, k, slice(k + 1))] = refine_value_literal(A[until], W_Q[until], W_K[until], W_V[until])[-1]
    return B


def refine_value_literal(A: Array, W_Q: Array, W_K: Array, W_V: Array) -> Any:
    """Column by column: a softmax over the columns that are looked at."""
    X, Y, Z = (_product(np.broadcast_to(W, A.shape), A) for W in (W_Q, W_K, W_V))
    B, n = np.zeros(A.shape), A.shape[-1]
    for *lead, t in np.ndindex((*A.shape[:-2], n)):
        x, y, z = (M[tuple(lead)] for M in (X, Y, Z))
        weights = softmax(np.array([sum(x[i, t] * y[i, j] for i in range(n)) for j in range(n)]))
        for k in range(n):
            B[(*lead, k, t)] = sum(z[k, j] * weights[j] for j in range(n))
    return B


def refine_value_rows(
    A: Array, W_Q: Array, W_K: Array, W_V: Array, mask: Array | None = None, scale: float | None = None,
    lags: bool = False,
) -> Any:  # fmt: skip
    A = _read(A, lags)
    X, Y, Z = (_product(A, W) for W in (W_Q, W_K, W_V))
    return _read(attention(X, Y, Z, mask, scale=scale)[0], lags)


def refine_stoc(A: Array, W_mu: Array, W_sigma: Array, scale: float | None = None, lags: bool = False) -> Any:
    """Two rows' distributions, number by number."""
    A, c = _read(A, lags), 1 / math.sqrt(W_mu.shape[-1]) if scale is None else scale
    sigma = np.vectorize(lambda z: math.sqrt(_elu_plus_1(z)), otypes=[float])(_product(A, W_sigma))
    x = np.concatenate([_product(A, W_mu), sigma], axis=-1)
    B = np.zeros((*A.shape[:-1], A.shape[-2]))
    for *lead, k, t in np.ndindex(B.shape):
        B[(*lead, k, t)] = -c * sum((a - b) ** 2 for a, b in zip(x[(*lead, k)], x[(*lead, t)], strict=True))
    return B


def _read(A: Array, lags: bool) -> Array:
    """Column r is the lag r, where lags are read; before the first token there is nothing."""
    found = np.zeros(A.shape)
    for *row, r in np.ndindex(A.shape):
        column = row[-1] - r if lags else r
        found[(*row, r)] = A[(*row, column)] if column >= 0 else 0.0
    return found


def _product(A: Array, W: Array) -> Array:
    """A W for every leading axis, W repeated along those that it lacks."""
    W = np.broadcast_to(W, (*A.shape[:-2], *W.shape[-2:]))
    found = np.zeros((*A.shape[:-1], W.shape[-1]))
    for *lead, k, r in np.ndindex(found.shape):
        row, column = A[(*lead, k)], W[(*lead, slice(None), r)]
        found[(*lead, k, r)] = sum(a * w for a, w in zip(row, column, strict=True))
    return found
