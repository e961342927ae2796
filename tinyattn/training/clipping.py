"""Clipping: a gradient that is longer than allowed keeps its direction and gets the allowed length."""

from typing import Any

from ..backend import Array


def clip_by_global_norm(gradients: list[Array], square: Any, most: float, xp: Any) -> None:
    """g ← g · c / max(‖g‖, c), written into all `gradients`, which are one vector in pieces; `most` is c.

    `square` is ‖g‖², the sum over all pieces in float64, on their device. A norm of at most c changes no bit.
    (Pascanu, Mikolov & Bengio 2013, algorithm 1.)
    """
    scale = most / xp.maximum(xp.sqrt(square), most)
    for gradient in gradients:
        gradient *= scale.astype(gradient.dtype)
