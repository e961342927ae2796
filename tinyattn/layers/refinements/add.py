"""M_add: the mean of the scores and of M_simp (Liu et al. 2024, equation 4)."""

from dataclasses import dataclass
from typing import Any

from ...backend import Array
from ...ops import refine_add, refine_add_backward
from .refinement import Rows


@dataclass(frozen=True)
class Add(Rows):
    """B = ((A W_Q) (A W_K)ᵀ / √d + A) / 2."""

    name = "add"
    maps = ("query", "key")

    def refine(self, A: Array, W: Any, allowed: Array | None, scale: float | None) -> tuple[Any, ...]:
        W_Q, W_K = W
        return refine_add(A, W_Q, W_K, scale, self.refine_lags)

    def refine_backward(self, dB: Array, A: Array, W: Any, saved: Any, scale: float | None) -> tuple[Array, ...]:
        (W_Q, W_K), (X, Y) = W, saved
        return refine_add_backward(dB, A, W_Q, W_K, X, Y, scale, self.refine_lags)
