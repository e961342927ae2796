"""The ReLU, and its known bugs."""

import numpy as np

from .bug import in_place, planted


def relu(x):
    y = np.maximum(x, 0)
    return y


def relu_backward(dy, x):
    gate = x > 0
    dx = dy * gate
    return dx


BUGS, make = planted(__name__)
