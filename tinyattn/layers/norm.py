"""LayerNorm with its parameters."""

from typing import Any, NamedTuple

import numpy as np

from ..ops import layer_norm, layer_norm_backward


def norm_init(dim):
    """{"gamma": ones, "beta": zeros}, both (dim,)."""
    return {"gamma": np.ones(dim), "beta": np.zeros(dim)}


class NormCache(NamedTuple):
    x_hat: Any    # (..., d), the normalised input
    rstd: Any     # (..., 1)


def norm(p, x, *, eps=1e-5):
    """y = x_hat ⊙ γ + β. Shapes: x (..., d) -> y (..., d), cache."""
    y, x_hat, rstd = layer_norm(x, p["gamma"], p["beta"], eps)
    return y, NormCache(x_hat, rstd)


def norm_backward(p, dy, cache):
    """-> dx (..., d), grads shaped like p."""
    dx, dgamma, dbeta = layer_norm_backward(dy, cache.x_hat, cache.rstd, p["gamma"])
    return dx, {"gamma": dgamma, "beta": dbeta}
