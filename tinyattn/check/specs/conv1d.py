"""Convolution of sequences."""

from typing import Any

import numpy as np

from ..common import tolerance
from ..families import batch_apart, causal, linear_in
from ..property import close, demand
from ..spec import Form
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("conv1d")
linear_in(states, "x", hint="Is anything added?")
linear_in(states, "W")
batch_apart(states)
causal(states, "x", of=lambda case: case | {"padding": "causal"}, hint="On which side do the zeros go?")


def case(draw: CaseDrawer) -> dict[str, Any]:
    K, dilation, i = (draw.choose(range(1, most + 1)) for most in (4, 3, 4))
    padding = draw.choose(("same", "causal", "valid"))
    n = draw.tokens() + ((K - 1) * dilation if padding == "valid" else 0)
    x, W = draw.array(*draw.lead, n, i), draw.array(K, i, draw.size_like(i))
    return {"x": x, "W": W, "dilation": dilation, "padding": padding}


@states("rounding", "shifting tokens shifts outputs, away from the ends", hint="Do all tokens share one kernel?")
def shift(op: Subject, **case: Any) -> None:
    pad = np.zeros((*case["x"].shape[:-2], 12, case["x"].shape[-1]), case["x"].dtype)
    x = np.concatenate([pad, case["x"], pad], axis=-2)
    y, moved = op(**case | {"x": x}), op(**case | {"x": np.roll(x, 2, axis=-2)})
    close(np.roll(y, 2, axis=-2), moved, tolerance(SPEC, case), "y of a sequence two tokens later")


@states("exact", "a token reaches the outputs under the kernel, dilation apart, and no others", gravity="leak",
        hint="How far apart are two neighbours in the kernel, and where does it begin?")
def reach(op: Subject, **case: Any) -> None:
    K, gaps = len(case["W"]), (len(case["W"]) - 1) * case["dilation"]
    before = {"valid": 0, "same": gaps // 2, "causal": gaps}[case["padding"]]
    W = np.ones_like(case["W"])
    for s in range(case["x"].shape[-2]):
        x = np.zeros_like(case["x"])
        x[..., s, :] = 1
        y = op(**case | {"x": x, "W": W})
        expected = {s - j * case["dilation"] + before for j in range(K)} & set(range(y.shape[-2]))
        reached = set(np.nonzero(y)[-2].tolist())
        demand(reached == (expected if x.any() else set()), f"token {s} reaches outputs {reached}, expected {expected}")


SPEC = states.spec(
    "y_t = Σ_j x_{t + j δ - p} W_j, δ = dilation, p = 0, (K - 1) δ // 2 or (K - 1) δ: padding valid, same or causal",
    "conv1d(x, W, dilation=1, padding='same') -> y: x (..., n, i), W (K, i, o), y (..., n, o), "
    "with 'valid' (..., n - (K - 1) dilation, o); beyond both ends x is 0",
    case=case,
    wrt=("x", "W"),
    forms=(Form("padding='causal'", lambda case: case["padding"] == "causal"),),
)
