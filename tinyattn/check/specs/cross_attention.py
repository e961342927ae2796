"""Multi-head attention from tokens x to the tokens of a memory."""

from typing import Any

import numpy as np

from .. import oracles
from ..common import tolerance, widened
from ..families import linear_in
from ..property import close, demand, same_bits
from . import multi_head_attention
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("cross_attention")
linear_in(states, "W_o", hint="Is the output projected, and last?")


def case(draw: CaseDrawer) -> dict[str, Any]:
    drawn = multi_head_attention.case(draw)
    n, m = drawn["x"].shape[-2], draw.size_like(drawn["x"].shape[-2])
    mask = draw.mask(*draw.choose(((n, m), (1, m), (n, 1), (m,)))) if draw.flag() else None
    W = {name: drawn[name] for name in ("W_q", "W_k", "W_v", "W_o")}
    memory = draw.array(*draw.lead, m, drawn["x"].shape[-1])
    return {"x": drawn["x"], "memory": memory, **W, "heads": drawn["heads"], "mask": mask}


@states("rounding", "with memory = x it is self-attention", hint="Which of x and memory do keys and values come from?")
def of_itself(op: Subject, **case: Any) -> None:
    case |= {"memory": case["x"], "mask": None}
    within_x = widened({name: value for name, value in case.items() if name != "memory"})
    close(op(**case), oracles.multi_head_attention(**within_x), tolerance(SPEC, case), "y")


@states("rounding", "permuting the memory changes nothing, permuting the queries permutes the outputs",
        hint="Which axis of the scores are the keys, and over which does softmax run?")
def orders(op: Subject, **case: Any) -> None:
    case |= {"mask": None}
    y = op(**case)
    for name, what, expected in (("memory", "memory", y), ("x", "queries", y[..., ::-1, :])):
        turned = op(**case | {name: case[name][..., ::-1, :].copy()})
        close(turned, expected, tolerance(SPEC, case), f"with the {what} in another order, y")


@states("exact", "a query moves no other query's output, and a masked token of the memory moves none, by a single bit",
        hint="mask[i, j] = may query i look at token j of the memory?")
def who_moves_whom(op: Subject, **case: Any) -> None:
    m = case["memory"].shape[-2]
    case |= {"mask": np.arange(m) != m - 1}
    y, x, memory = op(**case), case["x"].copy(), case["memory"].copy()
    x[..., -1, :] += 3
    same_bits(op(**case | {"x": x})[..., :-1, :], y[..., :-1, :], "with the last query changed, the output of an earlier one")
    memory[..., -1, :] = 100
    same_bits(op(**case | {"memory": memory}), y, "with a masked token changed, y")


@states("exact", "a query that may look at nothing gets zeros", "extremes", hint="Compute softmax of a row without entries.")
def nothing_to_look_at(op: Subject, **case: Any) -> None:
    mask = np.ones((case["x"].shape[-2], case["memory"].shape[-2]), bool)
    mask[0] = False
    demand(not np.any(op(**case | {"mask": mask})[..., 0, :]), "the output of a query that may look at nothing is not 0")


SPEC = states.spec(
    "y = concat_h(attention(x W_q,h, memory W_k,h, memory W_v,h)) W_o",
    "cross_attention(x, memory, W_q, W_k, W_v, W_o, heads, mask=None) -> y: x (..., n, D), memory (..., m, D), all W "
    "(D, D); head i owns columns i D/h .. (i + 1) D/h of W_q, W_k, W_v, and those rows of W_o",
    "the mask is boolean, True = may look, and broadcasts to (n, m); a query that may look at nothing gets zeros",
    case=case,
    wrt=("x", "memory", "W_q", "W_k", "W_v", "W_o"),
    scale=lambda case: multi_head_attention.scale(case | {"x": np.concatenate([case["x"], case["memory"]], axis=-2)}),
)
