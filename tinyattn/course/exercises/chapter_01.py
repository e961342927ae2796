"""Exercises of chapter 01, attention as soft look-up."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import ops
from ...check.spec import Spec
from ..exercise import Exercise
from ..graders import Function, Number, Property

CHAPTER = 1
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


# --- self_lookup: an op with a spec of its own, and a small zoo around the zoo's attention -------------------------


def self_lookup(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """-> out, weights. Shapes: x (..., n, D), W_q and W_k (D, d), W_v (D, e) -> (..., n, e), (..., n, n)."""
    return ops.attention(x @ W_q, x @ W_k, x @ W_v)


def _by_loops(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    from ...check import oracles

    return oracles.attention(x @ W_q, x @ W_k, x @ W_v)


def _case(draw: Any) -> dict[str, Any]:
    n, D, d = draw.size(), draw.size(high=4), draw.size(high=4)
    e = draw.choose((d, d, draw.size()))  # what goes by shapes cannot tell keys from values
    size = 1 / 16 if draw.wide else 1 / 4  # small scores: that exp overflows is for the next chapter
    W = {name: draw.array(D, width, size=size) for name, width in (("W_q", d), ("W_k", d), ("W_v", e))}
    return {"x": draw.array(*draw.lead, n, D), **W}


def _size(case: dict[str, Any]) -> float:
    """What rounding is multiplied by: a value, and, in softmax's exponents, a score."""
    x, W_q, W_k, W_v = (np.abs(np.asarray(case[name], float)) for name in ("x", "W_q", "W_k", "W_v"))
    score = np.max((x @ W_q) @ np.swapaxes(x @ W_k, -1, -2), initial=0.0)
    return float(np.max(x @ W_v, initial=1.0) * max(1.0, min(float(score), 1e3)))


IN_ATTENTION = ("no_scale", "scale_d", "scale_mult", "scale_of_keys", "softmax_axis", "softmax_flat", "no_normalise",
                "cosine")  # fmt: skip


def with_the_zoos(name: str) -> Callable[..., Any]:
    """self_lookup around the zoo's attention with this bug."""

    def wrong(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
        from ...check.zoo import ZOO

        return ZOO["attention"].make(frozenset([name])).attention(x @ W_q, x @ W_k, x @ W_v)

    return wrong


def _queries_and_keys_exchanged(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    return self_lookup(x, W_k, W_q, W_v)


def _keys_and_values_exchanged(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    return self_lookup(x, W_q, W_v, W_k)


def _transposed(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    return self_lookup(x, W_q.T, W_k.T, W_v.T)


def _scaled_by_the_model(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """Divides by √D, the width of a token."""
    return ops.attention(x @ W_q, x @ W_k, x @ W_v, scale=1 / math.sqrt(max(x.shape[-1], 1)))


def _scaled_by_the_values(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """Divides by √e, the width of a value."""
    return ops.attention(x @ W_q, x @ W_k, x @ W_v, scale=1 / math.sqrt(max(W_v.shape[-1], 1)))


def _keys_as_values(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """The zoo's, whose own does so only where no shape gives it away."""
    return self_lookup(x, W_q, W_k, W_k)


def _values_as_keys(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    return self_lookup(x, W_q, W_v, W_v)


def _tokens_as_values(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    return ops.attention(x @ W_q, x @ W_k, x)


def _one_projection(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """The keys are the queries."""
    return self_lookup(x, W_q, W_q, W_v)


def _without_projections(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """Tokens look at tokens, and only what they take is projected."""
    return ops.attention(x, x, x @ W_v)


def _scores_as_weights(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """No softmax at all."""
    weights = (x @ W_q) @ np.swapaxes(x @ W_k, -1, -2) * W_q.shape[-1] ** -0.5
    return weights @ (x @ W_v), weights


def _exponentials(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """Softmax without its denominator, and without the maximum that the zoo's subtracts."""
    weights = np.exp((x @ W_q) @ np.swapaxes(x @ W_k, -1, -2) * W_q.shape[-1] ** -0.5)
    return weights @ (x @ W_v), weights


def _scaled_too_late(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """Divides the weights, not the scores."""
    weights = ops.softmax((x @ W_q) @ np.swapaxes(x @ W_k, -1, -2)) * W_q.shape[-1] ** -0.5
    return weights @ (x @ W_v), weights


def _other_way_round(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """weightsᵀ v: each word gives where it should take."""
    weights = self_lookup(x, W_q, W_k, W_v)[1]
    return np.swapaxes(weights, -1, -2) @ (x @ W_v), weights


def _worst_first(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """The sign of the scores is turned."""
    return self_lookup(x, -W_q, W_k, W_v)


def _scores_for_weights(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """The output is right; beside it the scores are returned."""
    q, k = x @ W_q, x @ W_k
    return self_lookup(x, W_q, W_k, W_v)[0], q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5


def _without_itself(x: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """Every other token, as some sentences have it."""
    return ops.attention(x @ W_q, x @ W_k, x @ W_v, ~np.eye(x.shape[-2], dtype=bool))


def _tempting() -> tuple[tuple[Callable[..., Any], str], ...]:
    from ...check.zoo.attention import BUGS as attention
    from ...check.zoo.multi_head_attention import BUGS as projections

    known = {bug.name: f"It looks as if {bug.says}. {bug.hint}" for bug in (*projections, *attention)}
    written_anew = (
        ("qk_swapped", _queries_and_keys_exchanged),
        ("kv_swapped", _keys_and_values_exchanged),
        ("W_transposed", _transposed),
        ("keys_as_values", _keys_as_values),
        ("values_as_keys", _values_as_keys),
        ("no_normalise", _exponentials),
    )
    return (
        *((with_the_zoos(name), known[name]) for name in IN_ATTENTION),
        *((wrong, known[name]) for name, wrong in written_anew),
        (_scaled_by_the_model, "It looks as if scores are divided by √D. Which vectors does the dot product run over?"),
        (_scaled_by_the_values, "It looks as if scores are divided by √e. What does a score know of the values?"),
        (_tokens_as_values, "It looks as if the tokens themselves are mixed. Where does W_v come in?"),
        (_one_projection, "It looks as if W_q made the keys too. A word that asks is not a word that is asked."),
        (_without_projections, "It looks as if tokens are compared as they are. Where do W_q and W_k come in?"),
        (_scores_as_weights, "It looks as if the scores were the weights. Can a weight be negative?"),
        (_scaled_too_late, "It looks as if √d came after softmax. Do your weights still sum to 1?"),
        (_other_way_round, "It looks as if the weights were turned. Which of their axes belongs to the values?"),
        (_worst_first, "It looks as if the best match got the least. Where does a minus come from?"),
        (_scores_for_weights, "The output is right. What you return beside it: is it before softmax, or after?"),
        (_without_itself, "It looks as if a token could not see itself. In self-attention it is one of its own keys."),
    )


SELF_LOOKUP = Spec(
    name="self_lookup",
    says="out = softmax(q kᵀ / √d) v with q = x W_q, k = x W_k, v = x W_v",
    function="self_lookup",
    case=_case,
    ours=lambda: SimpleNamespace(self_lookup=self_lookup),
    properties=[],
    outputs=("out", "weights"),
    oracle=_by_loops,
    scale=_size,
)

EXERCISES = (
    Exercise(
        "nine_tenths",
        "predict the number",
        difficulty=2,
        minutes=5,
        task=f"the temperature at which a key that leads by {LEAD:g} gets {SHARE:.0%} of the weight",
        grader=Number(
            _temperature,
            tolerance=0.01,
            tempting=(
                (lambda: math.log(9) / 2, "That is 1/τ: what the scores are multiplied by."),
                (lambda: 2 / math.log(10), "You took the ratio 0.9 / 1. The other key has the rest, not all."),
                (lambda: math.log(9), "That is the lead that is needed at temperature 1. Here it is 2."),
                (lambda: 2 * math.log(9), "Multiplied where a division belongs: should it be colder or warmer than 1?"),
            ),
        ),
        hints=(
            "Two weights, 0.9 and 0.1. What is their ratio, and what does softmax say it is?",
            "The ratio of two weights is e to the difference of their scores, divided by τ. Take the logarithm.",
        ),
    ),
    Exercise(
        "zero_query",
        "predict the number",
        difficulty=1,
        minutes=2,
        task=f"the output for a query of zeros, with three keys of the values {', '.join(f'{v:g}' for v in VALUES)}",
        grader=Number(
            _zero_query,
            tolerance=0.01,
            tempting=(
                (lambda: 0.0, "The scores are 0. The weights are not: what is softmax of equal numbers?"),
                (lambda: sum(VALUES), "That is the sum: it would need weights of 1 each. What must they sum to?"),
                (lambda: max(VALUES), "That would be a hard choice of the largest value. Who has chosen?"),
                (lambda: VALUES[0], "The first of three equals: argmax says so, softmax does not."),
                (lambda: VALUES[1], "That is the middle one: the median. What is the mean?"),
            ),
        ),
        hints=(
            "What is the dot product of zeros with any key?",
            "Three equal scores, three equal weights that sum to 1.",
        ),
    ),
    Exercise(
        "self_lookup",
        "write the op",
        difficulty=2,
        minutes=10,
        task="self_lookup(x, W_q, W_k, W_v) -> out, weights",
        grader=Function(SELF_LOOKUP, tempting=_tempting()),
        hints=(
            "Five lines, one for each name: q, k, v, weights, out. Write its shape behind each.",
            "k.swapaxes(-1, -2) turns the last two axes only, whatever stands before them; √d is the root of how many "
            "entries one query has.",
        ),
    ),
    Exercise(
        "normalises_over_keys",
        "write the property that kills this bug",
        difficulty=2,
        minutes=8,
        task="normalises_over_keys(attention) -> True where each query's weights are its own, False where softmax went "
        "along the queries",
        grader=Property("attention", "softmax_axis", gives=("attention",)),
        hints=(
            "Which sums are 1? And with which sizes of n and m can rows and columns be told apart?",
            "Without looking at weights: if all values are 1, what is every output? Or: may your answer depend on who "
            "else is asking?",
        ),
    ),
    Exercise(
        "reads_the_values",
        "write the property that kills this bug",
        difficulty=2,
        minutes=8,
        task="reads_the_values(attention) -> True where values are mixed, False where keys are mixed in their place",
        grader=Property("attention", "keys_as_values", gives=("attention",)),
        hints=(
            "The output is linear in V. What does that say of v and 2 v?",
            "If the bug lives: it can only be where k and v have one shape, or shapes would give it away. Which shapes "
            "did you try?",
        ),
    ),
)
