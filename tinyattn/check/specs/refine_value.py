"""M_value, causal: each row from the rows up to it."""

from typing import Any

import numpy as np

from ... import ops
from ..common import tolerance
from ..families import causal, linear_in
from ..property import close, demand
from .builder import SpecBuilder, Subject
from .refine_value_literal import case, scale

states = SpecBuilder("refine_value")
linear_in(states, "W_V", hint="The weights must not depend on the values.")
causal(states, "A", hint="Which rows are in the sum for row k, and which columns in its softmax?")


@states("rounding", "its last row is that of the literal form", hint="Does Σ x_iᵀ y_i include the last row?")
def last_row(op: Subject, **case: Any) -> None:
    lower = {name: np.tril(x) for name, x in case.items()}
    close(op(**case)[..., -1, :], ops.refine_value_literal(**lower)[0][..., -1, :], tolerance(op.spec, case), "b_n")


@states("exact", "above their diagonals, arguments are not read, and results and gradients are 0",
        hint="Which products and sums still include later tokens or rows?")  # fmt: skip
def triangles(op: Subject, **case: Any) -> None:
    B = op(**case)
    demand(np.all(np.triu(B, 1) == 0), "B has numbers above its diagonal")
    demand(np.array_equal(op(**{name: np.tril(x) for name, x in case.items()}), B), "something above a diagonal moves B")
    if "refine_value_backward" not in op.lacks:
        for name, g in op.gradients(case, np.cos(np.arange(B.size)).reshape(B.shape).astype(B.dtype)).items():
            demand(np.all(np.triu(g, 1) == 0), f"d{name} has numbers above its diagonal")


SPEC = states.spec(
    "b_k = z_k softmax(Σ_{i <= k} x_iᵀ y_i)ᵀ over the first k + 1 columns, X = W_Q A, Y = W_K A, Z = W_V A, all tril",
    "refine_value(A, W_Q, W_K, W_V) -> B first: A and B (..., n, n), the maps onto (..., n, n)",
    "numbers above the diagonals of A and of the maps are not read; B is 0 there",
    case=case,
    outputs=("B",),
    wrt=("A", "W_Q", "W_K", "W_V"),
    scale=scale,
)
