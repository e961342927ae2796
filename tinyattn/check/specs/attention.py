"""Scaled dot-product attention, with mask, bias and dropout."""

import math
from typing import Any

import numpy as np

from .. import oracles
from ..common import widened
from ..families import causal, first_blind, linear_in, onto_itself
from ..property import close, demand, largest, rounding, waves
from ..subject import MissingError, Subject
from .builder import CaseDrawer, SpecBuilder

states = SpecBuilder("attention")


def case(draw: CaseDrawer) -> dict[str, Any]:
    n, d = draw.tokens(), draw.size()
    m, e = draw.size_like(n), draw.size_like(d)
    lead, ones = draw.lead, (1,) * len(draw.lead)
    q, k, v = draw.array(*lead, n, d), draw.array(*lead, m, d), draw.array(*lead, m, e)
    shapes = ((n, m), (*lead, n, m), (1, m), (n, 1), (m,), (1, 1), (*ones, n, m), (*ones[:1], *lead[1:], n, m))
    mask = draw.mask(*draw.choose(shapes)) if draw.flag() else None
    bias = draw.array(*draw.choose(shapes)) if draw.flag() else None
    rate = draw.choose((0.0, 0.5, 0.25))
    drops = rate or draw.choose((0.0, 0.3))                              # at rate 0, keep still drops weights
    keep = draw.rng.random(draw.choose(((*lead, n, m), (n, m)))) >= drops if drops else None
    scale = draw.choose((None, None, 0.7, 0.0))
    return {"q": q, "k": k, "v": v, "mask": mask, "bias": bias, "keep": keep, "rate": rate, "scale": scale}


def _arguments(**arguments: Any) -> dict[str, Any]:
    return {"mask": None, "bias": None, "keep": None, "rate": 0.0, "scale": None} | arguments


def special_cases() -> list[dict[str, Any]]:
    """A fully masked row, large scores, rows far apart, allowed scores far below zero."""
    rng = np.random.default_rng(5)
    q, k, v = (rng.integers(-2, 3, (3, 4)).astype(float) for _ in range(3))
    half = np.array([[True, True, False], [False, False, False], [True, False, True]])
    several = [
        {"mask": half},
        {"q": 64 * q, "k": 64 * k},
        {"bias": np.array([[0.0], [-32768.0], [-16384.0]])},
        {"mask": half, "bias": np.where(half, -40.0, 5.0)},
        {"mask": half, "bias": np.where(half, -(2.0**100), 0.0)},
        {"mask": np.array([True, False, True])},
    ]
    cases = [_arguments(**{"q": q, "k": k, "v": v} | arguments) for arguments in several]
    return [*cases, cases[0] | {name: x.astype(np.float32) for name, x in (("q", q), ("k", k), ("v", v))}]


def _plain(case: dict[str, Any]) -> dict[str, Any]:
    """The case without dropout."""
    return {name: case[name] for name in ("q", "k", "v", "mask", "bias", "scale")}


def _last_key_masked(case: dict[str, Any]) -> dict[str, Any]:
    m = case["k"].shape[-2]
    return _plain(case) | {"mask": np.broadcast_to(np.arange(m) != m - 1, (1, m)).copy()}


def with_keys(case: dict[str, Any], places: np.ndarray) -> dict[str, Any]:
    """The case with the keys and values of these places, and their masks and biases."""
    chosen = case | {name: case[name][..., places, :] for name in "kv"}
    for name in ("mask", "bias"):
        if case[name] is not None:
            wide = np.broadcast_to(case[name], (*case[name].shape[:-1], case["k"].shape[-2]))
            chosen[name] = wide[..., places]
    return chosen


def doubled(case: dict[str, Any]) -> dict[str, Any]:
    """The case with all keys and values twice."""
    return with_keys(case, np.tile(np.arange(case["k"].shape[-2]), 2))


def looking_back(case: dict[str, Any]) -> dict[str, Any]:
    """The case with as many keys as queries, a causal mask and no bias."""
    case = onto_itself(case)
    return case | {"mask": np.tri(case["q"].shape[-2], dtype=bool), "bias": None}


def with_row(x: np.ndarray, row: int, value: float) -> np.ndarray:
    """A copy of x (..., n, d) in which all numbers of one row have this value."""
    x = x.copy()
    x[..., row, :] = value
    return x


@states("rounding", "every output lies between the smallest and the largest allowed value, in each coordinate",
        hint="An average with weights that are positive and sum to 1 cannot leave the values' range.")
def hull(op: Subject, **case: Any) -> None:
    case = _plain(case)
    out = op(**case)
    allowed, v = _allowed(case)[..., None], case["v"][..., None, :, :]   # (..., n, m, 1), (..., 1, m, e)
    some = np.any(allowed, axis=-2)
    low = np.where(some, np.min(np.where(allowed, v, np.inf), axis=-2), 0)
    high = np.where(some, np.max(np.where(allowed, v, -np.inf), axis=-2), 0)
    slack = rounding(out.dtype, v.shape[-2], largest(v))
    demand(np.all(out >= low - slack), "an output is below every allowed value")
    demand(np.all(out <= high + slack), "an output is above every allowed value")


@states("rounding", "the returned weights are those before dropout; they sum to 1 where a query may look at anything",
        hint="Return the softmax itself; only its product with the values sees the dropout.")
def weights_before_dropout(op: Subject, **case: Any) -> None:
    weights = op.outputs(**case)[1]
    if weights is None:
        return
    expected = np.any(_allowed(case), axis=-1)
    close(np.sum(weights, axis=-1), expected.astype(float), _tolerance(case, 1), "the sum of weights of query ")


states.law("keep_at_rate_0", "rounding", "at rate 0, keep still drops weights",
        lambda op, c: (op(**c), oracles.attention(**widened(c))[0], _tolerance(c)), of=lambda c: _arguments(
            **_plain(c), keep=(np.arange(c.q.shape[-2])[:, None] + np.arange(c.k.shape[-2])) % 2 == 0
        ), hint="Does the rate do more than set the divisor?")
states.law("zero_queries", "rounding", "with all queries 0 and no bias, an output is the mean of the allowed values",
        lambda op, c: (
            op(**c),
            (a := _allowed(c).astype(float)) @ c.v.astype(float) / np.maximum(np.sum(a, axis=-1, keepdims=True), 1),
            _tolerance(c),
        ), of=lambda c: _plain(c(q=np.zeros_like(c.q), bias=None)),
        hint="Equal scores give equal weights: over how many keys?")


@states("rounding", "a mask of any shape gives the same outputs as when broadcast to (..., n, m)",
        hint="Which axes does a mask of shape (m,), (1, m) or (n, 1) stand for?")
def mask_shapes(op: Subject, **case: Any) -> None:
    n, m = case["k"].shape[-2], case["k"].shape[-2]
    case = _plain(case) | {"q": np.resize(case["q"], (*case["q"].shape[:-2], n, case["q"].shape[-1])), "bias": None}
    rng = np.random.default_rng(n)
    for shape in ((m,), (1, m), (n, 1), (1, 1), (n, m)):
        mask = rng.random(shape) < 0.6
        full = np.broadcast_to(mask, (*case["q"].shape[:-1], m)).copy()
        close(op(**case | {"mask": mask}), op(**case | {"mask": full}), _tolerance(case), f"with a mask {shape}, out")


states.law("key_order", "rounding", "permuting keys and values together, with their masks and biases, changes nothing",
        lambda op, c: (op(**with_keys(c, _order(c.k.shape[-2]))), op(**c), _tolerance(c)), of=_plain,
        hint="Does a key's place matter anywhere but through mask and bias?")


@states("rounding", "permuting the queries, with their masks, permutes the outputs: attention itself knows no order",
        hint="Each query has one row of scores: do rows meet anywhere?")
def query_order(op: Subject, **case: Any) -> None:
    case = _plain(case) | {"bias": None}
    order = _order(case["q"].shape[-2])
    mask = case["mask"]
    if mask is not None and mask.ndim > 1 and mask.shape[-2] > 1:
        mask = mask[..., order, :]
    moved = case | {"q": case["q"][..., order, :], "mask": mask}
    close(op(**moved), op(**case)[..., order, :], _tolerance(case), "out")


states.law("duplicated_keys", "rounding", "duplicating all keys and values changes nothing",
        lambda op, c: (op(**doubled(c)), op(**c), _tolerance(c)), of=_plain, hint="Numerator and denominator double.")
states.law("key_shift", "rounding",
        "adding the same vector to all keys changes nothing: a key bias is a dead parameter",
        lambda op, c: (op(**c(k=c.k + 1)), op(**c), _tolerance(c, 100)), of=_plain,
        hint="It adds q·b to a whole row of scores, and softmax does not see that.")


@states("rounding", "rotating queries and keys alike changes nothing", hint="Only the inner products q·k may enter.")
def rotation(op: Subject, **case: Any) -> None:
    case = _plain(case)
    d = case["q"].shape[-1]
    turn = np.linalg.qr(np.random.default_rng(d).standard_normal((d, d)))[0].astype(case["q"].dtype)
    close(op(**case | {"q": case["q"] @ turn, "k": case["k"] @ turn}), op(**case), _tolerance(case, 30), "out")


linear_in(states, "v", of=lambda case: _plain(case), name="linear_in_values", hint="The weights must not depend on v.")
states.law("masked_is_deleted", "rounding", "masking a key equals deleting it", lambda op, c: (
            op(**c(mask=np.arange(c.k.shape[-2])[None] % 2 == 0)), op(**c(k=c.k[..., ::2, :], v=c.v[..., ::2, :])),
            _tolerance(c),
        ), of=lambda c: _plain(c(mask=None, bias=None)), hint="Delete the masked keys and compare.")
states.law("masked_content", "exact", "a masked key and its value move no output",
        lambda op, c: (op(**c(k=with_row(c.k, -1, 100), v=with_row(c.v, -1, -1000))), op(**c)),
        of=_last_key_masked, bits=True, hint="Is each masked weight exactly 0?", gravity="leak")


@states("exact", "four gradients are returned, with a bias or without one; without one the fourth is None", "gradients",
        hint="dq, dk, dv, dbias: always four, so that the caller can unpack them.", gravity="contract")
def four_gradients(op: Subject, **case: Any) -> None:
    if "bias" in op.lacks:
        raise MissingError("attention takes no `bias`")
    case = _plain(case) | {"bias": None}
    gradients = op.backward(op.prepared(case, (ones_like_out(case),)))
    demand(isinstance(gradients, tuple | list) and len(gradients) == 4, "expected four gradients without a bias")
    demand(gradients[3] is None, "without a bias, dbias is not None")


states.law("masked_gradient", "exact", "a masked key and its value receive no gradient", lambda op, c: [
            (np.all((g := op.gradients(c, ones_like_out(c)))["k"][..., -1, :] == 0), "a masked key has a gradient"),
            (np.all(g["v"][..., -1, :] == 0), "a masked value has a gradient"),
        ], "gradients", of=_last_key_masked, hint="The weight is 0, and so is each product with it.", gravity="leak")
states.law("key_gradients_cancel", "rounding",
        "the gradients of the keys sum to 0: adding the same vector to all keys changes nothing", lambda op, c: (
            np.sum(dk := op.gradients(c, waves(c.q, *c.q.shape[:-1], c.v.shape[-1]))["k"], axis=-2),
            np.zeros_like(dk[..., 0, :]), 10 * _tolerance(c), "the sum of dk over keys ",
        ), "gradients", of=_plain, hint="Logits of a row compete: each row of ds sums to 0. Does yours?")
causal(states, "k", "v", of=lambda case: looking_back(_plain(case)), hint="Change the last token: which outputs moved?")
states.law("single_key", "rounding", "a single key takes all the weight: the output is its value",
        lambda op, c: (op(**c), np.repeat(c.v, c.q.shape[-2], axis=-2), rounding(c.v.dtype, 1, largest(c.v))),
        of=lambda c: _plain(c) | {"k": c.k[..., :1, :], "v": c.v[..., :1, :], "mask": None, "bias": None},
        hint="softmax of one number is 1.")
states.law("scale", "rounding", "the scale multiplies the scores, by default 1 / √d", lambda op, c: (
            (op(**c(scale=scale)), op(**c(q=q, scale=other)), _tolerance(c), what)
            for scale, q, other, what in (
                (0.5, c.q * 0.5, 1.0, "with scale 0.5, out"), (1 / math.sqrt(c.q.shape[-1]), c.q, None, "out"),
            )
        ), of=_plain, hint="Compute a score's variance for d = 64.")
states.law("nothing_to_look_at", "exact", "a query that may look at nothing gets zeros", lambda op, c: [
            (np.all(op(**c)[..., 0, :] == 0), "the output of a query that may look at nothing is not zero"),
            (np.all(op(**c(mask=np.zeros_like(c.mask))) == 0), "with nothing allowed anywhere an output is not zero"),
        ], "extremes", of=lambda c: first_blind(c.without("keep", "rate")),
        hint="Compute softmax of equal numbers, however negative. And -inf minus -inf?")
states.law("nothing_to_pass_on", "exact", "a query that may look at nothing passes no gradient on", lambda op, c: [
            (np.all((g := op.gradients(c, ones_like_out(c)))["q"][..., 0, :] == 0),
             "the query that may look at nothing has a gradient"),
            (all(np.all(np.isfinite(x)) for x in g.values()), "a gradient is not finite"),
        ], "extremes", of=lambda c: first_blind(c.without("keep", "rate")), hint="All its weights are 0, and so are all products with them.")


@states("rounding", "scores of ±10,000 are safe, each row by itself", "extremes",
        hint="exp(1000) overflows: subtract each row's largest score.")
def large_scores(op: Subject, **case: Any) -> None:
    rng, dtype = np.random.default_rng(case["q"].size), case["q"].dtype
    q, k = (rng.integers(-3, 4, (*case["q"].shape[:-2], case[name].shape[-2], 4)) * 16.0 for name in "qk")
    q[..., 0, :] *= 16                                                  # whole numbers: scores are exact
    large = _arguments(q=q.astype(dtype), k=k.astype(dtype), v=case["v"], mask=case["mask"])
    scores = largest(q @ np.swapaxes(k, -1, -2))                        # exp(s - log Σ exp(s)) has their rounding error
    close(op(**large), oracles.attention(**widened(large))[0], _tolerance(case, scores), "out")


@states("rounding", "with an allowed score as low as -2¹⁰⁰, masked keys still get no weight", "extremes",
        hint="A fill of -1e9 beats a score of -1e30; -inf does not.")
def far_below(op: Subject, **case: Any) -> None:
    q = np.full((*case["q"].shape[:-1], 1), 2.0**50, case["q"].dtype)
    k = np.full((*case["k"].shape[:-1], 1), -(2.0**50), case["q"].dtype)
    mask = np.arange(k.shape[-2]) == k.shape[-2] // 2
    k[..., ~mask, :] = 0
    out = op(**_arguments(q=q, k=k, v=case["v"], mask=mask[None]))
    close(out, np.broadcast_to(case["v"][..., mask, :], out.shape), _tolerance(case), "out")


def _allowed(case: dict[str, Any]) -> np.ndarray:
    shape = (*case["q"].shape[:-1], case["k"].shape[-2])
    return np.broadcast_to(True if case["mask"] is None else case["mask"], shape)


def _tolerance(case: dict[str, Any], factor: float = 10.0) -> float:
    length = max(case["k"].shape[-2], case["q"].shape[-1])
    return rounding(case["q"].dtype, length, factor * largest(case["q"], case["k"], case["v"]) ** 2)


def ones_like_out(case: dict[str, Any]) -> np.ndarray:
    return np.ones((*case["q"].shape[:-1], case["v"].shape[-1]), case["q"].dtype)


def _order(size: int) -> np.ndarray:
    return np.random.default_rng(size).permutation(size)


SPEC = states.spec(
    "out = dropout(softmax(c q kᵀ + bias, mask)) v, with c = 1 / √d unless `scale` is given",
    "attention(q, k, v, mask=None, bias=None, keep=None, rate=0.0, scale=None) -> out, weights before dropout: "
    "q (..., n, d), k (..., m, d), v (..., m, e)",
    "masks are boolean, True = may look; mask, bias and keep have any shape that broadcasts to (..., n, m)",
    "dropout is weights · keep / (1 - rate)",
    "a query that may look at nothing gets zeros, and passes no gradient on",
    "scores of any finite size",
    case=case, outputs=("out", "weights"), wrt=("q", "k", "v", "bias"),
    scale=lambda case: 10 * largest(case["q"], case["k"], case["v"], case["bias"]) ** 2, special_cases=special_cases,
)
