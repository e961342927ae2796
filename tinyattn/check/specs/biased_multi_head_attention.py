"""Multi-head self-attention whose projections have biases."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import oracles
from ..common import tolerance, widened
from ..families import batch_apart, causal
from ..property import close, largest
from . import multi_head_attention
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("biased_multi_head_attention")
BIASES = ("b_q", "b_k", "b_v", "b_o")
batch_apart(states)
causal(states, "x", of=lambda case: case | {"mask": np.tri(case["x"].shape[-2], dtype=bool)})


def case(draw: CaseDrawer) -> dict[str, Any]:
    drawn = multi_head_attention.case(draw)
    heads, mask = drawn.pop("heads"), drawn.pop("mask")
    return {**drawn, **{name: draw.array(drawn["x"].shape[-1]) for name in BIASES}, "heads": heads, "mask": mask}


@states("rounding", "with biases of 0 it is attention without them", hint="Is anything else added?")
def no_biases(op: Subject, **case: Any) -> None:
    case |= {name: np.zeros_like(case[name]) for name in BIASES}
    bare = widened({name: value for name, value in case.items() if name not in BIASES})
    close(op(**case), oracles.multi_head_attention(**bare), tolerance(SPEC, case), "y")


@states("rounding", "a bias of the keys changes nothing: softmax forgets what is added to a whole row of scores",
        hint="b_k adds q · b_k to each score of q's row. Which rows does yours add it to?")
def dead_key_bias(op: Subject, **case: Any) -> None:
    close(op(**case | {"b_k": 0 * case["b_k"]}), op(**case), tolerance(SPEC, case), "y")


@states("rounding", "the gradient of the keys' bias is 0, and that of b_o the sum of dy over all tokens", "gradients",
        hint="What does y change by if b_o does, and if b_k does?")
def bias_gradients(op: Subject, **case: Any) -> None:
    dy = np.cos(np.arange(case["x"].size)).reshape(case["x"].shape).astype(case["x"].dtype)
    found = op.gradients(case, dy)
    atol = 10 * tolerance(SPEC, case) * largest(found["W_k"], found["b_q"])
    close(found["b_k"], 0 * case["b_k"], atol, "db_k")
    close(found["b_o"], np.sum(dy.reshape(-1, dy.shape[-1]).astype(float), axis=0), atol, "db_o")


@states("rounding", "a bias of the values reaches every query that may look at something, times W_o; b_o reaches them all",
        hint="The weights of a query sum to 1: what is left of b_v in its average, and where does b_o come in?")
def value_bias(op: Subject, **case: Any) -> None:
    bare = op(**case | {"b_v": 0 * case["b_v"], "b_o": 0 * case["b_o"]})
    n = case["x"].shape[-2]
    mask = np.broadcast_to(True if case["mask"] is None else case["mask"], (n, n))
    looks = np.any(mask, axis=-1)[:, None]
    added = looks * (case["b_v"].astype(float) @ case["W_o"]) + case["b_o"]
    close(op(**case), bare + added, 2 * tolerance(SPEC, case), "y")


def scale(case: dict[str, Any]) -> float:
    """A bias is a row of W that a further entry of x, a 1, is multiplied by."""
    biases = largest(*(case[name] for name in BIASES))
    W = {name: np.concatenate([case[name], biases * np.ones_like(case[name][:1])]) for name in ("W_q", "W_k", "W_v", "W_o")}
    return 4 * multi_head_attention.scale(case | W)


SPEC = states.spec(
    "y = concat_h(attention(x W_q,h + b_q,h, x W_k,h + b_k,h, x W_v,h + b_v,h)) W_o + b_o",
    "biased_multi_head_attention(x, W_q, W_k, W_v, W_o, b_q, b_k, b_v, b_o, heads, mask=None) -> y: x (..., n, D), all W "
    "(D, D), all b (D,); head i owns columns i D/h .. (i + 1) D/h of W_q, W_k, W_v, and those rows of W_o",
    "the mask is boolean, True = may look, and broadcasts to (n, n); a query that may look at nothing gets b_o",
    case=case,
    wrt=("x", "W_q", "W_k", "W_v", "W_o", *BIASES),
    scale=scale,
)
