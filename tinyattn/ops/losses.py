"""Losses: weighted means over positions, Σ wᵢ lossᵢ / Σ wᵢ.

A slice of a batch passes its share of the batch's weight as `dloss`, so that the slices' gradients add up to
the batch's. Weight 0 takes a position out; if all are 0, loss and gradient are 0.
"""

from ..backend import get_xp
from .shapes import expect, rows
from .softmax import softmax


def cross_entropy(logits, targets, weights=None):
    """The weighted mean of -log softmax(logits)[target], a scalar in nats. With all logits equal it is ln V.

    Shapes: logits (..., V), targets (...) integers in 0..V-1, weights (...) or None for all 1.
    Logits of ±1e4 are exact: log Σ exp is taken around the row's largest logit.
    Raises ValueError for shapes that do not fit, TypeError for dtypes.
    """
    expect("...v #... ...", logits=logits, targets=targets, weights=weights)
    xp = get_xp(logits, targets, weights)
    top = xp.max(logits, axis=-1, keepdims=True)
    log_sum = xp.log(xp.sum(xp.exp(logits - top), axis=-1)) + top[..., 0]
    chosen = xp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return _weighted_mean(xp, log_sum - chosen, weights)


def cross_entropy_backward(dloss, logits, targets, weights=None):
    """dlogits = dloss · w / Σw · (softmax(logits) - onehot(target)): predicted minus true probability.

    log Σ exp has the gradient softmax(logits); -logits[target] has -1 at the target.
    Shapes: dloss a number, the rest as in the forward -> dlogits (..., V).
    """
    expect("...v #... ...", logits=logits, targets=targets, weights=weights)
    xp = get_xp(logits, targets, weights)
    dlogits = softmax(rows(logits))                     # (N, V)
    dlogits[xp.arange(len(dlogits)), targets.reshape(-1)] -= 1
    dlogits *= _shares(dloss, targets, logits, weights).reshape(-1, 1)
    return dlogits.reshape(logits.shape)


def bce_with_logits(z, targets, weights=None):
    """The weighted mean of -t log σ(z) - (1 - t) log(1 - σ(z)), a scalar in nats.

    As max(z, 0) - z t + log(1 + exp(-|z|)), which neither overflows nor takes the log of 0.
    Shapes: z (...), targets (...) in 0..1 of z's dtype, weights (...) or None for all 1.
    Raises ValueError for shapes that do not fit, TypeError for dtypes.
    """
    expect("... ... ...", z=z, targets=targets, weights=weights)
    xp = get_xp(z, targets, weights)
    each = xp.maximum(z, 0) - z * targets + xp.log1p(xp.exp(-xp.abs(z)))
    return _weighted_mean(xp, each, weights)


def bce_with_logits_backward(dloss, z, targets, weights=None):
    """dz = dloss · w / Σw · (σ(z) - t): predicted minus true probability, as in cross-entropy.

    Shapes: dloss a number, the rest as in the forward -> dz (...).
    """
    expect("... ... ...", z=z, targets=targets, weights=weights)
    get_xp(z, targets, weights)
    return (sigmoid(z) - targets) * _shares(dloss, targets, z, weights)


def sigmoid(z):
    """1 / (1 + exp(-z)), elementwise, without overflow at either end. Shapes: z (...) -> (...)."""
    xp = get_xp(z)
    small = xp.exp(-xp.abs(z))                          # in 0..1
    return xp.where(z >= 0, 1.0, small) / (1 + small)


def _weighted_mean(xp, each, weights):
    if weights is None:
        return xp.sum(each) / max(each.size, 1)
    return xp.sum(each * weights) / _total(weights)


def _shares(dloss, targets, like, weights):
    """dloss times the part of the mean that each position is, w / Σw, in the dtype of `like`."""
    if weights is None:
        shares = get_xp(like).full(targets.shape, 1 / max(targets.size, 1), dtype=like.dtype)
    else:
        shares = weights / _total(weights)
    shares *= float(dloss)                              # a NumPy scalar would widen float32
    return shares


def _total(weights):
    xp = get_xp(weights)
    total = xp.sum(weights)
    return xp.where(total == 0, 1.0, total)             # all weights 0: the mean of nothing is 0
