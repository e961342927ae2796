"""Dropout, and its known bugs."""

import numpy as np

from .bug import in_place, planted


def dropout(x, keep, rate):
    if keep is None:
        return x.copy()
    factor = x.dtype.type(1 / (1 - rate))
    y = x * keep * factor
    return y


def dropout_backward(dy, keep, rate):
    if keep is None:
        return dy.copy()
    scale = dy.dtype.type(1 / (1 - rate))
    dx = dy * keep * scale
    return dx


def keep_mask(rng, shape, rate):
    kept = rng.random(shape) >= rate
    return kept


BUGS, make = planted(__name__)
