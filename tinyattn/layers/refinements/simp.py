"""M_simp: rows of scores are compared with each other, as attention compares tokens (Liu et al. 2024, equation 2)."""

from dataclasses import dataclass
from typing import Any

from ...backend import Array
from ...ops import refine_simp, refine_simp_backward
from .refinement import Rows


@dataclass(frozen=True)
class Simp(Rows):
    """B = (A W_Q) (A W_K)ᵀ / √d."""

    name = "simp"
    maps = ("query", "key")

    def refine(self, A: Array, W: Any, allowed: Array | None, scale: float | None) -> tuple[Any, ...]:
        W_Q, W_K = W
        return refine_simp(A, W_Q, W_K, scale, self.refine_lags)

    def refine_backward(self, dB: Array, A: Array, W: Any, saved: Any, scale: float | None) -> tuple[Array, ...]:
        (W_Q, W_K), (X, Y) = W, saved
        return refine_simp_backward(dB, A, W_Q, W_K, X, Y, scale, self.refine_lags)
