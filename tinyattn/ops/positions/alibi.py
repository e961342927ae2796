"""ALiBi, attention with linear biases: distant keys count less, by a slope per head (Press et al. 2022, section 3)."""

from ...backend import Array, get_xp
from ..shapes import expect


def alibi(n: int, m: int, heads: int, like: Array) -> Array:
    """bias_kij = -2^(-8k / h) |i - j|, for heads k = 1, ..., h.

    A constant, added to the score of query i and key j. Nothing is learned, so sequences may be longer than any in
    training. The slopes fall from head to head by the same factor, to 1/256 in the last. (If h is not a power of 2, the
    authors' code uses other slopes; here the paper's rule is used for every h.)

    Shapes: n queries, m keys -> (h, n, m), in the module and dtype of the array `like`.
    Raises ValueError for heads below 1, TypeError for a dtype other than float32 / float64.
    """
    expect("...", like=like)
    if heads < 1:
        raise ValueError(f"alibi: heads is {heads}, expected at least 1")
    xp = get_xp(like)
    slopes = xp.exp2(xp.arange(1, heads + 1, dtype=xp.float64) * (-8 / heads)).astype(like.dtype)
    far = xp.abs(xp.arange(n)[:, None] - xp.arange(m)).astype(like.dtype)
    return slopes[:, None, None] * -far
