"""Sinusoidal positions: sines and cosines of angles that grow with the position (Vaswani et al. 2017, section 3.5).

A pair of features of a token at slot p is the sine and the cosine of the angle p ω_i. The speeds ω_i = base^(-2i / D)
fall from one radian per token to about one per `base` tokens. A step of δ rotates pair i by δ ω_i, for every p:

    PE(p + δ) = R(δ) PE(p), with R(δ) a rotation of each pair;   so   PE(p) · PE(r) depends on p - r alone
"""

from typing import Any

from ...backend import Array, get_xp
from ..shapes import expect


def sinusoids(slots: Array, dim: int, dtype: Any, base: float = 10000.0) -> Array:
    """PE_2i = sin(p ω_i), PE_{2i+1} = cos(p ω_i), with ω_i = base^(-2i / D).

    Angles are computed in float64 for every dtype: in float32 the angle of slot 100,000 has an error of 0.004.
    An odd dim lacks the last cosine.
    Shapes: slots (...) of any integer dtype, dim D -> (..., D) in `dtype`.
    Raises ValueError for dim below 0 and a base that is not positive, TypeError for slots that are no integers,
    and a dtype other than float32 / float64.
    """
    expect("#...", slots=slots)
    angle, xp = angles("sinusoids", slots, dim, base), get_xp(slots)
    found = xp.empty((*slots.shape, dim), dtype=dtype)
    if found.dtype.char not in "fd":
        raise TypeError(f"sinusoids: dtype is {found.dtype}, expected float32 or float64")
    found[..., 0::2] = xp.sin(angle)
    found[..., 1::2] = xp.cos(angle[..., : dim // 2])
    return found


def angles(name: str, slots: Array, dim: int, base: float) -> Array:
    """p ω_i in float64. Shapes: slots (...) -> (..., ceil(dim / 2)). Raises ValueError in the name of an op."""
    if dim < 0:
        raise ValueError(f"{name}: dim is {dim}, expected at least 0")
    if not base > 0:
        raise ValueError(f"{name}: base is {base}, expected a positive number")
    xp = get_xp(slots)
    speeds = base ** (xp.arange(0, dim, 2, dtype=xp.float64) / -dim)
    return slots[..., None] * speeds
