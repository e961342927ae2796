"""Properties of softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from .property import close, rounding, same_bits, states


def _allowed(s: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    return np.broadcast_to(True if mask is None else mask, s.shape)


@states("softmax", "rounding", "the weights of a row that may look at something sum to 1")
def rows_sum_to_one(ops: Any, s: np.ndarray, mask: np.ndarray | None) -> None:
    p = ops.softmax(s, mask)
    expected = np.any(_allowed(s, mask), axis=-1).astype(s.dtype)
    close(np.sum(p, axis=-1), expected, rounding(s.dtype, s.shape[-1], 1.0), "row sum")


@states("softmax", "exact", "weights are never negative, and exactly 0 where the mask forbids")
def zero_where_masked(ops: Any, s: np.ndarray, mask: np.ndarray | None) -> None:
    p = ops.softmax(s, mask)
    assert np.all(p >= 0), "a weight is negative or NaN"
    assert np.all(p[~_allowed(s, mask)] == 0), "a masked entry has weight"


@states("softmax", "exact", "a row with nothing allowed is all zeros, and so is its gradient")
def empty_row(ops: Any, s: np.ndarray, mask: np.ndarray | None) -> None:
    nothing = np.zeros((1, s.shape[-1]), dtype=bool)
    p = ops.softmax(s, nothing)
    same_bits(p, np.zeros_like(s), "weights")
    ds = ops.softmax_backward(np.ones_like(s), p)
    assert np.all(ds == 0), "a row with nothing allowed has a gradient"


@states("softmax", "rounding", "adding one number to a whole row of logits changes nothing")
def shift(ops: Any, s: np.ndarray, mask: np.ndarray | None) -> None:
    close(ops.softmax(s + s.dtype.type(3), mask), ops.softmax(s, mask), rounding(s.dtype, s.shape[-1], 20.0), "weight")


@states("softmax", "rounding", "each row of the gradient sums to 0, and is exactly 0 where the mask forbids")
def gradient_rows_sum_to_zero(ops: Any, s: np.ndarray, mask: np.ndarray | None) -> None:
    p = ops.softmax(s, mask)
    dp = np.cos(np.arange(s.size).reshape(s.shape)).astype(s.dtype)
    ds = ops.softmax_backward(dp, p)
    close(np.sum(ds, axis=-1), np.zeros(s.shape[:-1]), rounding(s.dtype, s.shape[-1], 2.0), "row sum of ds")
    assert np.all(ds[~_allowed(s, mask)] == 0), "a masked logit has a gradient"


@states("softmax", "exact", "logits of ±10,000 are safe, and a lead that large takes all the weight")
def large_logits(ops: Any, s: np.ndarray, mask: np.ndarray | None) -> None:
    large = np.where(s == np.max(s, axis=-1, keepdims=True), 1e4, -1e4).astype(s.dtype)
    p = ops.softmax(large)
    assert np.all(np.isfinite(p)), "a weight is not finite"
    assert np.all(p[large < 0] == 0), "a logit 20,000 below the largest has weight"


@states("softmax", "exact", "of two allowed logits the larger never has the smaller weight")
def monotone(ops: Any, s: np.ndarray, mask: np.ndarray | None) -> None:
    p = np.where(_allowed(s, mask), ops.softmax(s, mask), -1.0)
    order = np.argsort(np.where(_allowed(s, mask), s, -np.inf), axis=-1, kind="stable")
    assert np.all(np.diff(np.take_along_axis(p, order, axis=-1), axis=-1) >= 0), "a larger logit has less weight"


@states("softmax", "rounding", "its Jacobian diag(p) - p pᵀ is symmetric, so backward and forward derivatives agree")
def symmetric_jacobian(ops: Any, s: np.ndarray, mask: np.ndarray | None) -> None:
    row = s.reshape(-1, s.shape[-1])[:1]
    p = ops.softmax(row)
    m = row.shape[-1]
    jacobian = ops.softmax_backward(np.eye(m, dtype=s.dtype), np.repeat(p, m, axis=0))
    close(jacobian, jacobian.T, rounding(s.dtype, m, 1.0), "Jacobian")
    close(jacobian, np.diag(p[0]) - np.outer(p[0], p[0]), rounding(s.dtype, m, 1.0), "Jacobian")
