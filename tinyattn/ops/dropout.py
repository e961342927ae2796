"""Dropout: in training a random part is set to 0, and the rest scaled up to keep the mean (Srivastava et al. 2014)."""

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
    y = keep.astype(x.dtype)                            # a product of floats is faster than of boolean and float
    y *= 1 / (1 - float(rate))
    if y.shape != x.shape:
        return x * y
    y *= x                                              # in place: y was made above
    return y


def dropout_backward(dy: Array, keep: Array | None, rate: float) -> Array:
    """dx = dy ⊙ keep / (1 - rate): dropped entries receive nothing. The forward multiplies, and so does the backward.

    Shapes: dy (...), keep as in the forward -> dx (...).
    """
    return dropout(dy, keep, rate)
