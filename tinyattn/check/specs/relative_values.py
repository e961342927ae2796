"""Values with an added vector for every distance."""

from typing import Any

import numpy as np

from ..common import tolerance
from ..families import linear_in
from ..property import close
from .builder import CaseDrawer, SpecBuilder, Subject
from .relative_scores import TABLES, vectors

states = SpecBuilder("relative_values")
linear_in(states, "w")
linear_in(states, "a")


def case(draw: CaseDrawer) -> dict[str, Any]:
    n = draw.tokens()
    return {"w": draw.array(*draw.lead, n, draw.size_like(n)), "a": vectors(draw, draw.size())}


@states("rounding", "equal vectors are multiplied by the sum of the weights", hint="Is a distance beyond K left out?")
def equal_vectors(op: Subject, **case: Any) -> None:
    out = op(**case | {"a": np.ones_like(case["a"])})
    expected = np.broadcast_to(np.sum(case["w"].astype(float), axis=-1)[..., None], out.shape)
    close(out, expected, case["w"].size * tolerance(op.spec, case), "out")


SPEC = states.spec(
    "out[i] = Σ_j w[i, j] a[clip(j - i, -K, K) + K]",
    "relative_values(w, a) -> out: w (..., n, m), a onto (..., 2 K + 1, d), out (..., n, d)",
    forms=(TABLES,),
    case=case,
    outputs=("out",),
    wrt=("w", "a"),
)
