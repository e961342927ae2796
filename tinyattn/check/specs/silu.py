"""The SiLU."""

from typing import Any

import numpy as np

from ..common import tolerance
from ..families import elementwise
from ..property import close, largest, rounding
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("silu")
elementwise(states)


def case(draw: CaseDrawer) -> dict[str, Any]:
    return {"x": draw.array(*draw.lead, draw.size(), size=draw.choose((1.0, 3.0)))}


@states("rounding", "silu(x) - silu(-x) is x, since σ(x) + σ(-x) = 1", hint="Is σ(0) one half?")
def odd_part(op: Subject, x: np.ndarray) -> None:
    close(op(x) - op(-x), x, 2 * tolerance(op.spec, {"x": x}), "silu(x) - silu(-x)")


@states("rounding", "the slopes at x and -x sum to 1", "gradients", hint="The product rule: σ(x) + x σ(x) (1 - σ(x)).")
def slopes(op: Subject, x: np.ndarray) -> None:
    dy = np.ones_like(x)
    total = op.gradients({"x": x}, dy)["x"] + op.gradients({"x": -x}, dy)["x"]
    close(total, dy, 20 * tolerance(op.spec, {"x": x}), "the sum of slopes")


@states("rounding", "far out it is x on the right and 0 on the left, with gradients 1 and 0", "extremes",
        hint="exp(-x) of a large negative x overflows: use the side on which exp is below 1.")
def far_out(op: Subject, x: np.ndarray) -> None:
    far = np.array([120.0, 2.0**100, -120.0, -(2.0**100)], x.dtype)
    close(op(far), np.maximum(far, 0), rounding(x.dtype, 1, 1), "y")
    if "silu_backward" not in op.lacks:
        dx = op.gradients(op.fit({"x": far}), np.ones_like(far))["x"]
        close(dx, [1, 1, 0, 0], rounding(x.dtype, 1, 1), "dx")


SPEC = states.spec(
    "y = x σ(x), with σ(x) = 1 / (1 + exp(-x))",
    "silu(x): x (...), of any finite size",
    case=case,
    wrt=("x",),
    scale=lambda case: largest(case["x"]),
)
