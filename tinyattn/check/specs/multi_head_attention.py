"""Multi-head self-attention, with four projections."""

from typing import Any

import numpy as np

from .. import oracles
from ..common import widened
from ..families import batch_apart, causal
from ..property import close, demand, largest, rounding
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("multi_head_attention")
ARRAYS = ("x", "W_q", "W_k", "W_v", "W_o")
batch_apart(states)
causal(states, "x", of=lambda case: case | {"mask": np.tri(case["x"].shape[-2], dtype=bool)})


def case(draw: CaseDrawer) -> dict[str, Any]:
    heads, n = draw.choose((1, 2, 3)), draw.tokens()
    D = heads * draw.choose((1, 2, 3))
    W = {name: draw.array(D, D, size=0.7) for name in ARRAYS[1:]}
    mask = draw.mask(*draw.choose(((n, n), (1, n), (n, 1), (n,)))) if draw.flag() else None
    return {"x": draw.array(*draw.lead, n, D), **W, "heads": heads, "mask": mask}


def special_cases() -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    x, W = rng.standard_normal((3, 5, 6)), dict(zip(ARRAYS[1:], rng.standard_normal((4, 6, 6)), strict=True))
    mask = np.tri(5, dtype=bool)
    mask[2] = False
    sharp = W | {"W_q": 400 * W["W_q"]}                                  # scores in the thousands
    maps = ((2, W), (3, W), (1, W), (2, sharp))
    return [{"x": x, **W, "heads": heads, "mask": m} for heads, W in maps for m in (None, mask)]


@states("rounding", "permuting the tokens permutes the outputs: without a mask their order has no effect",
        hint="Permute tokens: does the output permute? A reshape reinterprets memory, it does not move axes.")
def token_order(op: Subject, **case: Any) -> None:
    case |= {"mask": None}
    order = np.random.default_rng(case["x"].shape[-2]).permutation(case["x"].shape[-2])
    close(op(**case | {"x": case["x"][..., order, :]}), op(**case)[..., order, :], _tolerance(case), "y")


@states("rounding", "permuting heads in all four matrices changes nothing", hint="Which rows of W_o belong to head 0?")
def head_order(op: Subject, **case: Any) -> None:
    D, heads = case["x"].shape[-1], case["heads"]
    columns = np.arange(D).reshape(heads, -1)[::-1].reshape(-1)
    moved = {name: case[name][:, columns] for name in ("W_q", "W_k", "W_v")} | {"W_o": case["W_o"][columns]}
    close(op(**case | moved), op(**case), _tolerance(case), "y")


@states("rounding", "with W_o the identity, values of head i move only the columns of head i",
        hint="Silence one head's values and watch which slice of the output moves.")
def one_head_one_slice(op: Subject, **case: Any) -> None:
    D, heads = case["x"].shape[-1], case["heads"]
    eye = np.eye(D, dtype=case["x"].dtype)
    W_v = case["W_v"].copy()
    W_v[:, : D // heads] = 0
    before, after = op(**case | {"W_o": eye}), op(**case | {"W_o": eye, "W_v": W_v})
    close(after[..., : D // heads], np.zeros_like(after[..., : D // heads]), 0, "the silenced head's output")
    close(after[..., D // heads :], before[..., D // heads :], _tolerance(case), "another head's output")


@states("rounding", "with one head it is attention, projected", hint="With one head and W_o = I: softmax(q kᵀ / √D) v.")
def single_head(op: Subject, **case: Any) -> None:
    case |= {"heads": 1}
    x, *W = (case[name].astype(float) for name in ARRAYS)
    expected = oracles.attention(x @ W[0], x @ W[1], x @ W[2], case["mask"])[0] @ W[3]
    close(op(**case), expected, _tolerance(case), "y")


@states("rounding", "a single token gets x W_v W_o, whatever W_q and W_k", hint="softmax of one number is 1.")
def single_token(op: Subject, **case: Any) -> None:
    case |= {"x": case["x"][..., :1, :], "mask": None}
    expected = case["x"].astype(float) @ case["W_v"].astype(float) @ case["W_o"].astype(float)
    close(op(**case), expected, _tolerance(case), "y")


@states("exact", "W_o = 0 silences everything", hint="Is the output projected at all, and last?")
def no_output(op: Subject, **case: Any) -> None:
    demand(not np.any(op(**case | {"W_o": np.zeros_like(case["W_o"])})), "with W_o = 0 an output is not 0")


@states("exact", "a query that may look at nothing gets zeros", "extremes",
        hint="Compute softmax of equal numbers, however negative. And -inf minus -inf?")
def nothing_to_look_at(op: Subject, **case: Any) -> None:
    mask = np.ones((case["x"].shape[-2],) * 2, bool)
    mask[0] = False
    demand(not np.any(op(**case | {"mask": mask})[..., 0, :]), "the output of a query that may look at nothing is not 0")


@states("rounding", "scores of ±10,000 are safe", "extremes", hint="exp(1000) overflows: subtract each row's largest.")
def large_scores(op: Subject, **case: Any) -> None:
    D, dtype = case["x"].shape[-1], case["x"].dtype.type
    turned = np.eye(D)[::-1]
    sharp = case | {"W_q": 1024 * np.eye(D).astype(dtype), "W_k": 16 * turned.astype(dtype), "x": np.round(case["x"])}
    expected = oracles.multi_head_attention(**widened(sharp))
    close(op(**sharp), expected, rounding(dtype, D, 1e5 * largest(sharp["x"]) ** 3), "y")


def scale(case: dict[str, Any]) -> float:
    D = case["x"].shape[-1]
    x, W = largest(case["x"]), largest(*(case[name] for name in ARRAYS[1:]))
    scores = D * (x * W * D) ** 2 / np.sqrt(D / case["heads"])           # softmax multiplies rounding errors by these
    return x * (W * D) ** 2 * max(1.0, min(scores, 1e3))


def _tolerance(case: dict[str, Any]) -> float:
    return rounding(case["x"].dtype, case["x"].size, scale(case))


SPEC = states.spec(
    "y = concat_h(attention(x W_q,h, x W_k,h, x W_v,h)) W_o",
    "multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask=None) -> y: tokens are rows, x (..., n, D), all W (D, D); "
    "head i owns columns i D/h .. (i + 1) D/h of W_q, W_k, W_v, and those rows of W_o",
    "the mask is boolean, True = may look, and broadcasts to (n, n); scores are divided by √(D/h)",
    "a query that may look at nothing gets zeros",
    case=case,
    wrt=ARRAYS,
    scale=scale,
    special_cases=special_cases,
)
