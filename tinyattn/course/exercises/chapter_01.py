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


# --- my_softmax: what readers write that the zoo does not know ------------------------------------------------------


def _shares(s: Any) -> Any:
    """Divides the logits themselves by their sum."""
    return s / np.where(np.sum(s, axis=-1, keepdims=True) == 0, 1, np.sum(s, axis=-1, keepdims=True))


def _squares(s: Any) -> Any:
    return s**2 / np.maximum(np.sum(s**2, axis=-1, keepdims=True), 1e-300)


def _hard(s: Any) -> Any:
    """All the weight to the largest."""
    return np.eye(s.shape[-1], dtype=s.dtype)[np.argmax(s, axis=-1)]


def _logistic(s: Any) -> Any:
    return 1 / (1 + np.exp(-s))


def _worst_wins(s: Any) -> Any:
    return ops.softmax(-s)


def _sharper(s: Any) -> Any:
    return ops.softmax(2 * s)


def _first_axis(s: Any) -> Any:
    e = np.exp(s - np.max(s, axis=0, keepdims=True))
    return e / np.sum(e, axis=0, keepdims=True)


WRONG_SOFTMAX = (
    (_shares, "Can a logit be negative?", "The logits are divided by their sum: the exponential is missing."),
    (_squares, "Add 1 to all logits. Do your weights stay?", "Squares are divided by their sum."),
    (_hard, "If the second best key trails by 0.1 only, how much weight does it get?",
     "All the weight goes to the largest logit; softmax gives each key its share."),
    (_logistic, "What does each row of your weights sum to?",
     "Each logit is treated alone, by the logistic function; the keys of a row share a sum of 1."),
    (_worst_wins, "Which key should get the most weight?", "There is a minus too many in the exponential."),
    (_sharper, "At which temperature is this softmax?", "The logits are multiplied by 2: that is temperature 1/2."),
    (_first_axis, "What is a row of an array with three axes?", "Softmax runs along the first axis, not the last."),
)  # fmt: skip


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


TEMPTING = (
    (with_the_zoos("no_scale"), "What comes between the dot products and softmax?",
     "The logits are not divided by √d."),
    (with_the_zoos("scale_d"), "By what did step 2 divide, for d = 4?", "The logits are divided by d, not by √d."),
    (with_the_zoos("scale_mult"), "Are your logits larger or smaller than the dot products?", "You multiply by √d."),
    (with_the_zoos("scale_of_keys"), "What would your divisor be if the sentence had more words?",
     "You divide by the root of the number of words; d is the width of a query."),
    (with_the_zoos("softmax_axis"), "What does each row of your weights sum to?",
     "Softmax runs along the queries, the second last axis; it belongs along the keys, the last one."),
    (with_the_zoos("softmax_flat"), "What does each row of your weights sum to?",
     "One softmax runs over the whole matrix; each row needs its own."),
    (with_the_zoos("cosine"), "Does a longer query change your weights? Should it?",
     "Queries and keys are brought to length 1 first; the dot product takes them as they are."),
    (_queries_and_keys_exchanged, "In your products, does row i belong to the query of token i?",
     "W_q makes the keys, and W_k the queries."),
    (_keys_and_values_exchanged, "Which of the three matrices may have another width than the others?",
     "W_k makes the values, and W_v the keys."),
    (_transposed, "Tokens are rows: which side of x does a matrix stand on?",
     "The matrices are transposed: q = x W_q, with W_q of shape (D, d)."),
    (_keys_as_values, "What is averaged in step 4?", "The keys are averaged; it should be the values, x W_v."),
    (_values_as_keys, "What is each query compared with?",
     "Queries are compared with the values; it should be the keys, x W_k."),
    (_exponentials, "What does each row of your weights sum to?", "The exponentials are not divided by their sum."),
    (_scaled_by_the_model, "Which vectors does the dot product run over, and how wide are they?",
     "The logits are divided by √D, the root of a token's width; d is the width of a query."),
    (_scaled_by_the_values, "What does a logit know of the values?",
     "The logits are divided by the root of a value's width; d is the width of a query."),
    (_tokens_as_values, "What does W_v do in your code?", "The tokens themselves are averaged; it should be x W_v."),
    (_one_projection, "What does W_k do in your code?", "W_q makes the queries and the keys; the keys are x W_k."),
    (_without_projections, "What do W_q and W_k do in your code?",
     "Tokens are compared as they are; it should be x W_q with x W_k."),
    (_scores_as_weights, "Can an attention weight be negative?", "The logits are used as weights: softmax is missing."),
    (_scaled_too_late, "What does each row of your weights sum to?",
     "The division by √d comes after softmax, not before."),
    (_other_way_round, "out = p v: which axis of p belongs to the keys?", "The weights are transposed before the sum."),
    (_worst_first, "Which key gets the most weight, the best or the worst?", "The logits have the wrong sign."),
    (_scores_for_weights, "The output is right. Do the rows of what you return beside it sum to 1?",
     "You return the logits beside the output; it should be the weights, after softmax."),
    (_without_itself, "Is the diagonal of your weights 0?", "A token cannot see itself; it is one of its own keys."),
)  # fmt: skip


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
                (lambda: math.log(9) / 2, "What you computed multiplies the logits. Is that τ, or 1/τ?"),
                (lambda: 2 / math.log(10), "You compared 0.9 with 1. How much weight does the other key have?"),
                (lambda: math.log(9), "That is the lead that is needed at temperature 1. But what is the lead here?"),
                (lambda: 2 * math.log(9), "At temperature 1 it gets 88 %. For 90 %, must it be lower or higher?"),
            ),
        ),
        hints=(
            "The two weights are 0.9 and 0.1. What is their ratio, and what does softmax say that it is?",
            "The ratio of two weights is e to the power of (the difference of their logits) / τ. Set it to 0.9 / 0.1, "
            "and take the logarithm on both sides.",
        ),
        why="e^(2/τ) = 9, so τ = 2 / ln 9. A weight knows nothing but the lead, divided by the temperature.",
    ),
    Exercise(
        "my_softmax",
        "write the op",
        difficulty=2,
        minutes=8,
        task="my_softmax(s) -> p, along the last axis",
        grader=Function("softmax", tempting=WRONG_SOFTMAX, also=_of_one_row),
        hints=(
            "What may you subtract from all logits of a row without changing its weights? Which choice keeps every "
            "exponential at most 1?",
            "Subtract each row's own largest logit, s.max(axis=-1, keepdims=True); take exponentials; divide by their "
            "sum along the same axis. keepdims=True keeps the axis, with length 1, so that the shapes fit.",
        ),
        why="Only differences count, so the largest logit of a row may be moved to 0: its exponential is 1, and no "
        "other is larger. Those that underflow to 0 had no weight worth a float.",
    ),
    Exercise(
        "self_lookup",
        "write the op",
        difficulty=2,
        minutes=10,
        task="self_lookup(x, W_q, W_k, W_v) -> out, p",
        grader=Function(SELF_LOOKUP, tempting=TEMPTING),
        hints=(
            "Do the example on paper, line by line: q, k, v, s, p, out. Which of your lines is the first to differ?",
            "Write a line for each of q, k, v, s, p, out. k.swapaxes(-1, -2) exchanges the last two axes only, "
            "whatever stands before them; d is the length of q's last axis.",
        ),
        why="These are the four steps, with axes counted from the end: so the same lines do one sentence and a batch.",
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
                (lambda: 0.0, "The logits are 0. But what is softmax of three equal numbers?"),
                (lambda: sum(VALUES), "That is the sum of the values. What must the weights sum to?"),
                (lambda: max(VALUES), "Which key would have to lead for this?"),
                (lambda: VALUES[0], "That is the value of the first key. Does softmax know which key comes first?"),
                (lambda: VALUES[1], "That is the median of the values. What is their mean?"),
            ),
        ),
        hints=(
            "What is the dot product of a vector of zeros with any key?",
            "Three equal logits give three equal weights, and these sum to 1.",
        ),
        why="The weights are 1/3 each, whatever the keys are, so the output is the mean of the values.",
    ),
    Exercise(
        "normalises_over_keys",
        "write the property that kills this bug",
        difficulty=2,
        minutes=8,
        task="normalises_over_keys(attention) -> True if each query's weights sum to 1, False if softmax ran along the "
        "queries",
        grader=Property("attention", "softmax_axis", gives=("attention",)),
        hints=(
            "Which sums of the weights are 1 in a correct attention? With which numbers of queries and keys do the "
            "sums of rows and of columns differ?",
            "Draw several queries and several keys, call out, p = attention(q, k, v), and test that p.sum(axis=-1) "
            "is near 1. Or leave the weights alone: if all values are 1, every output must be 1.",
        ),
        why="An average of ones is one. If columns sum to 1 instead of rows, the outputs are the rows' sums, "
        "and these are something else.",
    ),
    Exercise(
        "reads_the_values",
        "write the property that kills this bug",
        difficulty=2,
        minutes=8,
        task="reads_the_values(attention) -> True if values are averaged, False if keys are averaged in their place",
        grader=Property("attention", "keys_as_values", gives=("attention",)),
        hints=(
            "With which shapes of k and v does the bug happen at all? Are yours so?",
            "Compare attention(q, k, 2 * v)[0] with 2 * attention(q, k, v)[0]. Give k and v the same shape: with other "
            "shapes the bug does not happen.",
        ),
        why="The weights come from q and k alone, so doubled values give doubled outputs. An attention that never "
        "reads v gives the same output twice.",
    ),
)
