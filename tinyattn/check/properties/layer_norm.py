"""Properties of layer normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from .property import close, rounding, same_bits, states


def _plain(ops: Any, x: np.ndarray, eps: float) -> np.ndarray:
    d = x.shape[-1]
    return ops.layer_norm(x, np.ones(d, x.dtype), np.zeros(d, x.dtype), eps)[0]


@states("layer_norm", "rounding", "without gain and shift every token has mean 0")
def mean_zero(ops: Any, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float) -> None:
    y = _plain(ops, x, eps)
    close(np.mean(y, axis=-1), np.zeros(x.shape[:-1]), rounding(x.dtype, x.shape[-1], 30.0), "mean")


@states("layer_norm", "rounding", "the mean square of x_hat is variance / (variance + eps): 1 but for eps")
def variance_one(ops: Any, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float) -> None:
    _, x_hat, _ = ops.layer_norm(x, gamma, beta, eps)
    variance = np.var(x.astype(np.float64), axis=-1)
    close(
        np.mean(x_hat * x_hat, axis=-1), variance / (variance + eps), rounding(x.dtype, x.shape[-1], 30.0), "variance"
    )


@states("layer_norm", "rounding", "adding one number to a token changes nothing, also where the number is large")
def shift(ops: Any, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float) -> None:
    far = 1000.0
    moved = (x + x.dtype.type(far)) - x.dtype.type(far)  # what rounding leaves of x, up there
    y, _, rstd = ops.layer_norm(moved, gamma, beta, eps)
    scale = far * max(np.max(rstd), 1.0) * max(np.max(np.abs(gamma)), 1.0)
    close(
        ops.layer_norm(moved + x.dtype.type(far), gamma, beta, eps)[0],
        y,
        rounding(x.dtype, x.shape[-1], scale),
        "output",
    )


@states("layer_norm", "rounding", "scaling a token by a > 0 and eps by a² changes nothing")
def scaling(ops: Any, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float) -> None:
    y, _, rstd = ops.layer_norm(x, gamma, beta, eps)
    scale = 10 * max(np.max(np.abs(y)), np.max(rstd), 1.0)
    close(ops.layer_norm(4 * x, gamma, beta, 16 * eps)[0], y, rounding(x.dtype, x.shape[-1], scale), "output")


@states("layer_norm", "exact", "a token's result does not depend on any other token")
def tokens_apart(ops: Any, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float) -> None:
    rows = x.reshape(-1, x.shape[-1])
    y, _, _ = ops.layer_norm(rows, gamma, beta, eps)
    other = rows.copy()
    other[1:] = other[1:] * 3 + 1
    same_bits(ops.layer_norm(other, gamma, beta, eps)[0][:1], y[:1], "the first token")


@states("layer_norm", "exact", "a token of equal numbers is finite, and is β")
def constant_token(ops: Any, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float) -> None:
    y, _, _ = ops.layer_norm(np.full_like(x, 2.0), gamma, beta, eps)
    same_bits(y + 0.0, np.broadcast_to(beta, x.shape).copy() + 0.0, "output")


@states("layer_norm", "rounding", "dx sums to 0, and along x_hat it is what eps leaves: rstd³ eps Σ g x_hat")
def gradient_directions(ops: Any, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float) -> None:
    _, x_hat, rstd = ops.layer_norm(x, gamma, beta, eps)
    dy = np.cos(np.arange(x.size).reshape(x.shape)).astype(x.dtype)
    dx, _, _ = ops.layer_norm_backward(dy, x_hat, rstd, gamma)
    size = np.max(rstd) * max(np.max(np.abs(gamma)), 1.0) * max(np.max(np.abs(x_hat)), 1.0) ** 2
    atol = 10 * rounding(x.dtype, x.shape[-1], 10 * size)
    close(np.sum(dx, axis=-1), np.zeros(x.shape[:-1]), atol, "sum of dx")
    along = np.sum(dy * gamma * x_hat, axis=-1) * rstd[..., 0] ** 3 * eps
    close(np.sum(dx * x_hat, axis=-1), along, atol, "dx along x_hat")
