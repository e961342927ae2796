"""Exercises of chapter 01, attention as soft look-up."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import ops
from ...check.spec import Spec
from ..graders import Function, Number, Property
from ..prose import Prose

CHAPTER = 1
PROSE = Prose(CHAPTER)
VALUES = (3.0, 6.0, 12.0)    # of zero_query
LEAD, SHARE = 2.0, 0.9       # of nine_tenths


def _zero_query() -> float:
    """What a query of zeros gets from the three values, whatever their keys."""
    k = np.random.default_rng(0).standard_normal((3, 4))
    return float(ops.attention(np.zeros((1, 4)), k, np.array(VALUES)[:, None])[0][0, 0])


def _share(temperature: float) -> float:
    """The weight of the better of two keys, one of which leads by LEAD."""
    k = np.array([[LEAD], [0.0]])
    return float(ops.attention(np.ones((1, 1)), k, k, scale=1 / temperature)[1][0, 0])


def _temperature() -> float:
    """At which the better key gets SHARE: the share falls as it grows warmer, so bisect."""
    cold, warm = 0.01, 100.0
    for _ in range(60):
        middle = math.sqrt(cold * warm)
        cold, warm = (middle, warm) if _share(middle) > SHARE else (cold, middle)
    return cold


# --- my_softmax: what readers write that the zoo does not know ------------------------------------------------------


def _first_axis(s: Any) -> Any:
    e = np.exp(s - np.max(s, axis=0, keepdims=True))
    return e / np.sum(e, axis=0, keepdims=True)


WRONG_SOFTMAX = dict(
    shares=lambda s: s / np.where(np.sum(s, axis=-1, keepdims=True) == 0, 1, np.sum(s, axis=-1, keepdims=True)),
    squares=lambda s: s**2 / np.maximum(np.sum(s**2, axis=-1, keepdims=True), 1e-300),
    hard=lambda s: np.eye(s.shape[-1], dtype=s.dtype)[np.argmax(s, axis=-1)],
    logistic=lambda s: 1 / (1 + np.exp(-s)),
    worst_wins=lambda s: ops.softmax(-s),
    sharper=lambda s: ops.softmax(2 * s),
    first_axis=_first_axis,
)


def _of_one_row(answer: Any) -> str:
    """What is wrong with softmax of a single row, as the chapter's soft dict has it; or ""."""
    s = np.array([0.0, 1.0, 2.0])
    try:
        p = np.asarray(answer(s.copy()))
    except Exception as error:
        return f"right for a matrix of logits, but a single row, of shape (3,), raises {type(error).__name__}: {error}"
    good = p.shape == s.shape and np.allclose(p, ops.softmax(s))
    return "" if good else f"right for a matrix of logits, but wrong for the single row {s}."


# --- self_lookup: an op with a spec of its own, and what readers write instead --------------------------------------


def self_lookup(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """-> out, p. Shapes: x (..., n, D), W_q and W_k (D, d), W_v (D, e) -> (..., n, e), (..., n, n)."""
    return ops.attention(x @ W_q, x @ W_k, x @ W_v)


def _by_loops(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    from ...check import oracles

    return oracles.attention(x @ W_q, x @ W_k, x @ W_v)


def _case(draw: Any) -> dict[str, Any]:
    n, D, d = draw.size(), draw.size(high=4), draw.size(high=4)
    e = draw.choose((d, d, draw.size()))  # what goes by shapes cannot tell keys from values
    size = 1 / 16 if draw.wide else 1 / 4  # small logits: their size is for the next chapter
    W = {name: draw.array(D, width, size=size) for name, width in (("W_q", d), ("W_k", d), ("W_v", e))}
    return {"x": draw.array(*draw.lead, n, D), **W}


def _size(case: dict[str, Any]) -> float:
    """What rounding is multiplied by: a value, and, in softmax's exponents, a score."""
    x, W_q, W_k, W_v = (np.abs(np.asarray(case[name], float)) for name in ("x", "W_q", "W_k", "W_v"))
    score = np.max((x @ W_q) @ np.swapaxes(x @ W_k, -1, -2), initial=0.0)
    return float(np.max(x @ W_v, initial=1.0) * max(1.0, min(float(score), 1e3)))


def with_the_zoos(name: str) -> Callable[..., Any]:
    """self_lookup around the zoo's attention with this bug."""

    def wrong(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
        from ...check.zoo import ZOO

        return ZOO["attention"].make(frozenset([name])).attention(x @ W_q, x @ W_k, x @ W_v)

    wrong.__name__ = name
    return wrong


def _scaled_by_the_model(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """Divides by √D, the width of a token."""
    return ops.attention(x @ W_q, x @ W_k, x @ W_v, scale=1 / math.sqrt(max(x.shape[-1], 1)))


def _scaled_by_the_values(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """Divides by √e, the width of a value."""
    return ops.attention(x @ W_q, x @ W_k, x @ W_v, scale=1 / math.sqrt(max(W_v.shape[-1], 1)))


def _weighing(weights: Any) -> Any:
    """self_lookup with other weights, `weights(q kᵀ, 1 / √d)`."""

    def wrong(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
        p = weights((x @ W_q) @ np.swapaxes(x @ W_k, -1, -2), W_q.shape[-1] ** -0.5)
        return p @ (x @ W_v), p

    return wrong


def _other_way_round(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """weightsᵀ v: each word gives where it should take."""
    weights = self_lookup(x, W_q, W_k, W_v)[1]
    return np.swapaxes(weights, -1, -2) @ (x @ W_v), weights


def _scores_for_weights(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """The output is right; beside it the scores are returned."""
    q, k = x @ W_q, x @ W_k
    return self_lookup(x, W_q, W_k, W_v)[0], q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5


OF_THE_ZOO = ("no_scale", "scale_d", "scale_mult", "scale_of_keys", "softmax_axis", "softmax_flat", "cosine")
TEMPTING = dict(
    **{bug: with_the_zoos(bug) for bug in OF_THE_ZOO},
    queries_and_keys_exchanged=lambda x, W_q, W_k, W_v: self_lookup(x, W_k, W_q, W_v),
    keys_and_values_exchanged=lambda x, W_q, W_k, W_v: self_lookup(x, W_q, W_v, W_k),
    transposed=lambda x, W_q, W_k, W_v: self_lookup(x, W_q.T, W_k.T, W_v.T),
    keys_as_values=lambda x, W_q, W_k, W_v: self_lookup(x, W_q, W_k, W_k),     # the zoo's where shapes tell as well
    values_as_keys=lambda x, W_q, W_k, W_v: self_lookup(x, W_q, W_v, W_v),
    exponentials=_weighing(lambda s, c: np.exp(s * c)),      # without the maximum that the zoo's subtracts
    scaled_by_the_model=_scaled_by_the_model,
    scaled_by_the_values=_scaled_by_the_values,
    tokens_as_values=lambda x, W_q, W_k, W_v: ops.attention(x @ W_q, x @ W_k, x),
    one_projection=lambda x, W_q, W_k, W_v: self_lookup(x, W_q, W_q, W_v),
    without_projections=lambda x, W_q, W_k, W_v: ops.attention(x, x, x @ W_v),
    scores_as_weights=_weighing(lambda s, c: s * c),
    scaled_too_late=_weighing(lambda s, c: ops.softmax(s) * c),
    other_way_round=_other_way_round,
    worst_first=lambda x, W_q, W_k, W_v: self_lookup(x, -W_q, W_k, W_v),
    scores_for_weights=_scores_for_weights,
    without_itself=lambda x, W_q, W_k, W_v: ops.attention(x @ W_q, x @ W_k, x @ W_v, ~np.eye(x.shape[-2], dtype=bool)),
)


SELF_LOOKUP = Spec(
    name="self_lookup",
    says="out = softmax(q kᵀ / √d) v with q = x W_q, k = x W_k, v = x W_v",
    function="self_lookup",
    case=_case,
    ours=lambda: SimpleNamespace(self_lookup=self_lookup),
    properties=[],
    outputs=("out", "p"),
    oracle=_by_loops,
    scale=_size,
)

EXERCISES = PROSE.exercises(
    nine_tenths=Number(_temperature, tolerance=0.01, tempting=dict(
    inverted=lambda: math.log(9) / 2,
    other_weight_forgotten=lambda: 2 / math.log(10),
    lead_at_temperature_one=lambda: math.log(9),
    product_for_quotient=lambda: 2 * math.log(9),
    )),
    my_softmax=Function("softmax", tempting=WRONG_SOFTMAX, also=_of_one_row),
    self_lookup=Function(SELF_LOOKUP, tempting=TEMPTING),
    zero_query=Number(_zero_query, tolerance=0.01, tempting=dict(
    output_zero=lambda: 0.0,
    sum_of_values=lambda: sum(VALUES),
    largest_value=lambda: max(VALUES),
    first_value=lambda: VALUES[0],
    median=lambda: VALUES[1],
    )),
    normalises_over_keys=Property("attention", "softmax_axis", gives=("attention",)),
    reads_the_values=Property("attention", "keys_as_values", gives=("attention",)),
)
