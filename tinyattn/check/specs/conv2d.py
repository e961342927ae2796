"""Convolution of grids."""

from typing import Any

import numpy as np

from .. import oracles
from ..common import tolerance
from ..families import linear_in
from ..property import close
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("conv2d")
linear_in(states, "x", hint="Is anything added?")
linear_in(states, "W")


def case(draw: CaseDrawer) -> dict[str, Any]:
    K, L, dilation, h, w, i, o = (draw.choose(range(1, most + 1)) for most in (3, 3, 2, 4, 4, 3, 3))
    padding = draw.choose(("same", "valid"))
    h, w = (n + ((k - 1) * dilation if padding == "valid" else 0) for n, k in ((h, K), (w, L)))
    x, W = draw.array(*draw.lead, h, w, i), draw.array(K, L, i, o)
    return {"x": x, "W": W, "dilation": dilation, "padding": padding}


@states("rounding", "shifting the grid shifts the outputs, away from the edges", hint="Do all tokens share a kernel?")
def shift(op: Subject, **case: Any) -> None:
    x = np.pad(case["x"], [(0, 0)] * (case["x"].ndim - 3) + [(6, 6), (6, 6), (0, 0)])
    y, moved = op(**case | {"x": x}), op(**case | {"x": np.roll(x, (2, 1), axis=(-3, -2))})
    close(np.roll(y, (2, 1), axis=(-3, -2)), moved, tolerance(SPEC, case), "y of a grid that was moved")


@states("rounding", "a kernel of one row is conv1d of each row, and one of one column conv1d of each column",
        hint="Which axis of the kernel goes along which axis of the grid?")
def rows_and_columns(op: Subject, **case: Any) -> None:
    x, W = case["x"], case["W"][:, :1]
    across = op(**case | {"W": W.swapaxes(0, 1).copy(), "x": x.swapaxes(-3, -2).copy()})
    down = op(**case | {"W": W}).swapaxes(-3, -2)
    close(down, across, tolerance(SPEC, case), "y of the transposed grid and kernel")
    expected = oracles.conv1d(x.swapaxes(-3, -2).astype(float), W[:, 0], case["dilation"], case["padding"])
    close(across, expected, tolerance(SPEC, case), "y by columns")


SPEC = states.spec(
    "y_st = Σ_jl x_{s + j δ - p, t + l δ - r} W_jl, δ = dilation, p and r = 0 or (K - 1) δ // 2 and (L - 1) δ // 2: "
    "padding valid or same",
    "conv2d(x, W, dilation=1, padding='same') -> y: x (..., h, w, i), W (K, L, i, o), y (..., h, w, o), "
    "with 'valid' (..., h - (K - 1) dilation, w - (L - 1) dilation, o); beyond the edges x is 0",
    case=case,
    wrt=("x", "W"),
)
