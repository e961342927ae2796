"""Properties of scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .property import close, rounding, same_bits, states


def _plain(case: dict[str, Any]) -> dict[str, Any]:
    """The case without dropout: what holds of attention itself."""
    return {name: case[name] for name in ("q", "k", "v", "mask", "bias", "scale")}


def _tolerance(case: dict[str, Any], factor: float = 10.0) -> float:
    v = case["v"]
    return factor * rounding(v.dtype, v.shape[-2] + case["q"].shape[-1], max(np.max(np.abs(v), initial=1.0), 1.0) * 10)


def _allowed(case: dict[str, Any]) -> np.ndarray:
    shape = (*case["q"].shape[:-1], case["k"].shape[-2])
    return np.broadcast_to(True if case["mask"] is None else case["mask"], shape)


def _order(n: int) -> np.ndarray:
    return np.random.default_rng(n).permutation(n)


@states("attention", "rounding", "every coordinate of an output lies between the least and the greatest allowed value")
def convex_hull(ops: Any, **case: Any) -> None:
    out, _ = ops.attention(**_plain(case))
    allowed = _allowed(case)[..., None]  # (..., n, m, 1)
    v = case["v"][..., None, :, :]  # (..., 1, m, e)
    some = np.any(allowed, axis=-2)
    low = np.where(some, np.min(np.where(allowed, v, np.inf), axis=-2), 0)
    high = np.where(some, np.max(np.where(allowed, v, -np.inf), axis=-2), 0)
    slack = rounding(out.dtype, v.shape[-2], np.max(np.abs(v), initial=1.0))
    assert np.all(out >= low - slack), "an output is below every value it may take"
    assert np.all(out <= high + slack), "an output is above every value it may take"


@states("attention", "rounding", "with all queries 0 and no bias, an output is the mean of the allowed values")
def zero_queries(ops: Any, **case: Any) -> None:
    case = _plain(case) | {"q": np.zeros_like(case["q"]), "bias": None}
    out, _ = ops.attention(**case)
    allowed = _allowed(case).astype(np.float64)
    mean = allowed @ case["v"].astype(np.float64) / np.maximum(np.sum(allowed, axis=-1, keepdims=True), 1)
    close(out, mean, _tolerance(case), "output")


@states("attention", "rounding", "permuting keys and values together, with their masks and biases, changes nothing")
def key_order(ops: Any, **case: Any) -> None:
    out, _ = ops.attention(**_plain(case))
    order = _order(case["k"].shape[-2])
    moved = _plain(case) | {"k": case["k"][..., order, :], "v": case["v"][..., order, :]}
    for name in ("mask", "bias"):
        if case[name] is not None:
            moved[name] = np.broadcast_to(case[name], (*case[name].shape[:-1], len(order)))[..., order]
    close(ops.attention(**moved)[0], out, _tolerance(case), "output")


@states("attention", "rounding", "permuting the queries permutes the outputs: attention by itself knows no order")
def query_order(ops: Any, **case: Any) -> None:
    case = _plain(case) | {"bias": None}
    out, _ = ops.attention(**case)
    order = _order(case["q"].shape[-2])
    mask = None if case["mask"] is None else case["mask"][..., order, :]
    close(
        ops.attention(**case | {"q": case["q"][..., order, :], "mask": mask})[0], out[..., order, :], _tolerance(case)
    )


@states("attention", "rounding", "adding one vector to all keys changes nothing: a key bias is a dead parameter")
def key_shift(ops: Any, **case: Any) -> None:
    case = _plain(case)
    out, _ = ops.attention(**case)
    shift = np.ones(case["k"].shape[-1], dtype=case["k"].dtype)
    close(ops.attention(**case | {"k": case["k"] + shift})[0], out, _tolerance(case, 100), "output")


@states("attention", "rounding", "rotating queries and keys alike changes nothing")
def rotation(ops: Any, **case: Any) -> None:
    case = _plain(case)
    d = case["q"].shape[-1]
    turn = np.linalg.qr(np.random.default_rng(d).standard_normal((d, d)))[0].astype(case["q"].dtype)
    out, _ = ops.attention(**case)
    close(
        ops.attention(**case | {"q": case["q"] @ turn, "k": case["k"] @ turn})[0], out, _tolerance(case, 30), "output"
    )


@states("attention", "rounding", "the output is linear in the values")
def linear_in_values(ops: Any, **case: Any) -> None:
    case = _plain(case)
    v, w = case["v"], np.cos(case["v"])
    out_v, out_w = ops.attention(**case)[0], ops.attention(**case | {"v": w})[0]
    close(ops.attention(**case | {"v": 2 * v - 3 * w})[0], 2 * out_v - 3 * out_w, _tolerance(case), "output")


@states("attention", "rounding", "a masked key might as well not be there")
def masked_is_deleted(ops: Any, **case: Any) -> None:
    m = case["k"].shape[-2]
    keep = np.arange(m) % 2 == 0
    case = _plain(case) | {"mask": np.broadcast_to(keep, (1, m)), "bias": None}
    without = case | {"k": case["k"][..., keep, :], "v": case["v"][..., keep, :], "mask": None}
    close(ops.attention(**case)[0], ops.attention(**without)[0], _tolerance(case), "output")


@states("attention", "exact", "what a masked key and its value hold moves no output and receives no gradient")
def masked_content(ops: Any, **case: Any) -> None:
    case = _plain(case)
    m = case["k"].shape[-2]
    mask = np.broadcast_to(np.arange(m) != m - 1, (1, m))
    case["mask"] = mask
    out, weights = ops.attention(**case)
    k, v = case["k"].copy(), case["v"].copy()
    k[..., -1, :], v[..., -1, :] = 100, -1000
    same_bits(ops.attention(**case | {"k": k, "v": v})[0], out, "output")
    _, dk, dv, _ = ops.attention_backward(
        np.ones_like(out), case["q"], case["k"], case["v"], weights, bias=case["bias"], scale=case["scale"]
    )
    assert np.all(dk[..., -1, :] == 0), "a masked key has a gradient"
    assert np.all(dv[..., -1, :] == 0), "a masked value has a gradient"


@states("attention", "exact", "a bias of -inf forbids exactly as the mask does")
def minus_infinity(ops: Any, **case: Any) -> None:
    case = _plain(case) | {"bias": None}
    forbidden = np.where(_allowed(case), 0, -np.inf).astype(case["q"].dtype)
    same_bits(ops.attention(**case | {"mask": None, "bias": forbidden})[0], ops.attention(**case)[0], "output")


@states("attention", "exact", "a query that may look at nothing gets zeros, and passes no gradient on")
def nothing_to_look_at(ops: Any, **case: Any) -> None:
    case = _plain(case)
    n, m = case["q"].shape[-2], case["k"].shape[-2]
    mask = np.ones((n, m), dtype=bool)
    mask[0] = False
    out, weights = ops.attention(**case | {"mask": mask})
    assert np.all(out[..., 0, :] == 0), "its output is not zero"
    dq, _, _, _ = ops.attention_backward(
        np.ones_like(out), case["q"], case["k"], case["v"], weights, bias=case["bias"], scale=case["scale"]
    )
    assert np.all(dq[..., 0, :] == 0), "its query has a gradient"


@states("attention", "exact", "a single key takes all the weight: the output is its value")
def single_key(ops: Any, **case: Any) -> None:
    case = _plain(case) | {"mask": None, "bias": None}
    case |= {"k": case["k"][..., :1, :], "v": case["v"][..., :1, :]}
    out, _ = ops.attention(**case)
    same_bits(out + 0.0, np.repeat(case["v"], out.shape[-2], axis=-2) + 0.0, "output")


@states("attention", "rounding", "the scale is 1 / √d unless given, and multiplies the scores")
def scale(ops: Any, **case: Any) -> None:
    case = _plain(case)
    d = case["q"].shape[-1]
    out, _ = ops.attention(**case | {"scale": None})
    close(ops.attention(**case | {"scale": 1 / math.sqrt(d)})[0], out, _tolerance(case), "output")
    half, _ = ops.attention(**case | {"q": 0.5 * case["q"], "scale": 1.0})
    close(ops.attention(**case | {"scale": 0.5})[0], half, _tolerance(case), "output")


@states("attention", "exact", "with a causal mask, later keys and values move no earlier output, to the last bit")
def causal(ops: Any, **case: Any) -> None:
    case = _plain(case) | {"bias": None}
    n = min(case["q"].shape[-2], case["k"].shape[-2])
    q, k, v = (case[name][..., :n, :] for name in "qkv")
    mask = np.tri(n, dtype=bool)
    out, _ = ops.attention(q, k, v, mask, scale=case["scale"])
    k, v = k.copy(), v.copy()
    k[..., -1, :] += 5
    v[..., -1, :] -= 7
    same_bits(ops.attention(q, k, v, mask, scale=case["scale"])[0][..., :-1, :], out[..., :-1, :], "an earlier output")
