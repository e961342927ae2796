"""Properties of the linear map."""

from __future__ import annotations

from typing import Any

import numpy as np

from .property import close, rounding, states


@states("linear", "rounding", "it is linear: the map of a sum, less the bias, is the sum of the maps")
def additive(ops: Any, x: np.ndarray, W: np.ndarray, b: np.ndarray | None) -> None:
    other = np.cos(x)
    both = ops.linear(x + other, W)
    close(both, ops.linear(x, W) + ops.linear(other, W), rounding(x.dtype, x.shape[-1], 20.0), "output")


@states("linear", "rounding", "every token is mapped alike, whatever stands beside it")
def tokens_apart(ops: Any, x: np.ndarray, W: np.ndarray, b: np.ndarray | None) -> None:
    y = ops.linear(x, W, b).reshape(-1, W.shape[1])
    alone = ops.linear(x.reshape(-1, x.shape[-1])[:1], W, b)
    close(y[:1], alone, rounding(x.dtype, x.shape[-1], 20.0), "the first token")


@states("linear", "rounding", "the gradient of b is the sum of dy over all tokens")
def bias_gradient(ops: Any, x: np.ndarray, W: np.ndarray, b: np.ndarray | None) -> None:
    dy = np.cos(np.arange(x.size // x.shape[-1] * W.shape[1])).reshape(*x.shape[:-1], W.shape[1]).astype(x.dtype)
    _, _, db = ops.linear_backward(dy, x, W)
    close(db, np.sum(dy.reshape(-1, W.shape[1]), axis=0), rounding(x.dtype, x.size, 1.0), "db")
