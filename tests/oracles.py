"""The ops once more, as plain loops over numbers: slow, and simple enough to be believed."""

import math

import numpy as np


def linear(x, W, b=None):
    y = np.zeros((*x.shape[:-1], W.shape[1]))
    for token in np.ndindex(x.shape[:-1]):
        for o in range(W.shape[1]):
            y[token][o] = sum(x[token][i] * W[i, o] for i in range(W.shape[0])) + (0 if b is None else b[o])
    return y


def softmax(s, mask=None):
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


def attention(q, k, v, mask=None, bias=None, keep=None, rate=0.0, scale=None):
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


def layer_norm(x, gamma, beta, eps=1e-5):
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


def gelu(x, approximate=False):
    y = np.zeros(x.shape)
    for i in np.ndindex(x.shape):
        if approximate:
            y[i] = 0.5 * x[i] * (1 + math.tanh(math.sqrt(2 / math.pi) * (x[i] + 0.044715 * x[i] ** 3)))
        else:
            y[i] = 0.5 * x[i] * (1 + math.erf(x[i] / math.sqrt(2)))
    return y


def relu(x):
    return np.array([max(value, 0.0) for value in x.reshape(-1)]).reshape(x.shape)


def dropout(x, keep, rate):
    flat = zip(x.reshape(-1), np.broadcast_to(keep, x.shape).reshape(-1), strict=True)
    return np.array([value / (1 - rate) if kept else 0.0 for value, kept in flat]).reshape(x.shape)


def embedding(ids, E):
    return np.array([[E[i, c] for c in range(E.shape[1])] for i in ids.reshape(-1)]).reshape(*ids.shape, E.shape[1])


def embedding_backward(dy, ids, E):
    dE = np.zeros(E.shape)
    for place in np.ndindex(ids.shape):
        for c in range(E.shape[1]):
            dE[ids[place], c] += dy[place][c]
    return dE


def cross_entropy(logits, targets, weights=None):
    total = loss = 0.0
    for place in np.ndindex(targets.shape):
        w = 1.0 if weights is None else weights[place]
        top = max(logits[place])
        log_sum = top + math.log(sum(math.exp(z - top) for z in logits[place]))
        loss += w * (log_sum - logits[place][targets[place]])
        total += w
    return loss / total if total else 0.0


def bce_with_logits(z, targets, weights=None):
    total = loss = 0.0
    for place in np.ndindex(z.shape):
        w, t = (1.0 if weights is None else weights[place]), targets[place]
        p = 1 / (1 + math.exp(-z[place]))
        loss -= w * (t * math.log(p) + (1 - t) * math.log(1 - p))
        total += w
    return loss / total if total else 0.0


def multi_head_attention(p, x, memory, heads, mask=None):
    """One (n, D) sequence, head by head, columns picked by hand."""
    q, k, v = (
        linear(s, p[name]["W"], p[name].get("b")) for name, s in (("query", x), ("key", memory), ("value", memory))
    )
    d = x.shape[-1] // heads
    columns = [slice(h * d, (h + 1) * d) for h in range(heads)]
    joined = np.concatenate([attention(q[:, c], k[:, c], v[:, c], mask)[0] for c in columns], axis=-1)
    return linear(joined, p["output"]["W"], p["output"].get("b")) if "output" in p else joined
