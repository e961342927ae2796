"""M_stoc: rows of scores are distributions, compared by their distance (Liu et al. 2024, section 2.3)."""

from dataclasses import dataclass
from typing import Any

from ...backend import Array
from ...ops import refine_stoc, refine_stoc_backward
from .refinement import Rows


@dataclass(frozen=True)
class Stoc(Rows):
    """b_kt = -W²(row k, row t) / √d, with means A W_μ and covariances ELU(A W_Σ) + 1.

    The paper uses it with STOSA. A row is nearest to itself, whatever is learned: the diagonal of B is the largest.
    """

    name = "stoc"
    maps = ("mean", "cov")

    def refine(self, A: Array, W: Any, allowed: Array | None, scale: float | None) -> tuple[Any, ...]:
        W_mu, W_sigma = W
        B, mean, dev = refine_stoc(A, W_mu, W_sigma, scale, self.refine_lags)
        return B, B, mean, dev                                   # its backward reads B, too

    def refine_backward(self, dB: Array, A: Array, W: Any, saved: Any, scale: float | None) -> tuple[Array, ...]:
        (W_mu, W_sigma), (B, mean, dev) = W, saved
        return refine_stoc_backward(dB, A, W_mu, W_sigma, B, mean, dev, scale, self.refine_lags)
