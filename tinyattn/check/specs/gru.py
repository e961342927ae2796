"""The gated recurrent unit, in the form that PyTorch computes."""

from typing import Any

import numpy as np

from ..families import causal
from ..property import demand, same_bits
from .builder import CaseDrawer, SpecBuilder, Subject
from .rnn import passes_state_on

states = SpecBuilder("gru")
causal(states, "x", hint="Which state goes into which step?")


def case(draw: CaseDrawer) -> dict[str, Any]:
    n, i, H = draw.tokens(), draw.size(), draw.size(high=4)
    x, W, U = draw.array(*draw.lead, n, i), draw.array(i, 3 * H, size=0.5), draw.array(H, 3 * H, size=0.5)
    h0 = draw.array(*draw.lead, H) if draw.flag() else None
    return {"x": x, "W": W, "U": U, "b": draw.array(3 * H), "c": draw.array(3 * H), "h0": h0}


@states("exact", "with an update gate of 1 a state is copied, to the last bit", "extremes",
        hint="(1 - z) n + z h, or n + z (h - n)? Rounded, they differ.")
def copied(op: Subject, **case: Any) -> None:
    H, b, h0 = len(case["U"]), case["b"].copy(), case["h0"]
    b[H : 2 * H] = 1e4
    h0 = np.zeros((*case["x"].shape[:-2], H), b.dtype) if h0 is None else h0
    h = op(**case | {"b": b, "h0": h0})
    same_bits(h, np.broadcast_to(h0[..., None, :], h.shape).copy(), "the state")


passes_state_on(states)


@states("rounding", "a state that begins within -1 and 1 stays there", hint="It is a mean of a state and a tanh.")
def bounded(op: Subject, **case: Any) -> None:
    demand(np.all(np.abs(op(**case | {"h0": None})) <= 1), "a state has left -1..1")


SPEC = states.spec(
    "h = (1 - z) ⊙ n + z ⊙ h', r = σ(x W_r + b_r + h' U_r + c_r), z alike, n = tanh(x W_n + b_n + r ⊙ (h' U_n + c_n))",
    "gru(x, W, U, b, c, h0=None) -> h first: x (..., n, i), W (i, 3 H), U (H, 3 H), b and c (3 H,), h0 (..., H) or "
    "None for zeros, h (..., n, H)",
    "W, U, b and c hold the columns of r, z and n side by side; r acts after the product with U_n",
    case=case,
    outputs=("h",),
    wrt=("x", "W", "U", "b", "c", "h0"),
    choices=("gru",),
)
