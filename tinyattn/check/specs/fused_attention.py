"""Attention without bias and dropout, computed in tiles."""

from typing import Any

import numpy as np

from ... import ops
from ..common import tolerance, upstream, widened
from ..families import averages, causal, onto_itself
from ..property import close, largest, rounding
from ..spec import Form
from . import attention
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("fused_attention")
NAMES = ("q", "k", "v", "mask", "scale")


def case(draw: CaseDrawer) -> dict[str, Any]:
    drawn = attention.case(draw)
    drawn["mask"] = draw.choose((drawn["mask"], drawn["mask"], ops.Mask(causal=True)))
    return {name: drawn[name] for name in NAMES}


def without_bias() -> list[dict[str, Any]]:
    return [{name: case[name] for name in NAMES} for case in attention.special_cases() if case["bias"] is None]


def special_cases() -> list[dict[str, Any]]:
    """The cases of attention without a bias, and one of three tiles of queries."""
    q, k = np.cos(np.arange(390.0)).reshape(130, 3), np.sin(np.arange(387.0)).reshape(129, 3)
    return [*without_bias(), {"q": q, "k": k, "v": k * k, "mask": ops.Mask(causal=True), "scale": None}]


def seen(case: dict[str, Any]) -> np.ndarray:
    n, m = case["q"].shape[-2], case["k"].shape[-2]
    mask = ops.as_mask(case["mask"]).array(n, m, like=case["q"])
    return np.broadcast_to(True if mask is None else mask, (*case["q"].shape[:-1], m))


averages(states, seen)
causal(states, "k", "v", of=lambda case: onto_itself(case) | {"mask": ops.Mask(causal=True)})


@states("rounding", "adding any number to a row of scores changes neither result nor gradients", "extremes",
        hint="exp leaves float32's range beyond ±88, and loses digits before that: which rows need a second pass?")
def far_scores(op: Subject, **case: Any) -> None:
    case |= {"scale": 1.0}
    near = case | {"q": np.concatenate([case["q"] / 2, 0 * case["q"][..., :1]], axis=-1),
                   "k": np.concatenate([case["k"], 0 * case["k"][..., :1] + 1], axis=-1)}  # fmt: skip
    q, k, v = (widened(near)[name] for name in "qkv")
    expected = ops.attention(q, k, v, seen(case), scale=1.0)[0]
    dy = upstream(SPEC, near)
    gradient = op.gradients(near, *dy)["v"] if "fused_attention_backward" not in op.lacks else None
    for far in (45.0, 60.0, 87.0, 95.0, 300.0, -45.0, -60.0, -87.0, -95.0, -300.0):
        moved = near | {"q": near["q"].copy()}
        moved["q"][..., ::2, -1] = far                                   # every other row is left alone
        atol = rounding(case["q"].dtype, case["k"].size, 4 * abs(far) * largest(case["q"], case["k"], case["v"]) ** 3)
        close(op(**moved), expected, atol, f"with scores moved by {far:g}, out")
        if gradient is not None:
            close(op.gradients(moved, *dy)["v"], gradient, 10 * atol, f"with scores moved by {far:g}, dv")


@states("rounding", "over three tiles of queries, outputs and gradients are those of attention", "extremes", once=True,
        hint="Which keys does the last tile see that the first does not, and what did dk hold for them?")
def three_tiles(op: Subject, **_: Any) -> None:
    case = op.fit(special_cases()[-1])
    q, k, v = (case[name] for name in "qkv")
    out, weights = ops.attention(q, k, v, seen(case))
    close(op(**case), out, tolerance(SPEC, case), "out")
    if "fused_attention_backward" not in op.lacks:
        expected = ops.attention_backward(out, q, k, v, weights)
        for (name, g), right in zip(op.gradients(case, out).items(), expected, strict=False):
            close(g, right, 10 * tolerance(SPEC, case), f"d{name}")


def as_array(case: dict[str, Any]) -> dict[str, Any]:
    """The case with its mask as a boolean array."""
    n, m = case["q"].shape[-2], case["k"].shape[-2]
    return case | {"mask": case["mask"].array(n, m, like=case["q"])}


MASKS = Form("a mask of the class Mask", lambda case: isinstance(case.get("mask"), ops.Mask), as_array, ours=True)
SPEC = states.spec(
    "out = softmax(c q kᵀ, mask) v, with c = 1 / √d unless `scale` is given",
    "fused_attention(q, k, v, mask=None, scale=None) -> out first: q (..., n, d), k (..., m, d), v (..., m, e)",
    "the mask is boolean, True = may look, onto (..., n, m), or a `Mask`; a query that may look at nothing gets zeros",
    case=case,
    outputs=("out",),
    wrt=("q", "k", "v"),
    scale=lambda case: 10 * largest(case["q"], case["k"], case["v"]) ** 2,
    special_cases=special_cases,
    forms=(MASKS,),
)
