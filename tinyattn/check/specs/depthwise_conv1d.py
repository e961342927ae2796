"""Convolution of each channel alone."""

from typing import Any

import numpy as np

from ..common import tolerance
from ..families import batch_apart, linear_in
from ..property import close
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("depthwise_conv1d")
linear_in(states, "x", hint="Is anything added?")
linear_in(states, "W")
batch_apart(states)


def case(draw: CaseDrawer) -> dict[str, Any]:
    K, d = draw.choose(range(1, 5)), draw.size()
    return {"x": draw.array(*draw.lead, draw.tokens() + K - 1, d), "W": draw.array(K, d)}


@states("rounding", "a channel alone has the same outputs as among others", gravity="leak",
        hint="Is the product with the kernel entry by entry?")
def channels_apart(op: Subject, **case: Any) -> None:
    y = op(**case)
    for c in range(case["W"].shape[1]):
        alone = op(case["x"][..., c : c + 1].copy(), case["W"][:, c : c + 1].copy())
        close(alone, y[..., c : c + 1], tolerance(SPEC, case), f"channel {c} of y")


@states("exact", "a kernel with a single 1 shifts the tokens", hint="Is the kernel flipped?")
def one_place(op: Subject, **case: Any) -> None:
    x, K = case["x"], len(case["W"])
    for j in range(K):
        W = np.zeros_like(case["W"])
        W[j] = 1
        close(op(x, W), x[..., j : x.shape[-2] - K + 1 + j, :], 0, f"with a 1 at place {j}, y")


SPEC = states.spec(
    "y_t = Σ_j x_{t + j} ⊙ W_j",
    "depthwise_conv1d(x, W) -> y: x (..., n, d), W (K, d), y (..., n - K + 1, d)",
    case=case,
    wrt=("x", "W"),
)
