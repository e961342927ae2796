"""Rotary positions: pairs of features, turned."""

from typing import Any

import numpy as np

from ..common import tolerance
from ..families import linear_in
from ..property import close, same_bits
from ..spec import Form
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("rotary")
linear_in(states, "x")


def case(draw: CaseDrawer) -> dict[str, Any]:
    n, half = draw.tokens(), draw.size(high=4)
    x, shape = draw.array(*draw.lead, n, 2 * half), draw.choose(((*draw.lead, n, half), (n, half), (1, half)))
    angle = draw.array(*shape).astype(float)
    return {"x": x, "cos": np.cos(angle).astype(x.dtype), "sin": np.sin(angle).astype(x.dtype)}


@states("rounding", "no token changes its length", hint="c x - s y and s x + c y: which term has the minus?")
def norm_kept(op: Subject, **case: Any) -> None:
    length, expected = (np.sum(x.astype(float) ** 2, axis=-1) for x in (op(**case), case["x"]))
    close(length, expected, 10 * case["x"].shape[-1] * tolerance(op.spec, case), "the squared length of token ")


@states("rounding", "a rotation and its inverse leave every token unchanged", hint="The inverse has -sin.")
def there_and_back(op: Subject, **case: Any) -> None:
    close(op(**case | {"x": op(**case), "sin": -case["sin"]}), case["x"], 4 * tolerance(op.spec, case), "turned back, x")


@states("exact", "an angle of 0 changes nothing", hint="cos 0 = 1 and sin 0 = 0.")
def no_turn(op: Subject, **case: Any) -> None:
    same_bits(op(**case | {"cos": np.ones_like(case["cos"]), "sin": np.zeros_like(case["sin"])}), case["x"], "y")


SPEC = states.spec(
    "y[2i] = cos_i x[2i] - sin_i x[2i+1], y[2i+1] = sin_i x[2i] + cos_i x[2i+1]: neighbours are pairs",
    "rotary(x, cos, sin) -> y: x (..., n, d) with d even; cos and sin broadcast to (..., n, d/2), and are constants",
    case=case,
    wrt=("x",),
    forms=(
        Form("cos and sin with leading axes", lambda case: case["cos"].ndim > 2, ours=True),
        Form("cos and sin of one row", lambda case: case["cos"].shape[-2] < case["x"].shape[-2], ours=True),
    ),
    choices=("rotary",),
)
