"""The linear map, and its known bugs."""

import numpy as np

from .bug import count, entry, in_place, matrices, planted, rows


def linear(x, W, b=None):
    y = x @ W
    y = y if b is None else y + b
    return y


def linear_backward(dy, x, W):
    dx = dy @ W.T
    dW = rows(x).T @ rows(dy)
    db = np.sum(rows(dy), axis=0)
    return dx, dW, db


def _batch(x):
    return x.dtype.type(max(len(x), 1) if x.ndim > 1 else 1)


def _last_matrix(x):
    return matrices(x)[-1] if x.ndim > 1 and x.size else x


BUGS, make = planted(__name__)
