"""Who may look at whom: boolean masks, True = may look."""

from ..backend import get_xp


def causal_mask(n, like):
    """True where key j <= query i: a position sees itself and its past. In the module of the array `like`.

    Shapes: n a number -> (n, n) boolean.
    """
    return get_xp(like).tri(n, dtype=bool)
