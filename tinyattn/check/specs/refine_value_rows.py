"""M_value by rows: attention among rows of scores."""

from typing import Any

import numpy as np

from ..families import causal, linear_in
from .builder import CaseDrawer, SpecBuilder
from .refine_simp import drawn
from .refine_value_literal import scale

states = SpecBuilder("refine_value_rows")
linear_in(states, "W_V", hint="The weights must not depend on the values.")


def case(draw: CaseDrawer) -> dict[str, Any]:
    case = drawn(draw, "W_Q", "W_K", "W_V")
    n = case["A"].shape[-1]
    case["W_V"] = draw.array(*case["W_V"].shape[:-1], n, size=n**-0.5)
    mask = draw.mask(*draw.choose(((n, n), (1, n), case["A"].shape))) if draw.flag() else None
    return case | {"mask": mask}


causal(states, "A", of=lambda case: case | {"A": np.tril(case["A"]), "mask": np.tri(case["A"].shape[-1], dtype=bool)},
       hint="Row k is a mean of rows: which ones does the mask allow?")  # fmt: skip


SPEC = states.spec(
    "B = softmax(c X Yᵀ, mask) Z, X = A W_Q, Y = A W_K, Z = A W_V, c = scale or 1 / √r",
    "refine_value_rows(A, W_Q, W_K, W_V, mask=None, scale=None, lags=False) -> B first: A and B (..., n, n), W_Q and "
    "W_K onto (..., n, r), W_V onto (..., n, n), mask onto A, True = may look",
    "lags: Ã in place of A, with Ã_kr = A_{k,k-r}, 0 for r > k; column r of the mean is lag r too, "
    "and B has columns again",
    case=case,
    outputs=("B",),
    wrt=("A", "W_Q", "W_K", "W_V"),
    scale=scale,
)
