"""The ELU."""

from typing import Any

import numpy as np

from ..common import tolerance
from ..families import elementwise
from ..property import close, close_or_note, largest, rounding
from . import relu
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("elu")
elementwise(states)


def case(draw: CaseDrawer) -> dict[str, Any]:
    """x away from 0, which is a kink unless α is 1."""
    return relu.case(draw) | {"alpha": draw.choose((1.0, 0.5, 2.0))}


@states("exact", "right of 0 it is x itself, and its gradient is dy", hint="Which side is the exponential on?")
def right(op: Subject, x: np.ndarray, alpha: float) -> None:
    x = np.abs(x)
    close(op(x, alpha), x, 0, "y")
    if "elu_backward" not in op.lacks:
        close(op.gradients({"x": x, "alpha": alpha}, x)["x"], x, 0, "dx")


@states("rounding", "left of 0 the gradient is dy (y + α)", "gradients", hint="Differentiate α exp(x).")
def left(op: Subject, x: np.ndarray, alpha: float) -> None:
    case = {"x": -np.abs(x), "alpha": alpha}
    dy = np.cos(np.arange(x.size)).reshape(x.shape).astype(x.dtype)
    close(op.gradients(case, dy)["x"], dy * (op(**case) + x.dtype.type(alpha)), 2 * tolerance(op.spec, case), "dx")


@states("rounding", "near 0 on the left it is α x to the last digits; at 0 it is 0, with the gradient α", "extremes",
        hint="For small x, exp(x) - 1 has few digits left: use expm1.")
def near_zero(op: Subject, x: np.ndarray, alpha: float) -> None:
    small = np.array([-(2.0**-40), -(2.0**-60), -0.0], x.dtype)
    atol = np.abs(small) * (rounding(x.dtype, 1, 1) + 2.0**-39) * alpha
    close_or_note(op(small, alpha), alpha * small.astype(float), atol, rounding(x.dtype, 1, alpha), "y")
    if "elu_backward" not in op.lacks:
        zero = np.zeros_like(x)
        close(op.gradients({"x": zero, "alpha": alpha}, zero + 1)["x"], zero + alpha, 0, "dx at 0")


@states("rounding", "far out it is x on the right and -α on the left, with gradients 1 and 0", "extremes",
        hint="exp of a large x overflows, even where its result is not used.")
def far_out(op: Subject, x: np.ndarray, alpha: float) -> None:
    far = np.array([30.0, 2.0**100, -1e4, -(2.0**100)], x.dtype)
    close(op(far, alpha), [*far[:2], -alpha, -alpha], 0, "y")
    if "elu_backward" not in op.lacks:
        close(op.gradients(op.fit({"x": far, "alpha": alpha}), np.ones_like(far))["x"], [1, 1, 0, 0], 0, "dx")


SPEC = states.spec(
    "y = x where x > 0, and α (exp(x) - 1) elsewhere",
    "elu(x, alpha=1.0): x (...), of any finite size; small x keep their digits",
    case=case,
    wrt=("x",),
    scale=lambda case: largest(case["x"]) + case["alpha"],
)
