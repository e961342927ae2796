"""LayerNorm with its parameters."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..backend import Array
from ..forms import replaceable
from ..ops import layer_norm, layer_norm_backward
from .rms_norm import RMSNorm


def norm_init(dim: int) -> dict[str, Any]:
    """{"gamma": ones, "beta": zeros}, both (dim,)."""
    return {"gamma": np.ones(dim), "beta": np.zeros(dim)}


class NormCache(NamedTuple):
    x_hat: Array    # (..., d), the normalised input
    rstd: Array     # (..., 1)


@replaceable
def norm(p: Any, x: Array, *, eps: float = 1e-5) -> tuple[Array, NormCache]:
    """y = x_hat ⊙ γ + β. Shapes: x (..., d) -> y (..., d), cache."""
    y, x_hat, rstd = layer_norm(x, p["gamma"], p["beta"], eps)
    return y, NormCache(x_hat, rstd)


@replaceable
def norm_backward(p: Any, dy: Array, cache: NormCache) -> tuple[Array, dict[str, Any]]:
    """-> dx (..., d), grads shaped like p."""
    dx, dgamma, dbeta = layer_norm_backward(dy, cache.x_hat, cache.rstd, p["gamma"])
    return dx, {"gamma": dgamma, "beta": dbeta}


class Norm(Protocol):
    """What a block needs of a norm."""

    def init(self, dim: int) -> dict[str, Any]:
        """Parameters for tokens of this width."""

    def forward(self, p: Any, x: Array) -> tuple[Array, Any]:
        """-> y, cache. Shapes: x (..., dim) -> y (..., dim)."""

    def backward(self, p: Any, dy: Array, cache: Any) -> tuple[Array, dict[str, Any]]:
        """-> dx (..., dim), grads shaped like p."""


@dataclass(frozen=True)
class LayerNorm:
    """`norm` as a part of a block."""

    eps: float = 1e-5

    def init(self, dim: int) -> dict[str, Any]:
        """{"gamma": ones, "beta": zeros}, both (dim,)."""
        return norm_init(dim)

    def forward(self, p: Any, x: Array) -> tuple[Array, NormCache]:
        """y = x_hat ⊙ γ + β. Shapes: x (..., dim) -> y (..., dim), cache."""
        return norm(p, x, eps=self.eps)

    def backward(self, p: Any, dy: Array, cache: NormCache) -> tuple[Array, dict[str, Any]]:
        """-> dx (..., dim), grads shaped like p."""
        return norm_backward(p, dy, cache)


NORMS: dict[str, Callable[[float], Norm]] = {        # each takes eps
    "layer": LayerNorm,
    "rms": RMSNorm,
}
