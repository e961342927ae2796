"""Multi-head attention, and its known bugs, some of them those of attention."""

import math

import numpy as np

from .attention import attention, attention_backward
from .bug import entry, matrices, planted


def multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask=None):
    q, k, v, mask, scale = _parts(x, W_q, W_k, W_v, heads, mask)
    out, _ = attention(q, k, v, mask, scale=scale)
    joined = _merge(out)
    y = joined @ W_o
    return y


def multi_head_attention_backward(dy, x, W_q, W_k, W_v, W_o, heads, mask=None):
    q, k, v, mask, scale = _parts(x, W_q, W_k, W_v, heads, mask)
    out, weights = attention(q, k, v, mask, scale=scale)
    dout = _unmerge(dy @ W_o.T, out.shape[-3])
    dq, dk, dv = (_unsplit(g) for g in attention_backward(dout, q, k, v, weights, scale=scale)[:3])
    dx = dq @ W_q.T + dk @ W_k.T + dv @ W_v.T
    dW_q, dW_k, dW_v, dW_o = _product(x, dq), _product(x, dk), _product(x, dv), _product(_merge(out), dy)
    return dx, dW_q, dW_k, dW_v, dW_o


def _parts(x, W_q, W_k, W_v, heads, mask):
    q, k, v = (_split(x @ W, heads) for W in (W_q, W_k, W_v))
    return q, k, v, mask, None


def _split(x, heads):
    *lead, n, D = x.shape
    return np.swapaxes(x.reshape(*lead, n, heads, D // heads), -2, -3)


def _unsplit(dx):
    """The transpose of `_split`, for its gradient."""
    *lead, heads, n, d = dx.shape
    return np.swapaxes(dx, -2, -3).reshape(*lead, n, heads * d)


def _merge(out):
    *lead, heads, n, d = out.shape
    return np.swapaxes(out, -2, -3).reshape(*lead, n, heads * d)


def _unmerge(dout, heads):
    *lead, n, D = dout.shape
    return np.swapaxes(dout.reshape(*lead, n, heads, D // heads), -2, -3)


def _product(left, right):
    each = np.swapaxes(left, -1, -2) @ right
    total = np.sum(matrices(each), axis=0)
    return total


BUGS, make = planted(__name__)
