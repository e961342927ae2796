"""Activations: functions of each entry alone."""

from typing import Any

import numpy as np

from .. import oracles
from ..families import elementwise
from ..property import close, close_or_note, demand, largest, rounding, waves
from .builder import Call, CaseDrawer, SpecBuilder, Subject


def _slopes(op: Subject, c: Call) -> np.ndarray:
    return op.gradients(op.fit(c), np.ones_like(c.x))["x"]


relu = SpecBuilder("relu")
elementwise(relu)


def relu_case(draw: CaseDrawer) -> dict[str, Any]:
    """Away from the kink at 0, up to 10 on either side."""
    shape = (*draw.lead, draw.size())
    x = draw.rng.uniform(0.01, draw.choose((2.0, 10.0)), shape) * draw.rng.choice([-1, 1], shape)
    return {"x": np.asarray(x, draw.dtype)}


relu.law("two_halves", "exact", "relu(x) - relu(-x) is x, and relu is never negative", lambda op, c: [
            (np.all((y := op(c.x)) >= 0), "an output is negative"), (y - op(-c.x), c.x, 0, "relu(x) - relu(-x)")
        ], hint="One of x and -x passes unchanged.")
relu.law("gate", "exact", "the gradient is dy where x > 0 and 0 elsewhere",
        lambda op, c: (op.gradients(c, waves(c.x))["x"], np.where(c.x > 0, waves(c.x), 0)), "gradients", what="dx",
        hint="Does the sign of dy matter?")
relu.law("at_zero", "exact", "at 0 the value is 0, and the gradient is taken as 0",
        lambda op, c: (np.all(op(c.x) == 0), "relu(0) is not 0"), "extremes",
        of=lambda c: c(x=np.zeros_like(c.x)),
        derived=lambda op, c: (np.all(_slopes(op, c) == 0), "the gradient at 0 is not 0"),
        hint="x > 0 or x >= 0?")
relu.law("large", "exact", "numbers as large as 2¹⁰⁰ pass unchanged",
        lambda op, c: (op(c.x * 2.0**100), np.maximum(c.x * 2.0**100, 0)), "extremes", hint="Is anything clipped?")

RELU = relu.spec(
    "y = max(x, 0)",
    "relu(x): x (...)",
    "at the kink x = 0 the gradient is 0",
    case=relu_case, wrt=("x",), special_cases=lambda: [{"x": np.array([-20.0, -7.5, -0.25, 0.0, 0.5, 6.5, 100.0])}],
    choices=("kink",),
)


gelu = SpecBuilder("gelu")
elementwise(gelu)
gelu.law("odd_part", "rounding", "gelu(x) - gelu(-x) is x, since Φ(x) + Φ(-x) = 1",
        lambda op, c: (op(**c) - op(**c(x=-c.x)), c.x, rounding(c.x.dtype, 1, 2 * largest(c.x)), "gelu(x) - gelu(-x)"),
        hint="Is Φ(0) one half?")


@gelu("approximate", "the two forms differ by less than 5e-4, and by more than 1e-4 somewhere near 2",
        hint="Which of the two does your code compute, and which does `approximate` select?")
def two_forms(op: Subject, x: np.ndarray, approximate: bool) -> None:
    close(op(x, True), op(x, False), 5e-4, "the tanh form")
    near = np.array([2.0, -2.0, 2.7], x.dtype)
    demand(np.max(np.abs(op(near, True) - op(near, False))) > 1e-4, "the two forms are the same")


gelu.law("far_out", "rounding", "far out it is x on the right and 0 on the left, with gradients 1 and 0",
        lambda op, c: (op(**c), np.maximum(c.x, 0), rounding(c.x.dtype, 1, 1) * np.abs(c.x)), "extremes",
        of=lambda c: c(x=np.array([30.0, 2.0**100, -30.0, -(2.0**100)], c.x.dtype)),
        # further out the textbook's x³ overflows
        derived=lambda op, c: (
            _slopes(op, c(x=np.clip(c.x, -1e4, 1e4))), [1, 1, 0, 0], rounding(c.x.dtype, 1, 10.0), "dx",
        ), hint="Φ is 0 far to the left and 1 far to the right. And x Φ(x)?")

GELU = gelu.spec(
    "y = x Φ(x), with Φ the normal distribution function; approximate=True: ½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))",
    "gelu(x, approximate=False): x (...); Φ to the last digits, not to seven",
    "x of any finite size; the gradient up to ±10,000",
    case=lambda draw: {
        "x": draw.array(*draw.lead, draw.size(), size=draw.choose((1.0, 3.0))), "approximate": draw.flag()
    },
    wrt=("x",), scale=lambda case: largest(case["x"]),
)


silu = SpecBuilder("silu")
elementwise(silu)
silu.law("odd_part", "rounding", "silu(x) - silu(-x) is x, since σ(x) + σ(-x) = 1",
        lambda op, c: (op(c.x) - op(-c.x), c.x), times=2, what="silu(x) - silu(-x)", hint="Is σ(0) one half?")
silu.law("slopes", "rounding", "the slopes at x and -x sum to 1",
        lambda op, c: (sum(op.gradients({"x": x}, np.ones_like(x))["x"] for x in (c.x, -c.x)), np.ones_like(c.x)),
        "gradients", times=20, what="the sum of slopes", hint="The product rule: σ(x) + x σ(x) (1 - σ(x)).")
silu.law("far_out", "rounding", "far out it is x on the right and 0 on the left, with gradients 1 and 0",
        lambda op, c: (op(c.x), np.maximum(c.x, 0), rounding(c.x.dtype, 1, 1)), "extremes",
        of=lambda c: c(x=np.array([120.0, 2.0**100, -120.0, -(2.0**100)], c.x.dtype)),
        derived=lambda op, c: (_slopes(op, c), [1, 1, 0, 0], rounding(c.x.dtype, 1, 1), "dx"),
        hint="exp(-x) of a large negative x overflows: use the side on which exp is below 1.")

SILU = silu.spec(
    "y = x σ(x), with σ(x) = 1 / (1 + exp(-x))",
    "silu(x): x (...), of any finite size",
    case=lambda draw: {"x": draw.array(*draw.lead, draw.size(), size=draw.choose((1.0, 3.0)))}, wrt=("x",),
    scale=lambda case: largest(case["x"]),
)


elu = SpecBuilder("elu")
elementwise(elu)
elu.law("right", "exact", "right of 0 it is x itself, and its gradient is dy", lambda op, c: (op(**c), c.x),
        of=lambda c: c(x=np.abs(c.x)), derived=lambda op, c: (op.gradients(c, c.x)["x"], c.x, 0, "dx"),
        hint="Which side is the exponential on?")
elu.law("left", "rounding", "left of 0 the gradient is dy (y + α)",
        lambda op, c: (op.gradients(c, waves(c.x))["x"], waves(c.x) * (op(**c) + c.alpha)), "gradients",
        of=lambda c: c(x=-np.abs(c.x)), times=2, what="dx", hint="Differentiate α exp(x).")


@elu("rounding", "near 0 on the left it is α x to the last digits; at 0 it is 0, with the gradient α", "extremes",
        hint="For small x, exp(x) - 1 has few digits left: use expm1.")
def near_zero(op: Subject, x: np.ndarray, alpha: float) -> None:
    small = np.array([-(2.0**-40), -(2.0**-60), -0.0], x.dtype)
    atol = np.abs(small) * (rounding(x.dtype, 1, 1) + 2.0**-39) * alpha
    close_or_note(op(small, alpha), alpha * small.astype(float), atol, rounding(x.dtype, 1, alpha), "y")
    if op.has_backward:
        zero = np.zeros_like(x)
        close(op.gradients({"x": zero, "alpha": alpha}, zero + 1)["x"], zero + alpha, 0, "dx at 0")


elu.law("far_out", "rounding", "far out it is x on the right and -α on the left, with gradients 1 and 0",
        lambda op, c: (op(**c), [*c.x[:2], -c.alpha, -c.alpha], 0), "extremes",
        of=lambda c: c(x=np.array([30.0, 2.0**100, -1e4, -(2.0**100)], c.x.dtype)),
        derived=lambda op, c: (_slopes(op, c), [1, 1, 0, 0], 0, "dx"),
        hint="exp of a large x overflows, even where its result is not used.")

ELU = elu.spec(
    "y = x where x > 0, and α (exp(x) - 1) elsewhere",
    "elu(x, alpha=1.0): x (...), of any finite size; small x keep their digits",
    case=lambda draw: relu_case(draw) | {"alpha": draw.choose((1.0, 0.5, 2.0))},     # x away from the kink at 0
    wrt=("x",), scale=lambda case: largest(case["x"]) + case["alpha"],
)


root_elu = SpecBuilder("root_elu")
elementwise(root_elu)
root_elu.law("squared", "rounding", "its square is ELU(x) + 1",
        lambda op, c: (op(c.x) ** 2, oracles.elu(c.x.astype(float)) + 1), times=2, what="y²",
        hint="Which root, of which side?")
root_elu.law("slopes", "rounding",
        "at x > 0 the gradient is 1 / (2 √(1 + x)), at -x it is exp(-x / 2) / 2, and at 0 a half", lambda op, c: (
            (op.gradients({"x": x}, waves(x))["x"], waves(x) * slope)
            for wide in [c.x.astype(float)]
            for x, slope in ((c.x, 0.5 / np.sqrt(1 + wide)), (-c.x, 0.5 * np.exp(-wide / 2)), (0 * c.x, 0.5))
        ), "gradients", of=lambda c: c(x=np.abs(c.x)), what="dx",
        hint="Is it a function of the result: y / 2, or 1 / (2 y)?")
root_elu.law("far_left", "rounding", "at -20, where ELU(x) + 1 is 0 in float32, y and its gradient keep their digits",
        lambda op, c: (op(c.x), y := np.exp([-10.0, -30.0]), 1e-5 * y), "extremes",
        of=lambda c: c(x=np.array([-20.0, -60.0], c.x.dtype)),
        derived=lambda op, c: (_slopes(op, c), (y := np.exp([-10.0, -30.0])) / 2, 1e-5 * y, "dx"),
        hint="exp(x) - 1 + 1 has lost exp(x), and √ has no slope at 0: exp(x / 2) is the root.")
root_elu.law("far_out", "rounding", "at ±2¹⁰⁰ it is 2⁵⁰ and 0, and its gradient is finite",
        lambda op, c: (op(c.x), [2.0**50, 0], 2.0**28), "extremes",
        of=lambda c: c(x=np.array([2.0**100, -(2.0**100)], c.x.dtype)),
        derived=lambda op, c: (_slopes(op, c), [2.0**-51, 0], 2.0**-73, "dx"),
        hint="exp of a large x overflows, even where it is not used; and 1 / y is infinite at y = 0.")

ROOT_ELU = root_elu.spec(
    "y = √(ELU(x) + 1): exp(x / 2) where x < 0, and √(1 + x) elsewhere",
    "root_elu(x): x (...), of any finite size; far left of 0 value and gradient keep their digits",
    case=lambda draw: {"x": draw.array(*draw.lead, draw.size(), size=draw.choose((1.0, 4.0)))}, wrt=("x",),
)
