"""M_value by rows: attention in which rows of scores are the tokens (after Liu et al. 2024, equation 3)."""

from dataclasses import dataclass
from typing import Any

from ...backend import Array
from ...ops import refine_value_rows, refine_value_rows_backward
from .refinement import Rows


@dataclass(frozen=True)
class ValueRows(Rows):
    """B = softmax((A W_Q) (A W_K)ᵀ / √d, mask) A W_V: each row of B is a mean of rows that the mask lets it see."""

    name = "value-rows"
    maps = ("query", "key", "value")
    over_tokens = ("value",)

    def refine(self, A: Array, W: Any, allowed: Array | None, scale: float | None) -> tuple[Any, ...]:
        W_Q, W_K, W_V = W
        return refine_value_rows(A, W_Q, W_K, W_V, allowed, scale, self.refine_lags)

    def refine_backward(self, dB: Array, A: Array, W: Any, saved: Any, scale: float | None) -> tuple[Array, ...]:
        (W_Q, W_K, W_V), (X, Y, Z, weights) = W, saved
        return refine_value_rows_backward(dB, A, W_Q, W_K, W_V, X, Y, Z, weights, scale, self.refine_lags)
