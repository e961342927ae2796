"""The position-wise feed-forward network with gated hidden units."""

from typing import Any

import numpy as np

from ..families import linear_in, tokens_apart
from ..property import close, largest, rounding
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("swiglu")
tokens_apart(states)
linear_in(states, "V", hint="The SiLU is of x W_1 alone: x V is a factor, with nothing added to it.")


def case(draw: CaseDrawer) -> dict[str, Any]:
    D = draw.size()
    H = draw.size_like(D)
    x = draw.array(*draw.lead, D) if draw.choose((False, False, True)) else draw.array(*draw.lead, draw.size_like(D), D)
    return {"x": x, "W_1": draw.array(D, H), "V": draw.array(D, H), "W_2": draw.array(H, D)}


@states("rounding", "y of W_1 minus y of -W_1 is ((x W_1) ⊙ (x V)) W_2, since silu(a) - silu(-a) is a",
        hint="Which of the two products goes through the SiLU, and is it a σ(a)?")
def odd_part(op: Subject, **case: Any) -> None:
    got = np.asarray(op(**case), float) - op(**case | {"W_1": -case["W_1"]})
    close(got, _products(case), 2 * _tolerance(case), "the difference")


@states("rounding", "far out the gate is x W_1 on the right and 0 on the left, in y and in dW_2", "extremes",
        hint="exp(-a) of a large negative a overflows: use the side on which exp is below 1.")
def far_out(op: Subject, **case: Any) -> None:
    case |= {"x": np.ones_like(case["x"])}
    for sign in (1, -1):
        W_1 = np.full_like(case["W_1"], sign * 2.0**14)
        far = case | {"W_1": W_1}
        open_gate = (sign > 0) * _products(far)
        close(op(**far), open_gate, _tolerance(far), "y")
        if "swiglu_backward" not in op.lacks:
            h = (sign > 0) * (far["x"] @ W_1) * (far["x"] @ far["V"])
            dW_2 = op.gradients(op.fit(far), np.ones_like(case["x"]))["W_2"]
            expected = np.broadcast_to(np.sum(h.reshape(-1, h.shape[-1]), axis=0)[:, None], dW_2.shape)
            close(dW_2, expected, 10 * _tolerance(far), "dW_2")


def _products(case: dict[str, Any]) -> Any:
    x, W_1, V, W_2 = (case[name].astype(float) for name in ("x", "W_1", "V", "W_2"))
    return ((x @ W_1) * (x @ V)) @ W_2


def scale(case: dict[str, Any]) -> float:
    D, H = case["W_1"].shape
    return (largest(case["x"]) * D) ** 2 * largest(case["W_1"]) * largest(case["V"]) * largest(case["W_2"]) * H


def _tolerance(case: dict[str, Any]) -> float:
    return rounding(case["x"].dtype, case["x"].size, scale(case))


SPEC = states.spec(
    "y = (silu(x W_1) ⊙ (x V)) W_2, without biases",
    "swiglu(x, W_1, V, W_2): x (..., D), W_1 and V (D, H), W_2 (H, D); W_1 is the gate's",
    case=case,
    wrt=("x", "W_1", "V", "W_2"),
    scale=scale,
    choices=("swiglu",),
)
