"""The logistic sigmoid: from any number to one between 0 and 1."""

from ..backend import Array, get_xp


def sigmoid(z: Array) -> Array:
    """1 / (1 + exp(-z)), elementwise, without overflow at either end. Shapes: z (...) -> (...)."""
    xp = get_xp(z)
    small = xp.exp(-xp.abs(z))                          # in 0..1
    return xp.where(z >= 0, 1.0, small) / (1 + small)
