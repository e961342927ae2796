"""The GELU, exact and in its tanh form."""

from typing import Any

import numpy as np

from ..families import elementwise
from ..property import close, demand, largest, rounding
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("gelu")
elementwise(states)


def case(draw: CaseDrawer) -> dict[str, Any]:
    return {"x": draw.array(*draw.lead, draw.size(), size=draw.choose((1.0, 3.0))), "approximate": draw.flag()}


@states("rounding", "gelu(x) - gelu(-x) is x, since Φ(x) + Φ(-x) = 1", hint="Is Φ(0) one half?")
def odd_part(op: Subject, x: np.ndarray, approximate: bool) -> None:
    close(op(x, approximate) - op(-x, approximate), x, rounding(x.dtype, 1, 2 * largest(x)), "gelu(x) - gelu(-x)")


@states("approximate", "the two forms differ by less than 5e-4, and by more than 1e-4 somewhere near 2",
        hint="Which of the two does your code compute, and which does `approximate` select?")
def two_forms(op: Subject, x: np.ndarray, approximate: bool) -> None:
    close(op(x, True), op(x, False), 5e-4, "the tanh form")
    near = np.array([2.0, -2.0, 2.7], x.dtype)
    demand(np.max(np.abs(op(near, True) - op(near, False))) > 1e-4, "the two forms are the same")


@states("rounding", "far out it is x on the right and 0 on the left, with gradients 1 and 0", "extremes",
        hint="Φ is 0 far to the left and 1 far to the right. And x Φ(x)?")
def far_out(op: Subject, x: np.ndarray, approximate: bool) -> None:
    far = np.array([30.0, 2.0**100, -30.0, -(2.0**100)], dtype=x.dtype)
    close(op(far, approximate), np.maximum(far, 0), rounding(x.dtype, 1, 1) * np.abs(far), "y")
    if "gelu_backward" not in op.lacks:
        far = np.array([30.0, 1e4, -30.0, -1e4], dtype=x.dtype)         # further out the textbook's x³ overflows
        dx = op.gradients(op.fit({"x": far, "approximate": approximate}), np.ones_like(far))["x"]
        close(dx, [1, 1, 0, 0], rounding(x.dtype, 1, 10.0), "dx")


SPEC = states.spec(
    "y = x Φ(x), with Φ the normal distribution function; approximate=True: ½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))",
    "gelu(x, approximate=False): x (...); Φ to the last digits, not to seven",
    "x of any finite size; the gradient up to ±10,000",
    case=case,
    wrt=("x",),
    scale=lambda case: largest(case["x"]),
)
