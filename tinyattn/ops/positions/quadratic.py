"""A quadratic relative bias: each head looks at one place beside the query (Cordonnier, Loukas & Jaggi 2020)."""

import math
from collections.abc import Sequence

from ...backend import Array, get_xp


def quadratic_bias(
    height: int, width: int, shifts: Sequence[tuple[float, float]], alpha: float, like: Array
) -> Array:
    """bias_hij = -α |δ_ij - Δ_h|², with δ_ij the step from token i to token j on the grid.

    Tokens are on a grid, row by row; shift Δ_h = (down, right) says where head h looks. With all scores 0 the weights
    of query i are a Gaussian of variance 1 / (2 α) around its place plus Δ_h. As α grows, the nearest token's weight
    becomes 1, and its neighbours have e^(-α) times as much. This is equation 9 of the paper, which learns α and Δ_h;
    here they are constants. The term |Δ_h|², which is the same for all keys, is kept.

    Shapes: a grid of height · width = n tokens -> (heads, n, n), in the module and dtype of the array `like`.
    Raises ValueError without shifts, and for an α that is negative or not finite.
    """
    if not len(shifts):
        raise ValueError("quadratic_bias: there are no shifts, expected one for each head")
    if not 0 <= alpha < math.inf:
        raise ValueError(f"quadratic_bias: alpha is {alpha}, expected a finite number of at least 0")
    xp, dtype = get_xp(like), like.dtype
    place = xp.arange(height * width)
    row, column = ((x[None, :] - x[:, None]).astype(dtype) for x in (place // width, place % width))
    return xp.stack([((row - down) ** 2 + (column - right) ** 2) * -float(alpha) for down, right in shifts])


def kernel_shifts(K: int) -> list[tuple[int, int]]:
    """The K² places of a K × K kernel as shifts from its centre, in the order of the kernel's rows.

    Shapes: -> K² pairs (down, right). Raises ValueError for a K that is not odd and positive: it has no centre.
    """
    if K < 1 or K % 2 == 0:
        raise ValueError(f"kernel_shifts: K is {K}, expected an odd number of at least 1")
    return [(down - K // 2, right - K // 2) for down in range(K) for right in range(K)]
