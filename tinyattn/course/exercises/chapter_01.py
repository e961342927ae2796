"""Exercises of chapter 01, attention as soft look-up."""

import math
from functools import partial
from typing import Any

import numpy as np

from ... import ops
from ...check import oracles
from ...check.zoo import ZOO
from ..graders import Function, Number, Property
from ..plain import Changes, changed, op_spec
from ..prose import Prose

SHARE = 0.9                  # of nine_tenths


def _zero_query(v: list[float]) -> float:
    """The output for a query of zeros, which is the same for any keys."""
    k = np.random.default_rng(0).standard_normal((3, 4))
    return float(ops.attention(np.zeros((1, 4)), k, np.array(v, float)[:, None])[0][0, 0])


def _share(lead: float, temperature: float) -> float:
    """The weight of the better of two keys."""
    k = np.array([[lead], [0.0]])
    return float(ops.attention(np.ones((1, 1)), k, k, scale=1 / temperature)[1][0, 0])


def _temperature(lead: float) -> float:
    """The temperature at which the better key gets SHARE, by bisection: the share falls with the temperature."""
    cold, warm = 0.01, 100.0
    for _ in range(60):
        middle = math.sqrt(cold * warm)
        cold, warm = (middle, warm) if _share(lead, middle) > SHARE else (cold, middle)
    return cold


# my_softmax: wrong answers beside the zoo's
WRONG_SOFTMAX = dict(
    shares=lambda s: s / np.where(np.sum(s, axis=-1, keepdims=True) == 0, 1, np.sum(s, axis=-1, keepdims=True)),
    squares=lambda s: s**2 / np.maximum(np.sum(s**2, axis=-1, keepdims=True), 1e-300),
    hard=lambda s: np.eye(s.shape[-1], dtype=s.dtype)[np.argmax(s, axis=-1)],
    logistic=lambda s: 1 / (1 + np.exp(-s)),
    worst_wins=lambda s: ops.softmax(-s),
    sharper=lambda s: ops.softmax(2 * s),
    first_axis=lambda s: np.swapaxes(ops.softmax(np.swapaxes(s, 0, -1)), 0, -1),
)


def _of_one_row(answer: Any) -> str:
    """The error for a single row of logits, as in the chapter's soft dict, or ""."""
    s = np.array([0.0, 1.0, 2.0])
    try:
        p = np.asarray(answer(s.copy()))
    except Exception as error:
        return f"right for a matrix of logits, but a single row, of shape (3,), raises {type(error).__name__}: {error}"
    good = p.shape == s.shape and np.allclose(p, ops.softmax(s))
    return "" if good else f"right for a matrix of logits, but wrong for the single row {s}."


# self_lookup
def self_lookup(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """-> out, p. Shapes: x (..., n, D), W_q and W_k (D, d), W_v (D, e) -> (..., n, e), (..., n, n)."""
    return ops.attention(x @ W_q, x @ W_k, x @ W_v)


def _case(draw: Any) -> dict[str, Any]:
    n, D, d = draw.size(), draw.size(high=4), draw.size(high=4)
    e = draw.choose((d, d, draw.size()))  # often d, so that shapes cannot tell keys from values
    size = 1 / 16 if draw.wide else 1 / 4  # small logits: the next chapter is about large ones
    W = {name: draw.array(D, width, size=size) for name, width in (("W_q", d), ("W_k", d), ("W_v", e))}
    return {"x": draw.array(*draw.lead, n, D), **W}


def _size(case: dict[str, Any]) -> float:
    """The scale of rounding errors: the largest value, times the largest score, which softmax exponentiates."""
    x, W_q, W_k, W_v = (np.abs(np.asarray(case[name], float)) for name in ("x", "W_q", "W_k", "W_v"))
    score = np.max((x @ W_q) @ np.swapaxes(x @ W_k, -1, -2), initial=0.0)
    return float(np.max(x @ W_v, initial=1.0) * max(1.0, min(float(score), 1e3)))


def _by_the_zoo(bug: str, x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """self_lookup with the zoo's attention, which has this bug."""
    return ZOO["attention"].make(frozenset([bug])).attention(x @ W_q, x @ W_k, x @ W_v)


def _weighed(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """self_lookup, by hand."""
    c = max(W_q.shape[-1], 1) ** -0.5
    p = ops.softmax(x @ W_q @ np.swapaxes(x @ W_k, -1, -2) * c)
    return p @ (x @ W_v), p


OF_THE_ZOO = ("no_scale", "scale_d", "scale_mult", "scale_of_keys", "softmax_axis", "softmax_flat", "cosine")
TEMPTING = Changes(_weighed,
    **{bug: partial(_by_the_zoo, bug) for bug in OF_THE_ZOO},
    queries_and_keys_exchanged=lambda x, W_q, W_k, W_v: self_lookup(x, W_k, W_q, W_v),
    keys_and_values_exchanged=lambda x, W_q, W_k, W_v: self_lookup(x, W_q, W_v, W_k),
    transposed=lambda x, W_q, W_k, W_v: self_lookup(x, W_q.T, W_k.T, W_v.T),
    keys_as_values=lambda x, W_q, W_k, W_v: self_lookup(x, W_q, W_k, W_k),
    values_as_keys=lambda x, W_q, W_k, W_v: self_lookup(x, W_q, W_v, W_v),
    tokens_as_values=lambda x, W_q, W_k, W_v: ops.attention(x @ W_q, x @ W_k, x),
    one_projection=lambda x, W_q, W_k, W_v: self_lookup(x, W_q, W_q, W_v),
    without_projections=lambda x, W_q, W_k, W_v: ops.attention(x, x, x @ W_v),
    other_way_round=changed(_weighed, "return p -> return np.swapaxes(p, -1, -2)"),
    worst_first=lambda x, W_q, W_k, W_v: self_lookup(x, -W_q, W_k, W_v),
    scores_for_weights=changed(_weighed, "softmax(x -> softmax(s := x && W_v), p -> W_v), s"),
    without_itself=lambda x, W_q, W_k, W_v: ops.attention(x @ W_q, x @ W_k, x @ W_v, ~np.eye(x.shape[-2], dtype=bool)),
)

SELF_LOOKUP = op_spec(
    "self_lookup", "out = softmax(q kᵀ / √d) v with q = x W_q, k = x W_k, v = x W_v", _case, self_lookup, "out", "p",
    oracle=lambda x, W_q, W_k, W_v: oracles.attention(x @ W_q, x @ W_k, x @ W_v), scale=_size)  # fmt: skip

EXERCISES = Prose(1).exercises(
    nine_tenths=Number(_temperature, tolerance=0.01),
    my_softmax=Function("softmax", tempting=WRONG_SOFTMAX, last_test=_of_one_row),
    self_lookup=Function(SELF_LOOKUP, tempting=TEMPTING),
    zero_query=Number(_zero_query, tolerance=0.01),
    normalises_over_keys=Property("attention", "softmax_axis", gives=("attention",)),
    reads_the_values=Property("attention", "keys_as_values", gives=("attention",)),
)
