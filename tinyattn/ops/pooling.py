"""Pooling: the largest number among neighbouring tokens, feature by feature."""

from ..backend import Array, get_xp
from .shapes import expect


def max_pool1d(x: Array, width: int) -> tuple[Array, Array]:
    """y_t = max_j x_{t + j}, with 0 <= j < width.

    Each feature has a separate maximum; windows overlap, and lie within the sequence. With `width` n it is the
    maximum over time of Collobert et al. (2011, section 3.3.2). If several numbers are largest, the first one wins.

    Shapes: x (..., n, d) -> y and winners (..., n - width + 1, d): the j of each maximum, as 8-bit integers for a width
    up to 127.
    Raises ValueError for shapes that do not fit and for a width outside of 1 to n, TypeError for dtypes.
    """
    expect("...nd", x=x)
    xp, size = get_xp(x), _size("max_pool1d", x, width)
    y = x[..., :size, :].copy()
    winners = xp.zeros(y.shape, dtype=xp.int8 if width <= 127 else xp.int64)
    for j in range(1, width):
        neighbour = x[..., j : j + size, :]
        winners = xp.where(neighbour > y, j, winners)
        xp.maximum(y, neighbour, out=y)
    return y, winners


def max_pool1d_backward(dy: Array, x: Array, winners: Array, width: int) -> Array:
    """dx_s = Σ_j dy_{s - j} over the windows that position s won.

    A maximum equals one of the numbers in its window: this one receives the gradient, and the others nothing.
    Shapes: dy and winners (..., n - width + 1, d), x (..., n, d) -> dx like x.
    """
    expect("...md ...nd #...md", dy=dy, x=x, winners=winners)
    xp, size = get_xp(dy), _size("max_pool1d_backward", x, width)
    if dy.shape[-2] != size:
        expected = f"(..., {size}, {x.shape[-1]})"
        raise ValueError(f"max_pool1d_backward: dy has shape {dy.shape}, expected {expected}, that of y")
    dx = xp.zeros(x.shape, dtype=x.dtype)
    for j in range(width):
        dx[..., j : j + size, :] += dy * (winners == j)
    return dx


def _size(op: str, x: Array, width: int) -> int:
    """The number of windows."""
    n = x.shape[-2]
    if not 1 <= width <= n:
        raise ValueError(f"{op}: width is {width}, expected 1 to {n}, the number of tokens")
    return n - width + 1
