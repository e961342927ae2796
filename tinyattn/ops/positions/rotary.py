"""Rotary positions, RoPE: queries and keys are rotated by their positions (Su et al. 2021, equations 14 to 16 and 34).

The features of a head are taken in pairs, and pair i of a token at slot p is rotated by the angle p ω_i, with
ω_i = base^(-2i / d). A rotation keeps lengths, and the score of a query at slot p and a key at slot r depends only on
the difference:

    (R_p q) · (R_r k) = q · (R_pᵀ R_r k) = q · (R_{r-p} k)

There are no parameters, and nothing is added to the scores. So it works with any attention, and a cache of rotated keys
stays valid.
"""

from typing import Any

from ...backend import Array, get_xp
from ..shapes import expect, expect_onto
from .sinusoids import angles


def rotary(x: Array, cos: Array, sin: Array) -> Array:
    """y_2i = c_i x_2i - s_i x_{2i+1}, y_{2i+1} = s_i x_2i + c_i x_{2i+1}.

    c and s are `cos` and `sin` of every token's angles, from `rotary_tables`. Pairs are neighbours, as in the paper.

    Shapes: x (..., n, d), cos and sin onto (..., n, d/2) -> y like x.
    Raises ValueError for an odd d and for shapes that do not fit, TypeError for dtypes.
    """
    expect("...nd", x=x)
    expect_onto(_half("rotary", x), x.dtype, like=x, cos=cos, sin=sin)
    return _rotated(x, cos, sin)


def rotary_backward(dy: Array, cos: Array, sin: Array) -> Array:
    """dx_2i = c_i dy_2i + s_i dy_{2i+1}, dx_{2i+1} = -s_i dy_2i + c_i dy_{2i+1}.

    y = R x gives dx = Rᵀ dy, and the transpose of a rotation is the rotation by the negative angle.
    c and s are constants. Shapes: as in `rotary`, and dy like y -> dx like x.
    """
    expect("...nd", dy=dy)
    expect_onto(_half("rotary_backward", dy), dy.dtype, like=dy, cos=cos, sin=sin)
    return _rotated(dy, cos, -sin)


def rotary_tables(
    slots: Array, d: int, dtype: Any, base: float = 10000.0, speeds: Array | None = None
) -> tuple[Array, Array]:
    """c_i = cos(p ω_i), s_i = sin(p ω_i), with ω_i = base^(-2i / d).

    If `speeds` are given, e.g. by `rotary_speeds` for longer texts, they replace ω, and `base` is not read.
    Angles are computed in float64, as float32 loses the digits of large ones. Sequences that continue from a cache
    have slots that do not begin at 0.
    Shapes: slots (...) of any integer dtype, d the width of a head, speeds (d/2,) in float64 -> cos and sin
    (..., d/2) in `dtype`.
    Raises ValueError for an odd d, a base that is not positive and speeds of another shape, TypeError for slots that
    are no integers.
    """
    expect("#...", slots=slots)
    _even("rotary_tables", d)
    if speeds is not None and speeds.shape != (d // 2,):
        raise ValueError(f"rotary_tables: speeds has shape {speeds.shape}, expected ({d // 2},)")
    angle = angles("rotary_tables", slots, d, base) if speeds is None else slots[..., None] * speeds
    xp = get_xp(slots)
    return xp.cos(angle).astype(dtype), xp.sin(angle).astype(dtype)


def _rotated(x: Array, cos: Array, sin: Array) -> Array:
    even, odd = x[..., 0::2], x[..., 1::2]
    y = get_xp(x).empty(x.shape, dtype=x.dtype)
    y[..., 0::2] = cos * even - sin * odd
    y[..., 1::2] = sin * even + cos * odd
    return y


def _half(name: str, x: Array) -> tuple[int, ...]:
    _even(name, x.shape[-1])
    return (*x.shape[:-1], x.shape[-1] // 2)


def _even(name: str, d: int) -> None:
    if d % 2:
        raise ValueError(f"{name}: the width of a head is {d}, expected an even number: features are turned in pairs")
