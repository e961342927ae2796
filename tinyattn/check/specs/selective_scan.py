"""Mamba's selective scan."""

from typing import Any

import numpy as np

from .. import oracles
from ..families import causal, linear_in
from ..property import close, largest, rounding
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("selective_scan")
causal(states, "x", "delta", "B", "C", hint="Which state does y_t read?")
for name in ("x", "B", "C"):
    linear_in(states, name, of=lambda case: case | {"h0": None, "D": np.zeros_like(case["D"])})


def case(draw: CaseDrawer) -> dict[str, Any]:
    n, d, N = draw.tokens(), draw.size(), draw.size(high=4)
    x, delta = draw.array(*draw.lead, n, d), np.abs(draw.array(*draw.lead, n, d))
    A, B, C = -np.abs(draw.array(N, d)), draw.array(*draw.lead, n, N), draw.array(*draw.lead, n, N)
    h0 = draw.array(*draw.lead, N, d) if draw.flag() else None
    return {"x": x, "delta": delta, "A": A, "B": B, "C": C, "D": draw.array(d), "h0": h0, "exact": draw.flag()}


@states("rounding", "a token with Δ = 0 reads the state and does not change it", "extremes",
        hint="How large are decay and input at Δ = 0?")
def no_time(op: Subject, **case: Any) -> None:
    if case["h0"] is None:
        return
    y = op(**case | {"delta": np.zeros_like(case["delta"]), "D": np.zeros_like(case["D"])})
    close(y, case["C"] @ case["h0"], rounding(y.dtype, 10 * y.size, SPEC.scale(case)), "y")


@states("rounding", "with equal Δ, B and C for all tokens it is a convolution", "extremes",
        hint="How much of a token remains s tokens later?")
def convolution(op: Subject, **case: Any) -> None:
    same = {name: np.broadcast_to(case[name][..., :1, :], case[name].shape).copy() for name in ("delta", "B", "C")}
    y, n = op(**case | same | {"h0": None}), case["x"].shape[-2]
    x, delta, A, B, C, D = (np.asarray((case | same)[a], float) for a in ("x", "delta", "A", "B", "C", "D"))
    z = delta[..., :1, :] * A                                   # (..., N, d)
    width = delta[..., :1, :] * (oracles.zero_order_hold(z) if case["exact"] else 1)
    kernel = [np.sum(C[..., 0, :, None] * np.exp(s * z) * width * B[..., 0, :, None], axis=-2) for s in range(n)]
    expected = D * x
    for t in range(n):
        for s in range(t + 1):
            expected[..., t, :] += kernel[t - s] * x[..., s, :]
    close(y, expected, rounding(y.dtype, 10 * y.size * n, SPEC.scale(case)), "y")


SPEC = states.spec(
    "y_t = C_t h_t + D ⊙ x_t, h_t = exp(Δ_t A) ⊙ h_{t-1} + B_tᵀ (Δ_t ⊙ x_t); exact: the last term ⊙ φ(Δ_t A), φ(z) = (eᶻ - 1)/z",
    "selective_scan(x, delta, A, B, C, D, h0=None, exact=False) -> y first: x and delta (..., n, d), A (N, d), "
    "B and C (..., n, N), D (d,), h0 (..., N, d) or None for zeros, y (..., n, d)",
    "delta >= 0 and A <= 0; φ(0) = 1",
    case=case,
    wrt=("x", "delta", "A", "B", "C", "D", "h0"),
    scale=lambda case: 10 * largest(*(x for x in case.values() if isinstance(x, np.ndarray))) ** 4,
    choices=("A",),
)
