"""Properties of the losses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .property import close, rounding, states


def _none_left(weights: np.ndarray | None) -> bool:
    return weights is not None and not np.any(weights)


@states("cross_entropy", "rounding", "with all logits equal the loss is ln V")
def uniform(ops: Any, logits: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    loss = ops.cross_entropy(np.full_like(logits, 3.0), targets, weights)
    expected = 0.0 if _none_left(weights) else math.log(logits.shape[-1])
    close(loss, expected, rounding(logits.dtype, logits.size, 10.0), "loss")


@states("cross_entropy", "rounding", "adding one number to a whole row of logits changes nothing")
def shift(ops: Any, logits: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    moved = logits + logits.dtype.type(4)
    loss = ops.cross_entropy(logits, targets, weights)
    close(ops.cross_entropy(moved, targets, weights), loss, rounding(logits.dtype, logits.size, 40.0), "loss")


@states("cross_entropy", "rounding", "each row of the gradient sums to 0, and positions of weight 0 have none")
def gradient_rows(ops: Any, logits: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    d = ops.cross_entropy_backward(1.0, logits, targets, weights)
    close(np.sum(d, axis=-1), np.zeros(targets.shape), rounding(logits.dtype, logits.shape[-1], 1.0), "row sum")
    if weights is not None:
        assert np.all(d[weights == 0] == 0), "a position of weight 0 has a gradient"


@states("cross_entropy", "exact", "what stands at a position of weight 0 does not matter")
def weight_zero(ops: Any, logits: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    weights = np.ones(targets.shape, logits.dtype) if weights is None else weights.copy()
    weights.reshape(-1)[0] = 0
    other, elsewhere = logits.copy(), targets.copy()
    other.reshape(-1, logits.shape[-1])[0] = 7
    elsewhere.reshape(-1)[0] = logits.shape[-1] - 1
    first, second = ops.cross_entropy(logits, targets, weights), ops.cross_entropy(other, elsewhere, weights)
    assert first == second, f"the loss moved from {first} to {second}"


@states(
    "cross_entropy", "rounding", "logits of ±2,000 give the exact loss: 0 where the target leads, 4,000 where it trails"
)
def large_logits(ops: Any, logits: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    if logits.shape[-1] == 1:
        return
    one_hot = np.arange(logits.shape[-1]) == targets[..., None]
    leads, trails = (np.where(one_hot, sign * 2000.0, -sign * 2000.0).astype(logits.dtype) for sign in (1, -1))
    others = math.log(logits.shape[-1] - 1)
    close(ops.cross_entropy(leads, targets), 0.0, 1e-12, "loss")
    close(ops.cross_entropy(trails, targets), 4000.0 + others, rounding(logits.dtype, logits.size, 4000.0), "loss")


@states(
    "cross_entropy", "rounding", "a batch is the mean of its halves, each by its share of the weight; gradients too"
)
def shares(ops: Any, logits: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    z, t = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    w = np.linspace(0.5, 2, len(t)).astype(logits.dtype)
    half = len(t) // 2
    loss, gradient = 0.0, []
    for part in (slice(None, half), slice(half, None)):
        share = float(np.sum(w[part]) / np.sum(w))
        loss += share * float(ops.cross_entropy(z[part], t[part], w[part]))
        gradient.append(ops.cross_entropy_backward(share, z[part], t[part], w[part]))
    atol = rounding(logits.dtype, logits.size, 20.0)
    close(loss, ops.cross_entropy(z, t, w), atol, "loss")
    close(np.concatenate(gradient), ops.cross_entropy_backward(1.0, z, t, w), atol, "gradient")


@states("bce_with_logits", "rounding", "swapping the labels is turning the logit's sign")
def symmetry(ops: Any, z: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    loss = ops.bce_with_logits(z, targets, weights)
    close(ops.bce_with_logits(-z, 1 - targets, weights), loss, rounding(z.dtype, z.size, 20.0), "loss")


@states("bce_with_logits", "rounding", "label 1 instead of 0 lowers the loss by the mean logit")
def difference(ops: Any, z: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    ones, zeros = np.ones_like(z), np.zeros_like(z)
    got = ops.bce_with_logits(z, ones, weights) - ops.bce_with_logits(z, zeros, weights)
    w = np.ones_like(z) if weights is None else weights
    mean = 0.0 if not np.any(w) else np.sum(w * z) / np.sum(w)
    close(got, -mean, rounding(z.dtype, z.size, 30.0), "difference")


@states("bce_with_logits", "rounding", "logits of ±10,000 are finite: 0 on the right side, 10,000 on the wrong one")
def large_logits_bce(ops: Any, z: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    far = np.array([1e4, -1e4, 1e4, -1e4], dtype=z.dtype)
    labels = np.array([1, 0, 0, 1], dtype=z.dtype)
    close(ops.bce_with_logits(far, labels), 5000.0, rounding(z.dtype, 4, 1e4), "loss")
    expected = np.array([0, 0, 1, -1]) / 4
    close(ops.bce_with_logits_backward(1.0, far, labels), expected, rounding(z.dtype, 4, 1.0), "gradient")
