"""Dropout as layers use it: the mask is drawn here and kept in the cache."""

from typing import Any

from ..backend import Array
from ..forms import replaceable
from ..ops import dropout, dropout_backward, keep_mask


@replaceable
def dropout_mask(x: Array, shape: tuple[int, ...], rate: float, rng: Any) -> Array | None:
    """A dropout mask of `shape`, True = kept, in x's module; None in evaluation (`rng` None) and at rate 0."""
    if rng is None or rate == 0:
        return None
    return keep_mask(rng, shape, rate, like=x)


def dropped(x: Array, rate: float, rng: Any) -> tuple[Array, Array | None]:
    """y = dropout(x), and the mask that its backward takes. Shapes: x (...) -> y (...)."""
    keep = dropout_mask(x, x.shape, rate, rng)
    return dropout(x, keep, rate), keep


@replaceable
def add_dropped(x: Array | None, branch: Array, rate: float, rng: Any) -> tuple[Array, Any]:
    """y = x + dropout(branch), or dropout(branch) where x is None; and what `dropped_backward` needs, as a mask.

    Shapes: x and branch (...) -> y (...).
    """
    y, keep = dropped(branch, rate, rng)
    if x is None:
        return y, keep
    if keep is None:
        return x + y, keep
    y += x                                              # in place: y was made above
    return y, keep


def dropped_backward(dy: Array, keep: Any, rate: float) -> Array:
    """The gradient of `branch`; that of x is dy. Shapes: dy (...) -> dbranch (...)."""
    if hasattr(keep, "drop"):                           # of the faster form
        return keep.drop(dy)
    return dropout_backward(dy, keep, rate)
