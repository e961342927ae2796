"""Activations: functions of each entry alone."""

from typing import Any

import numpy as np

from .. import oracles
from ..common import tolerance
from ..families import elementwise
from ..property import close, close_or_note, demand, largest, rounding, waves
from .builder import CaseDrawer, SpecBuilder, Subject

relu = SpecBuilder("relu")
elementwise(relu)


def relu_case(draw: CaseDrawer) -> dict[str, Any]:
    """Away from the kink at 0, up to 10 on either side."""
    shape = (*draw.lead, draw.size())
    x = draw.rng.uniform(0.01, draw.choose((2.0, 10.0)), shape) * draw.rng.choice([-1, 1], shape)
    return {"x": np.asarray(x, draw.dtype)}


@relu("exact", "relu(x) - relu(-x) is x, and relu is never negative", hint="One of x and -x passes unchanged.")
def two_halves(op: Subject, x: np.ndarray) -> None:
    y = op(x)
    demand(np.all(y >= 0), "an output is negative")
    close(y - op(-x), x, 0, "relu(x) - relu(-x)")


@relu("exact", "the gradient is dy where x > 0 and 0 elsewhere", "gradients", hint="Does the sign of dy matter?")
def gate(op: Subject, x: np.ndarray) -> None:
    close(op.gradients({"x": x}, waves(x))["x"], np.where(x > 0, waves(x), 0), 0, "dx")


@relu("exact", "at 0 the value is 0, and the gradient is taken as 0", "extremes", hint="x > 0 or x >= 0?")
def at_zero(op: Subject, x: np.ndarray) -> None:
    zero = np.zeros_like(x)
    demand(np.all(op(zero) == 0), "relu(0) is not 0")
    if op.has_backward:
        demand(np.all(op.gradients({"x": zero}, np.ones_like(x))["x"] == 0), "the gradient at 0 is not 0")


@relu("exact", "numbers as large as 2¹⁰⁰ pass unchanged", "extremes", hint="Is anything clipped?")
def large(op: Subject, x: np.ndarray) -> None:
    big = (x * 2.0**100).astype(x.dtype)
    close(op(big), np.maximum(big, 0), 0, "y")


RELU = relu.spec(
    "y = max(x, 0)",
    "relu(x): x (...)",
    "at the kink x = 0 the gradient is 0",
    case=relu_case, wrt=("x",), special_cases=lambda: [{"x": np.array([-20.0, -7.5, -0.25, 0.0, 0.5, 6.5, 100.0])}],
    choices=("kink",),
)


gelu = SpecBuilder("gelu")
elementwise(gelu)


def gelu_case(draw: CaseDrawer) -> dict[str, Any]:
    return {"x": draw.array(*draw.lead, draw.size(), size=draw.choose((1.0, 3.0))), "approximate": draw.flag()}


@gelu("rounding", "gelu(x) - gelu(-x) is x, since Φ(x) + Φ(-x) = 1", hint="Is Φ(0) one half?")
def gelu_odd_part(op: Subject, x: np.ndarray, approximate: bool) -> None:
    close(op(x, approximate) - op(-x, approximate), x, rounding(x.dtype, 1, 2 * largest(x)), "gelu(x) - gelu(-x)")


@gelu("approximate", "the two forms differ by less than 5e-4, and by more than 1e-4 somewhere near 2",
        hint="Which of the two does your code compute, and which does `approximate` select?")
def two_forms(op: Subject, x: np.ndarray, approximate: bool) -> None:
    close(op(x, True), op(x, False), 5e-4, "the tanh form")
    near = np.array([2.0, -2.0, 2.7], x.dtype)
    demand(np.max(np.abs(op(near, True) - op(near, False))) > 1e-4, "the two forms are the same")


@gelu("rounding", "far out it is x on the right and 0 on the left, with gradients 1 and 0", "extremes",
        hint="Φ is 0 far to the left and 1 far to the right. And x Φ(x)?")
def gelu_far_out(op: Subject, x: np.ndarray, approximate: bool) -> None:
    far = np.array([30.0, 2.0**100, -30.0, -(2.0**100)], dtype=x.dtype)
    close(op(far, approximate), np.maximum(far, 0), rounding(x.dtype, 1, 1) * np.abs(far), "y")
    if op.has_backward:
        far = np.array([30.0, 1e4, -30.0, -1e4], dtype=x.dtype)         # further out the textbook's x³ overflows
        dx = op.gradients(op.fit({"x": far, "approximate": approximate}), np.ones_like(far))["x"]
        close(dx, [1, 1, 0, 0], rounding(x.dtype, 1, 10.0), "dx")


GELU = gelu.spec(
    "y = x Φ(x), with Φ the normal distribution function; approximate=True: ½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))",
    "gelu(x, approximate=False): x (...); Φ to the last digits, not to seven",
    "x of any finite size; the gradient up to ±10,000",
    case=gelu_case, wrt=("x",), scale=lambda case: largest(case["x"]),
)


silu = SpecBuilder("silu")
elementwise(silu)


@silu("rounding", "silu(x) - silu(-x) is x, since σ(x) + σ(-x) = 1", hint="Is σ(0) one half?")
def silu_odd_part(op: Subject, x: np.ndarray) -> None:
    close(op(x) - op(-x), x, 2 * tolerance(op.spec, {"x": x}), "silu(x) - silu(-x)")


@silu("rounding", "the slopes at x and -x sum to 1", "gradients", hint="The product rule: σ(x) + x σ(x) (1 - σ(x)).")
def silu_slopes(op: Subject, x: np.ndarray) -> None:
    dy = np.ones_like(x)
    total = op.gradients({"x": x}, dy)["x"] + op.gradients({"x": -x}, dy)["x"]
    close(total, dy, 20 * tolerance(op.spec, {"x": x}), "the sum of slopes")


@silu("rounding", "far out it is x on the right and 0 on the left, with gradients 1 and 0", "extremes",
        hint="exp(-x) of a large negative x overflows: use the side on which exp is below 1.")
def silu_far_out(op: Subject, x: np.ndarray) -> None:
    far = np.array([120.0, 2.0**100, -120.0, -(2.0**100)], x.dtype)
    close(op(far), np.maximum(far, 0), rounding(x.dtype, 1, 1), "y")
    if op.has_backward:
        dx = op.gradients(op.fit({"x": far}), np.ones_like(far))["x"]
        close(dx, [1, 1, 0, 0], rounding(x.dtype, 1, 1), "dx")


SILU = silu.spec(
    "y = x σ(x), with σ(x) = 1 / (1 + exp(-x))",
    "silu(x): x (...), of any finite size",
    case=lambda draw: {"x": draw.array(*draw.lead, draw.size(), size=draw.choose((1.0, 3.0)))}, wrt=("x",),
    scale=lambda case: largest(case["x"]),
)


elu = SpecBuilder("elu")
elementwise(elu)


def elu_case(draw: CaseDrawer) -> dict[str, Any]:
    """x away from 0, which is a kink unless α is 1."""
    return relu_case(draw) | {"alpha": draw.choose((1.0, 0.5, 2.0))}


@elu("exact", "right of 0 it is x itself, and its gradient is dy", hint="Which side is the exponential on?")
def right(op: Subject, x: np.ndarray, alpha: float) -> None:
    x = np.abs(x)
    close(op(x, alpha), x, 0, "y")
    if op.has_backward:
        close(op.gradients({"x": x, "alpha": alpha}, x)["x"], x, 0, "dx")


@elu("rounding", "left of 0 the gradient is dy (y + α)", "gradients", hint="Differentiate α exp(x).")
def left(op: Subject, x: np.ndarray, alpha: float) -> None:
    case, dy = {"x": -np.abs(x), "alpha": alpha}, waves(x)
    close(op.gradients(case, dy)["x"], dy * (op(**case) + x.dtype.type(alpha)), 2 * tolerance(op.spec, case), "dx")


@elu("rounding", "near 0 on the left it is α x to the last digits; at 0 it is 0, with the gradient α", "extremes",
        hint="For small x, exp(x) - 1 has few digits left: use expm1.")
def near_zero(op: Subject, x: np.ndarray, alpha: float) -> None:
    small = np.array([-(2.0**-40), -(2.0**-60), -0.0], x.dtype)
    atol = np.abs(small) * (rounding(x.dtype, 1, 1) + 2.0**-39) * alpha
    close_or_note(op(small, alpha), alpha * small.astype(float), atol, rounding(x.dtype, 1, alpha), "y")
    if op.has_backward:
        zero = np.zeros_like(x)
        close(op.gradients({"x": zero, "alpha": alpha}, zero + 1)["x"], zero + alpha, 0, "dx at 0")


@elu("rounding", "far out it is x on the right and -α on the left, with gradients 1 and 0", "extremes",
        hint="exp of a large x overflows, even where its result is not used.")
def elu_far_out(op: Subject, x: np.ndarray, alpha: float) -> None:
    far = np.array([30.0, 2.0**100, -1e4, -(2.0**100)], x.dtype)
    close(op(far, alpha), [*far[:2], -alpha, -alpha], 0, "y")
    if op.has_backward:
        close(op.gradients(op.fit({"x": far, "alpha": alpha}), np.ones_like(far))["x"], [1, 1, 0, 0], 0, "dx")


ELU = elu.spec(
    "y = x where x > 0, and α (exp(x) - 1) elsewhere",
    "elu(x, alpha=1.0): x (...), of any finite size; small x keep their digits",
    case=elu_case, wrt=("x",), scale=lambda case: largest(case["x"]) + case["alpha"],
)


root_elu = SpecBuilder("root_elu")
elementwise(root_elu)


@root_elu("rounding", "its square is ELU(x) + 1", hint="Which root, of which side?")
def squared(op: Subject, x: np.ndarray) -> None:
    close(op(x) ** 2, oracles.elu(x.astype(float)) + 1, 2 * tolerance(op.spec, {"x": x}), "y²")


@root_elu("rounding", "at x > 0 the gradient is 1 / (2 √(1 + x)), at -x it is exp(-x / 2) / 2, and at 0 a half",
        "gradients", hint="Is it a function of the result: y / 2, or 1 / (2 y)?")  # fmt: skip
def root_elu_slopes(op: Subject, x: np.ndarray) -> None:
    x, dy = np.abs(x), waves(x)
    wide, limit = x.astype(float), tolerance(op.spec, {"x": x})
    for given, slope in ((x, 0.5 / np.sqrt(1 + wide)), (-x, 0.5 * np.exp(-wide / 2)), (0 * x, 0.5)):
        close(op.gradients({"x": given}, dy)["x"], dy * slope, limit, "dx")


@root_elu("rounding", "at -20, where ELU(x) + 1 is 0 in float32, y and its gradient keep their digits", "extremes",
        hint="exp(x) - 1 + 1 has lost exp(x), and √ has no slope at 0: exp(x / 2) is the root.")  # fmt: skip
def far_left(op: Subject, x: np.ndarray) -> None:
    far = np.array([-20.0, -60.0], x.dtype)
    expected = np.exp(-np.array([10.0, 30.0]))
    close(op(far), expected, 1e-5 * expected, "y")
    if op.has_backward:
        close(op.gradients(op.fit({"x": far}), np.ones_like(far))["x"], expected / 2, 1e-5 * expected, "dx")


@root_elu("rounding", "at ±2¹⁰⁰ it is 2⁵⁰ and 0, and its gradient is finite", "extremes",
        hint="exp of a large x overflows, even where it is not used; and 1 / y is infinite at y = 0.")  # fmt: skip
def root_elu_far_out(op: Subject, x: np.ndarray) -> None:
    far = np.array([2.0**100, -(2.0**100)], x.dtype)
    close(op(far), [2.0**50, 0], 2.0**28, "y")
    if op.has_backward:
        dx = op.gradients(op.fit({"x": far}), np.ones_like(far))["x"]
        close(dx, [2.0**-51, 0], 2.0**-73, "dx")


ROOT_ELU = root_elu.spec(
    "y = √(ELU(x) + 1): exp(x / 2) where x < 0, and √(1 + x) elsewhere",
    "root_elu(x): x (...), of any finite size; far left of 0 value and gradient keep their digits",
    case=lambda draw: {"x": draw.array(*draw.lead, draw.size(), size=draw.choose((1.0, 4.0)))}, wrt=("x",),
)
