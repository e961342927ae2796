"""Attention, and its known bugs, some of them those of softmax."""

import math

import numpy as np

from .bug import in_place, planted
from .softmax import softmax, softmax_backward


def attention(q, k, v, mask=None, bias=None, keep=None, rate=0.0, scale=None):
    c = _scale(q, k, v, scale)
    s = (q @ np.swapaxes(k, -1, -2)) * c
    s = s if bias is None else s + bias
    weights = softmax(s, mask)
    used = _dropped(weights, keep, rate)
    out = used @ v
    return out, weights


def attention_backward(dout, q, k, v, weights, bias=None, keep=None, rate=0.0, scale=None):
    c = _scale(q, k, v, scale)
    kept = _dropped(weights, keep, rate)
    dv = np.swapaxes(kept, -1, -2) @ dout
    dp = dout @ np.swapaxes(v, -1, -2)
    dp = _dropped(dp, keep, rate)
    ds = softmax_backward(dp, weights)
    dbias = None if bias is None else _summed(ds, bias.shape, np.sum)
    dq = ds @ k * c
    dk = np.swapaxes(ds, -1, -2) @ q * c
    return dq, dk, dv, dbias


def _scale(q, k, v, scale):
    d = max(q.shape[-1], 1)
    return 1 / math.sqrt(d) if scale is None else float(scale)


def _dropped(x, keep, rate):
    return x if keep is None else x * keep / (1 - rate)


def _summed(g, shape, add):
    g = add(g, axis=tuple(range(g.ndim - len(shape))))
    axes = tuple(i for i, size in enumerate(shape) if size == 1 and g.shape[i] != 1)
    return add(g, axis=axes, keepdims=True) if axes else g


def _changed(change, mask, s):
    """The mask of all scores, as changed by `change(mask, a column of False)`."""
    if mask is None:
        return None
    mask = np.broadcast_to(mask, (*mask.shape[:-2], *s.shape[-2:]))
    return change(mask, np.zeros((*mask.shape[:-1], 1), bool))


def _of_length_1(x):
    return x / np.maximum(np.sqrt(np.sum(x * x, axis=-1, keepdims=True)), x.dtype.type(1e-12))


def _of_sum_1(x):
    total = np.sum(x, axis=-1, keepdims=True)
    return x / np.where(total == 0, 1, total)


BUGS, make = planted(__name__)
