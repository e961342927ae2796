"""The ReLU."""

from typing import Any

import numpy as np

from ..families import elementwise
from ..property import close, demand
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("relu")
elementwise(states)


def case(draw: CaseDrawer) -> dict[str, Any]:
    """Away from the kink at 0, up to 10 on either side."""
    shape = (*draw.lead, draw.size())
    x = draw.rng.uniform(0.01, draw.choose((2.0, 10.0)), shape) * draw.rng.choice([-1, 1], shape)
    return {"x": np.asarray(x, draw.dtype)}


@states("exact", "relu(x) - relu(-x) is x, and relu is never negative", hint="One of x and -x passes unchanged.")
def two_halves(op: Subject, x: np.ndarray) -> None:
    y = op(x)
    demand(np.all(y >= 0), "an output is negative")
    close(y - op(-x), x, 0, "relu(x) - relu(-x)")


@states("exact", "the gradient is dy where x > 0 and 0 elsewhere", "gradients", hint="Does the sign of dy matter?")
def gate(op: Subject, x: np.ndarray) -> None:
    dy = np.cos(np.arange(x.size)).reshape(x.shape).astype(x.dtype)
    close(op.gradients({"x": x}, dy)["x"], np.where(x > 0, dy, 0), 0, "dx")


@states("exact", "at 0 the value is 0, and the gradient is taken as 0", "extremes", hint="x > 0 or x >= 0?")
def at_zero(op: Subject, x: np.ndarray) -> None:
    zero = np.zeros_like(x)
    demand(np.all(op(zero) == 0), "relu(0) is not 0")
    if "relu_backward" not in op.lacks:
        demand(np.all(op.gradients({"x": zero}, np.ones_like(x))["x"] == 0), "the gradient at 0 is not 0")


@states("exact", "numbers as large as 2¹⁰⁰ pass unchanged", "extremes", hint="Is anything clipped?")
def large(op: Subject, x: np.ndarray) -> None:
    big = (x * 2.0**100).astype(x.dtype)
    close(op(big), np.maximum(big, 0), 0, "y")


SPEC = states.spec(
    "y = max(x, 0)",
    "relu(x): x (...)",
    "at the kink x = 0 the gradient is 0",
    case=case,
    wrt=("x",),
    special_cases=lambda: [{"x": np.array([-20.0, -7.5, -0.25, 0.0, 0.5, 6.5, 100.0])}],
    choices=("kink",),
)
