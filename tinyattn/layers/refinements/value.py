"""M_value without its leak: equation 3 of Liu et al. 2024, with each row computed from itself and earlier rows."""

from dataclasses import dataclass
from typing import Any

from ...backend import Array
from ...ops import refine_value, refine_value_backward
from .refinement import Maps


@dataclass(frozen=True)
class Value(Maps):
    """b_k = z_k softmax(Σ_{i <= k} x_iᵀ y_i)ᵀ, with X = tril(W_Q) A, Y and Z alike: for causal masks only."""

    name = "value"
    maps = over_tokens = ("query", "key", "value")

    def refuse(self, causal: bool) -> None:
        if not causal:
            raise ValueError("refinement value needs a causal mask: it sums over the past; value-rows takes any")

    def refine(self, A: Array, W: Any, allowed: Array | None, scale: float | None) -> tuple[Any, ...]:
        return refine_value(A, *W)

    def refine_backward(self, dB: Array, A: Array, W: Any, saved: Any, scale: float | None) -> tuple[Array, ...]:
        return refine_value_backward(dB, A, *W, *saved)
