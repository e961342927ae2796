"""Softmax, and its known bugs."""

import numpy as np

from .bug import in_place, planted


def softmax(s, mask=None):
    axis = -1
    allowed = np.broadcast_to(True if mask is None else mask, s.shape)
    logits = np.where(allowed, s, -np.inf)
    top = np.max(logits, axis=axis, keepdims=True, initial=-np.inf)
    top = np.where(top == -np.inf, 0, top)
    p = np.exp(logits - top)
    total = np.sum(p, axis=axis, keepdims=True)
    p = p / np.where(total == 0, 1, total)
    return p.astype(s.dtype)


def softmax_backward(dp, p):
    inner = dp * p
    row = np.sum(inner, axis=-1, keepdims=True)
    return p * (dp - row)


BUGS, make = planted(__name__)
