"""The root of ELU + 1: a standard deviation of any number (Fan et al. 2022, STOSA)."""

import math

from ..backend import Array, get_xp
from .shapes import expect


def root_elu(x: Array) -> Array:
    """y = √(ELU(x) + 1).

    That is exp(x / 2) left of 0 and √(1 + x) right of it. STOSA's covariances are ELU(x) + 1, which is positive; the
    distance between two distributions needs their roots. If ELU(x) + 1 is computed first, it is 0 in float32 from
    x = -17.4 down, where the root has no gradient, or an infinite one; exp(x / 2) keeps value and gradient.
    Shapes: x (...) -> y (...). Raises TypeError for dtypes other than float32 / float64.
    """
    expect("...", x=x)
    xp = get_xp(x)
    y = xp.exp(0.5 * xp.clip(x, -math.inf, 0))          # 1 on the right; `clip` is faster than `minimum`
    y *= xp.sqrt(1 + xp.clip(x, 0, math.inf))           # and the root is 1 on the left
    return y


def root_elu_backward(dy: Array, y: Array) -> Array:
    """dx = dy ⊙ min(y, 1 / y) / 2.

    Left of 0 the derivative of exp(x / 2) is y / 2, with y below 1; right of it that of √(1 + x) is 1 / (2 y), with y
    above 1. It is at most a half, at 0 from both sides: the function has no kink.
    Shapes: dy, y (...) -> dx (...).
    """
    expect("... ...", dy=dy, y=y)
    xp = get_xp(dy, y)
    dx = xp.minimum(y, 1 / xp.clip(y, 1, math.inf))
    dx *= 0.5
    dx *= dy
    return dx
