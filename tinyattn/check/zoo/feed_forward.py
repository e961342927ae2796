"""The feed-forward network, and its known bugs."""

import numpy as np

from ...ops import gelu as gelu  # for changes below
from .bug import count, entry, in_place, planted, rows


def feed_forward(x, W_1, b_1, W_2, b_2):
    u = x @ W_1 + b_1
    h = np.maximum(u, 0)
    y = h @ W_2 + b_2
    return y


def feed_forward_backward(dy, x, W_1, b_1, W_2, b_2):
    hidden = x @ W_1 + b_1
    on = np.maximum(hidden, 0)
    dh = dy @ W_2.T
    du = dh * (hidden > 0)
    dx = du @ W_1.T
    dW_1, dW_2 = rows(x).T @ rows(du), rows(on).T @ rows(dy)
    db_1, db_2 = np.sum(rows(du), axis=0), np.sum(rows(dy), axis=0)
    return dx, dW_1, db_1, dW_2, db_2


BUGS, make = planted(__name__)
