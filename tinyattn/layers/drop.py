"""Dropout as layers use it: the mask is drawn here and travels in the cache."""

from ..ops import keep_mask


def draw_keep(x, shape, rate, rng):
    """A keep mask of `shape` in x's module, or None in evaluation (`rng` None) and at rate 0."""
    if rng is None or rate == 0:
        return None
    return keep_mask(rng, shape, rate, like=x)
