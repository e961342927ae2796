"""M_value as printed, which reads all rows."""

from typing import Any

import numpy as np

from ..common import tolerance
from ..families import linear_in
from ..property import close, demand, largest
from .builder import CaseDrawer, SpecBuilder, Subject
from .refine_simp import scale as of_products

states = SpecBuilder("refine_value_literal")
linear_in(states, "W_V", hint="The weights must not depend on the values.")


def case(draw: CaseDrawer) -> dict[str, Any]:
    n, lead = draw.size(), draw.choose((draw.lead, draw.lead[-1:], ()))
    maps = {name: draw.array(*lead, n, n, size=1 / n) for name in ("W_Q", "W_K", "W_V")}
    return {"A": draw.array(*draw.lead, n, n, size=n**-0.5)} | maps


@states("rounding", "where W_Q is 0, row k of B is the mean of z_k", hint="Over which axis do the weights sum to 1?")
def uniform(op: Subject, **case: Any) -> None:
    B = op(**case | {"W_Q": np.zeros_like(case["W_Q"])})
    mean = np.mean(case["W_V"].astype(float) @ case["A"], axis=-1, keepdims=True)
    close(B, np.broadcast_to(mean, B.shape), tolerance(op.spec, case), "B")


@states("exact", "the first row of B depends on the last row of A", hint="The sum in Xᵀ Y is over all rows.")
def leaks(op: Subject, **case: Any) -> None:
    A, later = np.eye(4, dtype=case["A"].dtype), np.eye(4, dtype=case["A"].dtype)
    one = {name: A.copy() for name in ("W_Q", "W_K", "W_V")}
    later[3] = [2, 1, 0, 1]
    demand(np.any(op(A=later, **one)[0] != op(A=A, **one)[0]), "the last row of A does not move the first row of B")


def scale(case: dict[str, Any]) -> float:
    """An error of the exponents multiplies the values."""
    return of_products(case) * (1 + largest(case["W_V"]) * case["A"].shape[-1] * largest(case["A"])) * 4


SPEC = states.spec(
    "B = Z softmax(Xᵀ Y)ᵀ, X = W_Q A, Y = W_K A, Z = W_V A, softmax over the last axis",
    "refine_value_literal(A, W_Q, W_K, W_V) -> B first: A and B (..., n, n), the maps onto (..., n, n)",
    case=case,
    outputs=("B",),
    wrt=("A", "W_Q", "W_K", "W_V"),
    scale=scale,
)
