"""Long short-term memory, with and without forget gate."""

from typing import Any

import numpy as np

from ..families import causal
from ..property import close, rounding, same_bits
from ..spec import Form
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("lstm")
causal(states, "x", hint="Which state goes into which step?")


def case(draw: CaseDrawer) -> dict[str, Any]:
    n, i, H = draw.tokens(), draw.size(), draw.size(high=4)
    columns = draw.choose((4, 3)) * H
    x, W, U = draw.array(*draw.lead, n, i), draw.array(i, columns, size=0.5), draw.array(H, columns, size=0.5)
    h0, c0 = (draw.array(*draw.lead, H) if draw.flag() else None for _ in range(2))
    return {"x": x, "W": W, "U": U, "b": draw.array(columns), "h0": h0, "c0": c0}


def forgets(case: dict[str, Any]) -> bool:
    return case["U"].shape[1] == 4 * len(case["U"])


@states("exact", "with its input gate closed and nothing forgotten, a cell keeps its number to the last bit", "extremes",
        hint="Which term is added to the cell where i is 0, and which factor multiplies it?")
def kept(op: Subject, **case: Any) -> None:
    H, b = len(case["U"]), case["b"].copy()
    b[:H] = -1e4
    if forgets(case):
        b[H : 2 * H] = 1e4
    b[-2 * H : -H] = 1e4                                        # the output gate is open: h = tanh(c)
    c0 = np.zeros((*case["x"].shape[:-2], H), b.dtype) if case["c0"] is None else case["c0"]
    h = op(**case | {"b": b, "c0": c0})
    # a GPU rounds tanh differently: the same bits at all times, but tanh(c0) only up to rounding
    close(h[..., :1, :], np.tanh(c0)[..., None, :], rounding(b.dtype, 1, 1.0), "the state")
    same_bits(h, np.broadcast_to(h[..., :1, :], h.shape).copy(), "the state")


@states("rounding", "an open forget gate equals no forget gate", "extremes", hint="How is the cell updated?")
def open_gate(op: Subject, **case: Any) -> None:
    if not forgets(case):
        return
    H, b = len(case["U"]), case["b"].copy()
    b[H : 2 * H] = 1e4
    without = {name: np.concatenate([x[..., :H], x[..., 2 * H :]], axis=-1)
               for name, x in (("W", case["W"]), ("U", case["U"]), ("b", b))}  # fmt: skip
    atol = rounding(b.dtype, 10 * case["x"].size, SPEC.scale(case))
    close(op(**case | {"b": b}), op(**case | without), atol, "the state")


SPEC = states.spec(
    "h = o ⊙ tanh(c), c = f ⊙ c' + i ⊙ g, with i, f, o = σ(x W + h' U + b), g = tanh(x W + h' U + b), columns of each",
    "lstm(x, W, U, b, h0=None, c0=None) -> h first: x (..., n, i), W (i, 4 H), U (H, 4 H), b (4 H,), h0 and c0 "
    "(..., H) or None for zeros, h (..., n, H)",
    "W, U and b hold the columns of i, f, o and g side by side; with 3 H columns, of i, o and g: nothing is forgotten",
    case=case,
    outputs=("h",),
    wrt=("x", "W", "U", "b", "h0", "c0"),
    forms=(
        Form("3 H columns, without a forget gate", lambda case: not forgets(case), ours=True, fatal=True),
        Form("h0 without c0", lambda case: case.get("h0") is not None and case.get("c0") is None, ours=True),
        Form("c0 without h0", lambda case: case.get("c0") is not None and case.get("h0") is None, ours=True),
    ),
    choices=("lstm gates",),
)
