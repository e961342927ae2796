"""Multi-head self-attention whose projections have biases."""

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


@states("rounding", "with biases of 0 it is multi-head attention without biases", hint="Is anything else added?")
def no_biases(op: Subject, **case: Any) -> None:
    case |= {name: np.zeros_like(case[name]) for name in BIASES}
    bare = widened({name: value for name, value in case.items() if name not in BIASES})
    close(op(**case), oracles.multi_head_attention(**bare), tolerance(SPEC, case), "y")


@states("rounding", "a bias of the keys changes nothing: softmax ignores a constant added to a row of scores",
        hint="b_k adds q · b_k to each score of q's row. Which rows does yours add it to?")
def dead_key_bias(op: Subject, **case: Any) -> None:
    close(op(**case | {"b_k": 0 * case["b_k"]}), op(**case), tolerance(SPEC, case), "y")


@states("rounding", "the gradient of b_k is 0, and that of b_o is the sum of dy over all tokens", "gradients",
        hint="By how much does y change if b_o does, and if b_k does?")
def bias_gradients(op: Subject, **case: Any) -> None:
    dy = np.cos(np.arange(case["x"].size)).reshape(case["x"].shape).astype(case["x"].dtype)
    gradients = op.gradients(case, dy)
    atol = 10 * tolerance(SPEC, case) * largest(gradients["W_k"], gradients["b_q"])
    close(gradients["b_k"], 0 * case["b_k"], atol, "db_k")
    close(gradients["b_o"], np.sum(dy.reshape(-1, dy.shape[-1]).astype(float), axis=0), atol, "db_o")


@states("rounding", "b_v adds b_v W_o to every query that may look at something; b_o is added to every query",
        hint="The weights of a query sum to 1: how much of b_v remains in its average, and where is b_o added?")
def value_bias(op: Subject, **case: Any) -> None:
    bare = op(**case | {"b_v": 0 * case["b_v"], "b_o": 0 * case["b_o"]})
    mask = np.broadcast_to(True if case["mask"] is None else case["mask"], (case["x"].shape[-2],) * 2)
    looks = np.any(mask, axis=-1)[:, None]
    added = looks * (case["b_v"].astype(float) @ case["W_o"]) + case["b_o"]
    close(op(**case), bare + added, 2 * tolerance(SPEC, case), "y")


def scale(case: dict[str, Any]) -> float:
    """A bias is one more row of W, for one more entry of x, which is 1."""
    biases = largest(*(case[name] for name in BIASES))
    W = {n: np.append(case[n], np.full_like(case[n][:1], biases), axis=0) for n in ("W_q", "W_k", "W_v", "W_o")}
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
