"""The sigmoid linear unit, also called Swish: a number times its sigmoid (Elfwing, Uchibe & Doya 2018)."""

from ..backend import Array
from .shapes import expect
from .sigmoid import sigmoid


def silu(x: Array) -> Array:
    """y = x σ(x), with σ(x) = 1 / (1 + exp(-x)).

    The GELU with σ in place of Φ: Elfwing, Uchibe & Doya 2018; Swish with β = 1 in Ramachandran, Zoph & Le 2017.
    Shapes: x (...) -> y (...). Raises TypeError for dtypes other than float32 / float64.
    """
    expect("...", x=x)
    return x * sigmoid(x)


def silu_backward(dy: Array, x: Array) -> Array:
    """dx = dy σ(x) (1 + x (1 - σ(x))).

    The product rule, and σ' = σ (1 - σ). Shapes: dy, x (...) -> dx (...).
    """
    expect("... ...", dy=dy, x=x)
    gate = sigmoid(x)
    return dy * gate * (1 + x * (1 - gate))
