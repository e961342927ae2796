"""Dropout as layers use it: the mask is drawn here and kept in the cache."""

from typing import Any

from ..backend import Array
from ..forms import replaceable
from ..ops import keep_mask


@replaceable
def dropout_mask(x: Array, shape: tuple[int, ...], rate: float, rng: Any) -> Array | None:
    """A dropout mask of `shape`, True = kept, in x's module; None in evaluation (`rng` None) and at rate 0."""
    if rng is None or rate == 0:
        return None
    return keep_mask(rng, shape, rate, like=x)
