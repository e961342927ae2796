"""M_add: the mean of scores and of their refinement."""

from typing import Any

import numpy as np

from ..common import tolerance
from ..property import close
from .builder import CaseDrawer, SpecBuilder, Subject
from .refine_simp import compares_rows, drawn, scale

states = SpecBuilder("refine_add")
compares_rows(states, "W_Q", "W_K")


def case(draw: CaseDrawer) -> dict[str, Any]:
    return drawn(draw, "W_Q", "W_K")


@states("rounding", "where a map is 0, B is half of A", hint="B is a mean of two terms, not their sum.")
def half(op: Subject, **case: Any) -> None:
    close(op(**case | {"W_K": np.zeros_like(case["W_K"])}), case["A"] / 2, tolerance(op.spec, case), "B")


SPEC = states.spec(
    "B = (c X Yᵀ + A) / 2, X = A W_Q, Y = A W_K, c = scale or 1 / √r",
    "refine_add(A, W_Q, W_K, scale=None, lags=False) -> B first: A and B (..., n, n), W_Q and W_K onto (..., n, r)",
    "lags: Ã in place of A in X and Y, with Ã_kr = A_{k,k-r}, 0 for r > k",
    case=case,
    outputs=("B",),
    wrt=("A", "W_Q", "W_K"),
    scale=scale,
)
