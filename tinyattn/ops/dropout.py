"""Dropout: silence a random part in training, scale up the rest so that the mean stays (Srivastava et al. 2014)."""

from ..backend import Array
from .shapes import expect, expect_onto


def dropout(x: Array, keep: Array | None, rate: float) -> Array:
    """y = x ⊙ keep / (1 - rate); with keep None (evaluation) y is x itself, so do not write into it.

    Shapes: x (...), keep boolean and broadcasting to x (see `keep_mask`) -> y (...).
    Raises ValueError for a rate outside [0, 1) or a keep that does not broadcast, TypeError for dtypes.
    """
    expect("...", x=x)
    if not 0 <= rate < 1:
        raise ValueError(f"dropout: rate is {rate}, expected 0 <= rate < 1")
    if keep is None:
        return x
    expect_onto(x.shape, bool, like=x, keep=keep)
    y = keep.astype(x.dtype)                            # one cast, and the product runs at full speed
    y *= 1 / (1 - float(rate))
    if y.shape != x.shape:
        return x * y
    y *= x                                              # in place: y was made above
    return y


def dropout_backward(dy: Array, keep: Array | None, rate: float) -> Array:
    """dx = dy ⊙ keep / (1 - rate): what was silenced receives nothing. The same map, so the same function.

    Shapes: dy (...), keep as in the forward -> dx (...).
    """
    return dropout(dy, keep, rate)
