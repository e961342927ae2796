"""RMSNorm with its parameter."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..backend import Array
from ..ops import rms_norm, rms_norm_backward


class RMSNormCache(NamedTuple):
    x_hat: Array    # (..., d), the scaled input
    r: Array        # (..., 1)


@dataclass(frozen=True)
class RMSNorm:
    """y = x_hat ⊙ γ, with x_hat = x / √(mean(x²) + eps): LayerNorm without mean and β (Zhang & Sennrich 2019)."""

    eps: float = 1e-5

    def init(self, dim: int) -> dict[str, Any]:
        """{"gamma": ones}, (dim,)."""
        return {"gamma": np.ones(dim)}

    def forward(self, p: Any, x: Array) -> tuple[Array, RMSNormCache]:
        """Shapes: x (..., d) -> y (..., d), cache."""
        y, x_hat, r = rms_norm(x, p["gamma"], self.eps)
        return y, RMSNormCache(x_hat, r)

    def backward(self, p: Any, dy: Array, cache: RMSNormCache) -> tuple[Array, dict[str, Any]]:
        """-> dx (..., d), grads shaped like p."""
        dx, dgamma = rms_norm_backward(dy, cache.x_hat, cache.r, p["gamma"])
        return dx, {"gamma": dgamma}
