"""The root of ELU + 1: it makes a standard deviation from any number (Fan et al. 2022, STOSA)."""

import math

from ..backend import Array, get_xp
from .shapes import expect


def root_elu(x: Array) -> Array:
    """y = √(ELU(x) + 1).

    That is exp(x / 2) left of 0 and √(1 + x) right of it. STOSA's variances are ELU(x) + 1, which is positive; the
    distance between two distributions needs their roots. In float32 ELU(x) + 1 is 0 for x < -17.4, where its root
    would have no finite gradient; exp(x / 2) keeps value and gradient.
    Shapes: x (...) -> y (...). Raises TypeError for dtypes other than float32 / float64.
    """
    expect("...", x=x)
    xp = get_xp(x)
    y = xp.exp(0.5 * xp.clip(x, -math.inf, 0))          # 1 right of 0; `clip` is faster than `minimum`
    y *= xp.sqrt(1 + xp.clip(x, 0, math.inf))           # 1 left of 0
    return y


def root_elu_backward(dy: Array, y: Array) -> Array:
    """dx = dy ⊙ min(y, 1 / y) / 2.

    Left of 0, y = exp(x / 2) is below 1 and has the derivative y / 2. Right of 0, y = √(1 + x) is above 1 and has the
    derivative 1 / (2 y). Both are 1/2 at 0: the function has no kink.
    Shapes: dy, y (...) -> dx (...).
    """
    expect("... ...", dy=dy, y=y)
    xp = get_xp(dy, y)
    dx = xp.minimum(y, 1 / xp.clip(y, 1, math.inf))
    dx *= 0.5
    dx *= dy
    return dx
