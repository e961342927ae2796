"""M_stoc: rows of scores as distributions, and their distance."""

from typing import Any

import numpy as np

from ..common import tolerance
from ..property import close, demand
from .builder import CaseDrawer, SpecBuilder, Subject
from .refine_simp import compares_rows, drawn, scale

states = SpecBuilder("refine_stoc")
compares_rows(states, "W_mu", "W_sigma")


def case(draw: CaseDrawer) -> dict[str, Any]:
    return drawn(draw, "W_mu", "W_sigma", square=False)


@states("rounding", "a row has distance 0 from itself, and no score is positive", hint="Is it -|a - b|²?")
def distances(op: Subject, **case: Any) -> None:
    B = op(**case)
    demand(np.all(B <= 0), "a distance is negative")
    diagonal = np.diagonal(B, axis1=-2, axis2=-1)
    close(diagonal, np.zeros(diagonal.shape), tolerance(op.spec, case), "the distance of a row from itself, ")


@states("rounding", "the distance is symmetric", hint="Are both maps applied to both rows?")
def symmetric(op: Subject, **case: Any) -> None:
    B = op(**case)
    close(B, B.swapaxes(-1, -2), tolerance(op.spec, case), "Bᵀ")


@states("rounding", "far left of 0 σ is e^(z/2), with a gradient that is finite and not 0", "extremes",
        hint="ELU(-40) + 1 is 0 in float32: take the root of e^z and not of its rounded value.")  # fmt: skip
def far_left(op: Subject, **case: Any) -> None:
    A = np.array([[-40.0], [-38.0]], case["A"].dtype)
    one = np.ones((1, 1), A.dtype)
    case = {"A": A, "W_mu": 0 * one, "W_sigma": one, "scale": 1.0, "lags": False}
    root = np.exp(A.astype(float) / 2)
    close(op(**case)[0, 1] / root[1, 0] ** 2, -((1 - np.exp(-1)) ** 2), 1e-3, "the distance, over e^z, ")
    if "refine_stoc_backward" not in op.lacks:
        dA = op.gradients(case, np.eye(2, dtype=A.dtype)[::-1].copy())["A"]
        expected = -2 * (root - root[::-1]) * root
        close(dA / root[1, 0] ** 2, expected / root[1, 0] ** 2, 1e-3, "dA, over e^z, ")


SPEC = states.spec(
    "b_kt = -c (|μ_k - μ_t|² + |σ_k - σ_t|²), μ = A W_mu, σ = √(ELU(A W_sigma) + 1), c = scale or 1 / √r",
    "refine_stoc(A, W_mu, W_sigma, scale=None, lags=False) -> B first: A (..., n, m), W_mu and W_sigma onto "
    "(..., m, r), B (..., n, n)",
    "lags: n = m, and Ã in place of A, with Ã_kr = A_{k,k-r}, 0 for r > k",
    case=case,
    outputs=("B",),
    wrt=("A", "W_mu", "W_sigma"),
    scale=scale,
)
