"""Cross-entropy, and its known bugs."""

import numpy as np

from .bug import in_place, planted


def cross_entropy(logits, targets, weights=None):
    z, dtype = logits, logits.dtype
    w = np.ones(targets.shape, dtype) if weights is None else weights
    log_p = _log_softmax(z)
    at = targets
    nll = -_at(log_p, at)[..., 0]
    total = np.sum(w)
    loss = np.sum(nll * w) / np.where(total == 0, dtype.type(1), total)
    return loss.astype(dtype)


def _top(z, axis=-1):
    return np.max(z, axis=axis, keepdims=True, initial=-np.inf)


def _softmax(z, top):
    e = np.exp(z - top)
    return e / np.sum(e, axis=-1, keepdims=True)


def _log_softmax(z, axis=-1):
    top = _top(z, axis)
    return z - top - np.log(np.sum(np.exp(z - top), axis=axis, keepdims=True))


def _log_of_p(z, eps=0.0, least=0.0):
    return np.log(np.clip(_softmax(z, _top(z)), least, 1) + z.dtype.type(eps))


def _at(values, targets):
    return np.take_along_axis(values, targets[..., None].astype(np.int64), axis=-1)


def _by_value(p, same):
    return p * np.sum(same, axis=-1, keepdims=True, dtype=p.dtype) - same


def cross_entropy_backward(dloss, logits, targets, weights=None):
    dtype = logits.dtype
    v = np.ones(targets.shape, logits.dtype) if weights is None else weights
    p = _softmax(logits, _top(logits))
    one_hot = (np.arange(logits.shape[-1]) == targets[..., None]).astype(dtype)
    d = p - one_hot
    size = np.sum(v)
    share = v / np.where(size == 0, dtype.type(1), size)
    return d * share[..., None] * dtype.type(dloss)


BUGS, make = planted(__name__)
