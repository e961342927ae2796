"""Products of queries with a vector for every distance."""

from typing import Any

import numpy as np

from ..common import tolerance
from ..families import linear_in
from ..property import close
from ..spec import Form
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("relative_scores")
linear_in(states, "q")
linear_in(states, "a")


def vectors(draw: CaseDrawer, d: int) -> np.ndarray:
    """Vectors of the distances -K to K: one table for all leading axes, or one for each."""
    rows = 2 * draw.choose((0, 1, 2, 3, 8)) + 1
    return draw.array(*draw.choose(((*draw.lead, rows, d), (rows, d))))


def case(draw: CaseDrawer) -> dict[str, Any]:
    n, d = draw.tokens(), draw.size()
    return {"q": draw.array(*draw.lead, n, d), "a": vectors(draw, d), "m": draw.size_like(n)}


@states("rounding", "shifting a query and a key together keeps their score", hint="Is j - i clipped, and not j?")
def shift(op: Subject, **case: Any) -> None:
    same = np.repeat(case["q"][..., :1, :], case["q"].shape[-2], axis=-2)
    s = op(**case | {"q": same})
    close(s[..., 1:, 1:], s[..., :-1, :-1], tolerance(op.spec, case), "with equal queries, the score ")


TABLES = Form("a with leading axes", lambda case: case["a"].ndim > 2, ours=True)
SPEC = states.spec(
    "s[i, j] = q[i] · a[clip(j - i, -K, K) + K]",
    "relative_scores(q, a, m) -> s: q (..., n, d), a onto (..., 2 K + 1, d), m the number of keys, s (..., n, m)",
    forms=(TABLES,),
    case=case,
    outputs=("s",),
    wrt=("q", "a"),
)
