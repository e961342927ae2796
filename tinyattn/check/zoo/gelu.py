"""The GELU, and its known bugs."""

import math

import numpy as np

from ...ops import gelu as right
from ...ops import gelu_backward as right_backward
from .bug import in_place, planted


def gelu(x, approximate=False):
    wide, form = x.astype(np.float64), approximate
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)
    y = 0.5 * wide * (1 + np.tanh(inner)) if form else right(wide)
    return y.astype(x.dtype)


def gelu_backward(dy, x, approximate=False):
    v = x.astype(np.float64)
    slope = right_backward(np.ones_like(v), v, approximate)
    phi = np.where(v == 0, 0.5, right(v, approximate) / np.where(v == 0, 1, v))
    dx = dy * slope
    return dx.astype(dy.dtype)


def _seven_digits(x):
    """Abramowitz & Stegun 7.1.26."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1 - series * np.exp(-x * x))


BUGS, make = planted(__name__)
