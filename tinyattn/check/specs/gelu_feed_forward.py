"""The position-wise feed-forward network with a GELU."""

from typing import Any

import numpy as np

from ..common import tolerance
from ..families import linear_in, tokens_apart
from ..property import close, largest
from . import feed_forward
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("gelu_feed_forward")
tokens_apart(states)
linear_in(states, "W_2", of=lambda case: case | {"b_2": 0 * case["b_2"]}, hint="Where is the GELU applied?")


def case(draw: CaseDrawer) -> dict[str, Any]:
    drawn = feed_forward.case(draw)
    return {**drawn, "b_1": draw.array(len(drawn["b_1"])), "approximate": draw.flag()}


@states("rounding", "where every hidden unit is far on, y is x W_1 W_2 + b_1 W_2 + b_2; where all are far off, y is b_2",
        hint="Where are b_1 and b_2 added, and is there another activation?")
def all_on_and_all_off(op: Subject, **case: Any) -> None:
    x, W_1, W_2, b_2 = (case[name].astype(float) for name in ("x", "W_1", "W_2", "b_2"))
    b_1 = np.full_like(case["b_1"], largest(x @ W_1) + 30)
    atol = tolerance(SPEC, case | {"b_1": b_1})
    close(op(**case | {"b_1": b_1}), (x @ W_1 + b_1) @ W_2 + b_2, atol, "with all units on, y")
    close(op(**case | {"b_1": -b_1}), np.broadcast_to(b_2, x.shape), atol, "with all units off, y")


@states("rounding", "without b_1, the results for x and -x differ by x W_1 W_2", hint="GELU(u) - GELU(-u) is u.")
def odd_part(op: Subject, **case: Any) -> None:
    case |= {"b_1": 0 * case["b_1"]}
    x, W_1, W_2 = (case[name].astype(float) for name in ("x", "W_1", "W_2"))
    close(op(**case) - op(**case | {"x": -case["x"]}), x @ W_1 @ W_2, 2 * tolerance(SPEC, case), "the difference")


SPEC = states.spec(
    "y = gelu(x W_1 + b_1) W_2 + b_2, gelu(u) = u Φ(u), or its tanh form if approximate",
    "gelu_feed_forward(x, W_1, b_1, W_2, b_2, approximate=False): x (..., D), W_1 (D, H), b_1 (H,), W_2 (H, D), b_2 (D,); "
    "Φ to the last digits, and with approximate=True ½ u (1 + tanh(√(2/π) (u + 0.044715 u³)))",
    case=case,
    wrt=("x", "W_1", "b_1", "W_2", "b_2"),
    scale=feed_forward.scale,
)
