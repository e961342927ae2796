"""Patches of images as tokens, as a Vision Transformer reads them (Dosovitskiy et al. 2021, 3.1).

A linear map of patches is a convolution whose kernel and stride have the size of a patch: `patchify(x, P) @
W.reshape(P * P * C, D)` is `conv2d(x, W, padding="valid")` at every P-th row and column.
"""

from ..backend import Array
from .shapes import expect


def patchify(x: Array, patch: int) -> Array:
    """y_{t, (a P + b) C + c} = x_{u P + a, v P + b, c}, with P = patch and t = u (w / P) + v.

    A copy of the image with its numbers in another order: patch by patch, and within a patch row by row.
    Shapes: x (..., h, w, C) -> y (..., h w / P², P² C).
    Raises ValueError for a patch that does not divide height and width, and for shapes, TypeError for dtypes.
    """
    expect("...hwc", x=x)
    *lead, h, w, C = x.shape
    _refuse("patchify", patch, h, w)
    cut = x.reshape(*lead, h // patch, patch, w // patch, patch, C).swapaxes(-3, -4)    # (..., u, v, a, b, C)
    return cut.copy().reshape(*lead, (h // patch) * (w // patch), patch * patch * C)


def patchify_backward(dy: Array, x: Array, patch: int) -> Array:
    """dx_{u P + a, v P + b, c} = dy_{t, (a P + b) C + c}: every number goes back to where it was read.

    It is also the inverse of `patchify`: `patchify_backward(patchify(x, P), x, P)` is x. Only the shape of x is used.
    Shapes: dy (..., h w / P², P² C), x (..., h, w, C) -> dx like x.
    """
    expect("...tf ...hwc", dy=dy, x=x)
    *lead, h, w, C = x.shape
    _refuse("patchify_backward", patch, h, w)
    back = dy.reshape(*lead, h // patch, w // patch, patch, patch, C).swapaxes(-3, -4)  # (..., u, a, v, b, C)
    return back.copy().reshape(*lead, h, w, C)


def _refuse(op: str, patch: int, h: int, w: int) -> None:
    for name, size in (("height", h), ("width", w)):
        if patch < 1 or size % patch:
            raise ValueError(f"{op}: patch is {patch}, expected a divisor of the {name}, which is {size}")
