"""The exponential linear unit: the ReLU with a smooth left side (Clevert, Unterthiner & Hochreiter 2016)."""

import math

from ..backend import Array, get_xp
from .shapes import expect


def elu(x: Array, alpha: float = 1.0) -> Array:
    """y = max(x, 0) + α (exp(min(x, 0)) - 1).

    That is x right of 0 and α (exp(x) - 1) left of it: Clevert, Unterthiner & Hochreiter 2016, equation 15. Its values
    go down to -α, so their mean can be near 0, unlike a ReLU's. Shapes: x (...) -> y (...).
    Raises TypeError for dtypes other than float32 / float64.
    """
    expect("...", x=x)
    xp = get_xp(x)
    y = xp.expm1(xp.clip(x, -math.inf, 0))                   # exp(x) - 1 would lose the digits of a small x
    y *= float(alpha)
    y += xp.clip(x, 0, math.inf)                             # each term is 0 on the other's side
    return y


def elu_backward(dy: Array, x: Array, alpha: float = 1.0) -> Array:
    """dx = dy ([x > 0] + [x <= 0] α exp(x)).

    A bracket is 1 where its condition holds, and 0 elsewhere. With α = 1 both sides have the slope 1 at 0: there is no
    kink. With any other α the gradient at 0 is taken from the left. Shapes: dy, x (...) -> dx (...).
    """
    expect("... ...", dy=dy, x=x)
    xp = get_xp(x)
    dx = xp.exp(xp.clip(x, -math.inf, 0))                    # 1 right of 0
    if alpha != 1:                                           # skipped for 1: `where` takes longer than all else here
        dx = xp.where(x > 0, dx, float(alpha) * dx)
    dx *= dy
    return dx
