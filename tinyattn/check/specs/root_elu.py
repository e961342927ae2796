"""The root of ELU + 1."""

from typing import Any

import numpy as np

from .. import oracles
from ..common import tolerance
from ..families import elementwise
from ..property import close
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("root_elu")
elementwise(states)


def case(draw: CaseDrawer) -> dict[str, Any]:
    return {"x": draw.array(*draw.lead, draw.size(), size=draw.choose((1.0, 4.0)))}


@states("rounding", "its square is ELU(x) + 1", hint="Which root, of which side?")
def squared(op: Subject, x: np.ndarray) -> None:
    close(op(x) ** 2, oracles.elu(x.astype(float)) + 1, 2 * tolerance(op.spec, {"x": x}), "y²")


@states("rounding", "at x > 0 the gradient is 1 / (2 √(1 + x)), at -x it is exp(-x / 2) / 2, and at 0 a half",
        "gradients", hint="Is it a function of the result: y / 2, or 1 / (2 y)?")  # fmt: skip
def slopes(op: Subject, x: np.ndarray) -> None:
    x, dy = np.abs(x), np.cos(np.arange(x.size)).reshape(x.shape).astype(x.dtype)
    wide, limit = x.astype(float), tolerance(op.spec, {"x": x})
    for given, slope in ((x, 0.5 / np.sqrt(1 + wide)), (-x, 0.5 * np.exp(-wide / 2)), (0 * x, 0.5)):
        close(op.gradients({"x": given}, dy)["x"], dy * slope, limit, "dx")


@states("rounding", "at -20, where ELU(x) + 1 is 0 in float32, y and its gradient keep their digits", "extremes",
        hint="exp(x) - 1 + 1 has lost exp(x), and √ has no slope at 0: exp(x / 2) is the root.")  # fmt: skip
def far_left(op: Subject, x: np.ndarray) -> None:
    far = np.array([-20.0, -60.0], x.dtype)
    expected = np.exp(-np.array([10.0, 30.0]))
    close(op(far), expected, 1e-5 * expected, "y")
    if "root_elu_backward" not in op.lacks:
        close(op.gradients(op.fit({"x": far}), np.ones_like(far))["x"], expected / 2, 1e-5 * expected, "dx")


@states("rounding", "at ±2¹⁰⁰ it is 2⁵⁰ and 0, and its gradient is finite", "extremes",
        hint="exp of a large x overflows, even where it is not used; and 1 / y is infinite at y = 0.")  # fmt: skip
def far_out(op: Subject, x: np.ndarray) -> None:
    far = np.array([2.0**100, -(2.0**100)], x.dtype)
    close(op(far), [2.0**50, 0], 2.0**28, "y")
    if "root_elu_backward" not in op.lacks:
        dx = op.gradients(op.fit({"x": far}), np.ones_like(far))["x"]
        close(dx, [2.0**-51, 0], 2.0**-73, "dx")


SPEC = states.spec(
    "y = √(ELU(x) + 1): exp(x / 2) where x < 0, and √(1 + x) elsewhere",
    "root_elu(x): x (...), of any finite size; far left of 0 value and gradient keep their digits",
    case=case,
    wrt=("x",),
)
