"""M_value by rows: attention among rows of scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..families import causal, linear_in
from ..property import largest
from ..spec import broadcast_masks
from .builder import CaseDrawer, SpecBuilder
from .refine_simp import drawn
from .refine_simp import scale as of_products

states = SpecBuilder("refine_value_rows")
linear_in(states, "W_V", hint="The weights must not depend on the values.")


def case(draw: CaseDrawer) -> dict[str, Any]:
    found = drawn(draw, "W_Q", "W_K", "W_V")
    n = found["A"].shape[-1]
    found["W_V"] = draw.array(*found["W_V"].shape[:-1], n, size=n**-0.5)
    mask = draw.mask(*draw.choose(((n, n), (1, n), found["A"].shape))) if draw.flag() else None
    return found | {"mask": mask}


def masked(case: dict[str, Any]) -> dict[str, Any]:
    n = case["A"].shape[-1]
    return case | {"A": np.tril(case["A"]), "mask": np.tri(n, dtype=bool)}


causal(states, "A", of=masked, hint="Row k is a mean of rows: of which ones does the mask let it be?")


def scale(case: dict[str, Any]) -> float:
    """An exponent's error weighs values."""
    return of_products(case) * (1 + largest(case["W_V"]) * case["A"].shape[-1] * largest(case["A"])) * 4


SPEC = states.spec(
    "B = softmax(c X Yᵀ, mask) Z, X = A W_Q, Y = A W_K, Z = A W_V, c = scale or 1 / √r",
    "refine_value_rows(A, W_Q, W_K, W_V, mask=None, scale=None, lags=False) -> B first: A and B (..., n, n), W_Q and "
    "W_K onto (..., n, r), W_V onto (..., n, n), mask onto A, True = may look",
    "lags: Ã in the place of A, with Ã_kr = A_{k,k-r}, 0 for r > k; of the mean, too, column r is the lag r, and B has "
    "columns again",
    case=case,
    outputs=("B",),
    wrt=("A", "W_Q", "W_K", "W_V"),
    scale=scale,
    forms=(broadcast_masks(lambda case: case["A"].shape),),
)
