"""M_value as printed, which sees later tokens despite a causal mask (Liu et al. 2024, equation 3)."""

from dataclasses import dataclass
from typing import Any

from ...backend import Array, get_xp
from ...ops import refine_value_literal, refine_value_literal_backward
from .refinement import Maps


@dataclass(frozen=True)
class ValueLiteral(Maps):
    """B = Z softmax(Xᵀ Y)ᵀ, with X = W_Q A, Y and Z alike: every row of B depends on all rows of A.

    Here A is the whole n x n matrix, n = maxlen, with zeros where a history has no item.
    """

    name = "value-literal"
    reads_all = True
    maps = over_tokens = ("query", "key", "value")

    def used(self, W: Array, name: str, n: int) -> tuple[Any, ...]:
        return (Ellipsis,)

    def refine(self, A: Array, W: Any, allowed: Array | None, scale: float | None) -> tuple[Any, ...]:
        n = A.shape[-1]
        B, *saved = refine_value_literal(_whole(A, W[0].shape[-1]), *W)
        first = W[0].shape[-1] - n
        return B[..., first:, first:], *saved

    def refine_backward(self, dB: Array, A: Array, W: Any, saved: Any, scale: float | None) -> tuple[Array, ...]:
        n, longest = A.shape[-1], W[0].shape[-1]
        dA, *dmaps = refine_value_literal_backward(_whole(dB, longest), _whole(A, longest), *W, *saved)
        return dA[..., longest - n :, longest - n :], *dmaps


def _whole(A: Array, longest: int) -> Array:
    """The lower right corner of a matrix of zeros. Shapes: (..., n, n) -> (..., longest, longest)."""
    whole, first = get_xp(A).zeros((*A.shape[:-2], longest, longest), dtype=A.dtype), longest - A.shape[-1]
    whole[..., first:, first:] = A
    return whole
