"""Ops of the default model as in a textbook: an example of a reader's file for `--ops`."""

import numpy as np


def softmax(s, mask=None):
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    top = np.max(s, axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def softmax_backward(dp, p):
    return p * (dp - np.sum(dp * p, axis=-1, keepdims=True))


def linear(x, W, b=None):
    y = x @ W
    return y if b is None else y + b


def linear_backward(dy, x, W):
    rows, drows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    return dy @ W.T, rows.T @ drows, drows.sum(0)


def layer_norm(x, gamma, beta, eps=1e-5):
    centred = x - x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + x.dtype.type(eps))
    return centred * rstd * gamma + beta, centred * rstd, rstd


def layer_norm_backward(dy, x_hat, rstd, gamma):
    g = dy * gamma
    dx = rstd * (g - g.mean(-1, keepdims=True) - x_hat * np.mean(g * x_hat, axis=-1, keepdims=True))
    axes = tuple(range(dy.ndim - 1))
    return dx, np.sum(dy * x_hat, axis=axes), np.sum(dy, axis=axes)


def attention(queries, keys, values, mask=None):
    weights = softmax(queries @ keys.swapaxes(-1, -2) / np.sqrt(queries.dtype.type(queries.shape[-1])), mask)
    return weights @ values, weights


def attention_backward(dout, queries, keys, values, weights):
    ds = softmax_backward(dout @ values.swapaxes(-1, -2), weights) / np.sqrt(queries.dtype.type(queries.shape[-1]))
    return ds @ keys, ds.swapaxes(-1, -2) @ queries, weights.swapaxes(-1, -2) @ dout


def dropout(x, keep, rate):
    return x if keep is None else x * keep / x.dtype.type(1 - rate)


def dropout_backward(dy, keep, rate):
    return dropout(dy, keep, rate)


def relu(x):
    return np.where(x > 0, x, x.dtype.type(0))


def relu_backward(dy, x):
    return dy * (x > 0)


def embedding(ids, E):
    return E[ids]


def embedding_backward(dy, ids, E):
    dE = np.zeros_like(E)
    np.add.at(dE, ids, dy)
    return dE


def bce_with_logits(z, targets, weights=None):
    losses = np.maximum(z, 0) - z * targets + np.log1p(np.exp(-np.abs(z)))
    weights = np.ones_like(z) if weights is None else weights
    total = weights.sum()
    return np.sum(losses * weights) / total if total > 0 else 0 * total


def bce_with_logits_backward(dloss, z, targets, weights=None):
    weights = np.ones_like(z) if weights is None else weights
    total = weights.sum()
    p = np.exp(np.minimum(z, 0)) / (1 + np.exp(-np.abs(z)))
    return z.dtype.type(dloss) * (p - targets) * (weights / total if total > 0 else weights)
