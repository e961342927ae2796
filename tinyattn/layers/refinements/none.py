"""No refinement: the weights are softmax(A)."""

from dataclasses import dataclass
from typing import Any

from ...backend import Array
from .refinement import Refinement


@dataclass(frozen=True)
class NoRefinement(Refinement):
    """B = A."""

    name = "none"
    identity = True

    def forward(
        self, p: Any, s: Array, allowed: Array | None, width: int, lengths: Array | None = None
    ) -> tuple[Array, None]:
        return s, None

    def backward(self, p: Any, dB: Array, cache: None) -> tuple[Array, dict[str, Any]]:
        return dB, {}
