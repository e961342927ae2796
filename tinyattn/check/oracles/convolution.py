"""Convolutions, pooling and patches, number by number."""

from typing import Any

import numpy as np

from ...backend import Array


def conv1d(x: Array, W: Array, dilation: int = 1, padding: str = "same") -> Any:
    """`conv2d` of a grid of one row."""
    return conv2d(x[..., None, :, :], W[None], dilation, padding)[..., 0, :, :]


def conv2d(x: Array, W: Array, dilation: int = 1, padding: str = "same") -> Any:
    reach = [(K - 1) * dilation for K in W.shape[:2]]
    before = [{"valid": 0, "same": r // 2, "causal": r}[padding] for r in reach]
    sizes = [n - (r if padding == "valid" else 0) for n, r in zip(x.shape[-3:-1], reach, strict=True)]
    y = np.zeros((*x.shape[:-3], *sizes, W.shape[-1]))
    for *lead, s, t, o in np.ndindex(y.shape):
        for j, l, i in np.ndindex(W.shape[:3]):
            row, column = s + j * dilation - before[0], t + l * dilation - before[1]
            if 0 <= row < x.shape[-3] and 0 <= column < x.shape[-2]:
                y[(*lead, s, t, o)] += x[(*lead, row, column, i)] * W[j, l, i, o]
    return y


def depthwise_conv1d(x: Array, W: Array) -> Any:
    y = np.zeros((*x.shape[:-2], x.shape[-2] - len(W) + 1, x.shape[-1]))
    for *lead, t, c in np.ndindex(y.shape):
        y[(*lead, t, c)] = sum(x[(*lead, t + j, c)] * W[j, c] for j in range(len(W)))
    return y


def patchify(x: Array, patch: int) -> Any:
    *lead, h, w, C = x.shape
    y = np.zeros((*lead, h // patch * (w // patch), patch * patch * C))
    for *batch, row, column, c in np.ndindex(x.shape):
        token = row // patch * (w // patch) + column // patch
        y[(*batch, token, (row % patch * patch + column % patch) * C + c)] = x[(*batch, row, column, c)]
    return y


def max_pool1d(x: Array, width: int) -> Any:
    y = np.zeros((*x.shape[:-2], x.shape[-2] - width + 1, x.shape[-1]))
    for *lead, t, c in np.ndindex(y.shape):
        y[(*lead, t, c)] = max(x[(*lead, t + j, c)] for j in range(width))
    return y
