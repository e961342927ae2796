"""Binary cross-entropy, and its known bugs."""

import numpy as np

from .bug import in_place, planted


def bce_with_logits(z, targets, weights=None):
    dtype, t = z.dtype, targets
    w = np.ones(z.shape, dtype) if weights is None else weights
    yes, no = _minus_logs(z)
    each = t * yes + (1 - t) * no
    total = np.sum(w)
    loss = np.sum(w * each) / np.where(total == 0, dtype.type(1), total)
    return loss.astype(dtype)


def _minus_logs(z):
    """-log σ(z) and -log(1 - σ(z))."""
    small = np.log1p(np.exp(-np.abs(z)))
    return np.maximum(-z, 0) + small, np.maximum(z, 0) + small


def _of_probability(p, eps=0.0):
    return -np.log(p + p.dtype.type(eps)), -np.log(1 - p + p.dtype.type(eps))


def bce_with_logits_backward(dloss, z, targets, weights=None):
    labels = targets
    v = np.ones_like(z) if weights is None else weights
    small = np.exp(-np.abs(z))
    s = np.where(z >= 0, 1, small) / (1 + small)
    d = s - labels
    size = np.sum(v)
    share = v / np.where(size == 0, z.dtype.type(1), size) * z.dtype.type(dloss)
    return (d * share).astype(z.dtype)


BUGS, make = planted(__name__)
