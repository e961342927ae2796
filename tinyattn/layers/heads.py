"""Tokens split into heads, and heads merged into tokens; heads of keys and values that several heads share."""

from ..backend import Array, get_xp


def split(x: Array, heads: int) -> Array:
    """(..., n, D) -> (..., heads, n, D / heads). Head i owns columns i D/h to (i + 1) D/h: reshape, then swap."""
    *lead, n, dim = x.shape
    if heads < 1 or dim % heads:
        raise ValueError(f"dim {dim} is not divisible by heads {heads}")
    return x.reshape(*lead, n, heads, dim // heads).swapaxes(-2, -3)


def merge(x: Array) -> Array:
    """(..., heads, n, d) -> (..., n, heads d): the inverse of `split`, and so its gradient."""
    *lead, heads, n, dim = x.shape
    return x.swapaxes(-2, -3).reshape(*lead, n, heads * dim)


def for_each_head(x: Array, heads: int) -> Array:
    """Repeat shared heads for each head that reads them: head i reads shared head i g // heads.

    The result is a view, not a copy, if g is 1 or `heads`.
    Shapes: (..., g, n, d) -> (..., heads, n, d). Raises ValueError where g does not divide heads.
    """
    *lead, g, n, d = x.shape
    if heads % g:
        raise ValueError(f"kv_heads = {g} does not divide heads = {heads}")
    if g == heads:
        return x
    return get_xp(x).broadcast_to(x[..., None, :, :], (*lead, g, heads // g, n, d)).reshape(*lead, heads, n, d)


def in_groups(x: Array | None, heads: int, groups: int) -> Array | None:
    """An array of each head, (..., heads, n, m), as (..., groups, heads / groups, n, m): a group shares its keys.

    An array for all heads, (n, m) or (..., 1, n, m), still broadcasts; None stays None.
    """
    if x is None or x.ndim < 3:
        return x
    *lead, h, n, m = x.shape
    return x.reshape(*lead, *((groups, heads // groups) if h == heads else (1, 1)), n, m)


def sum_of_groups(dx: Array, groups: int) -> Array:
    """The backward of `for_each_head`: a shared head receives the sum of its readers' gradients.

    Shapes: (..., heads, n, d) -> (..., groups, n, d).
    """
    *lead, heads, n, d = dx.shape
    return get_xp(dx).sum(dx.reshape(*lead, groups, heads // groups, n, d), axis=-3)
