"""The simple recurrent network."""

import math
from typing import Any

import numpy as np

from ..families import causal
from ..property import close, demand, rounding
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("rnn")
causal(states, "x", hint="Which state goes into which step?")


def case(draw: CaseDrawer) -> dict[str, Any]:
    n, i, H = draw.tokens(), draw.size(), draw.size(high=4)
    x, W = draw.array(*draw.lead, n, i), draw.array(i, H, size=0.5)
    U = draw.array(H, H, size=0.5 / math.sqrt(H))               # small, so that rounding errors do not grow with n
    return {"x": x, "W": W, "U": U, "b": draw.array(H), "h0": draw.array(*draw.lead, H) if draw.flag() else None}


@states("rounding", "without U a state depends on its token alone: tanh(x W + b)", hint="What else is read?")
def no_memory(op: Subject, **case: Any) -> None:
    case |= {"U": np.zeros_like(case["U"])}
    expected = np.tanh(case["x"] @ case["W"] + case["b"])
    close(op(**case), expected, rounding(case["x"].dtype, case["x"].size, SPEC.scale(case)), "the state")


def passes_state_on(states: SpecBuilder) -> None:
    @states("rounding", "a sequence can be cut in two, if the state is passed on", hint="Is h0 the state before the first token?")
    def handed_on(op: Subject, **case: Any) -> None:
        h, n = op(**case), case["x"].shape[-2]
        atol = rounding(h.dtype, 10 * case["x"].size, op.spec.scale(case))
        for t in range(1, n):
            rest = op(**case | {"x": case["x"][..., t:, :].copy(), "h0": h[..., t - 1, :].copy()})
            close(rest, h[..., t:, :], atol, f"from token {t} on, the state")


passes_state_on(states)


@states("rounding", "a state lies within -1 and 1", hint="Which function squashes it?")
def bounded(op: Subject, **case: Any) -> None:
    demand(np.all(np.abs(op(**case)) <= 1), "a state has left -1..1")


SPEC = states.spec(
    "h_t = tanh(x_t W + b + h_{t-1} U)",
    "rnn(x, W, U, b, h0=None) -> h: x (..., n, i), W (i, H), U (H, H), b (H,), h0 (..., H) or None for zeros, "
    "h (..., n, H)",
    case=case,
    outputs=("h",),
    wrt=("x", "W", "U", "b", "h0"),
)
