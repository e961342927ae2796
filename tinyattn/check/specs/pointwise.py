"""Pointwise attention: SiLU of scores, without softmax."""

from typing import Any

import numpy as np

from ..common import tolerance
from ..families import blind_queries, causal, linear_in
from ..property import close, largest
from . import attention
from .builder import Call, SpecBuilder, Subject

states = SpecBuilder("pointwise_attention")
NAMES = ("q", "k", "v", "mask", "bias")


def case(draw: Any) -> dict[str, Any]:
    drawn = attention.case(draw)
    return {name: drawn[name] for name in NAMES}


def special_cases() -> list[dict[str, Any]]:
    """Those of attention: a query without keys, large scores, scores far below zero."""
    return [{name: drawn[name] for name in NAMES} for drawn in attention.special_cases()]


def size(case: dict[str, Any]) -> float:
    """Weights grow with the scores, unlike a softmax's."""
    score = case["q"].shape[-1] * largest(case["q"]) * largest(case["k"]) + largest(case["bias"]) + 1
    return 4 * score * largest(case["q"], case["k"], case["v"], 1.0)


def _first_hidden(c: Call) -> Call:
    return c(mask=np.arange(c.k.shape[-2])[None] > 0)


@states("rounding", "the output for two sets of keys is the mean of the outputs for each, weighted by the sets' sizes",
        hint="Does a key's weight depend on another key's score? Softmax's does.")  # fmt: skip
def keys_apart(op: Subject, **case: Any) -> None:
    m = case["k"].shape[-2]
    some = np.arange(m) % 3 == 0
    one, other, both = (op(**case | {"mask": keys[None]}) for keys in (some, ~some, np.ones(m, bool)))
    share = np.mean(some).astype(one.dtype)
    close(both, share * one + (1 - share) * other, 3 * tolerance(op.spec, case), "out")


states.law("no_scores", "rounding", "with scores of 0 every output is 0",
        lambda op, c: (not np.any(op(**c(q=np.zeros_like(c.q), bias=None))), "an output is not 0"),
        hint="silu(0) = 0: what does a pair without a score weigh?")
states.law("duplicated_keys", "rounding", "duplicating all keys and values changes nothing",
        lambda op, c: (op(**attention.doubled(c)), op(**c)), times=2, hint="Sum and number of keys double.")
linear_in(states, "v", name="linear_in_values", hint="The weights must not depend on v.")
causal(states, "k", "v", of=attention.looking_back, hint="Change the last token: which outputs moved?")
states.law("hidden_content", "exact", "a hidden key and its value move no output",
        lambda op, c: (op(**c(k=attention.with_row(c.k, 0, 100), v=attention.with_row(c.v, 0, -1000))), op(**c)),
        of=_first_hidden, bits=True, hint="Is each hidden weight exactly 0?", gravity="leak")
states.law("hidden_gradient", "exact", "a hidden key and its value receive no gradient", lambda op, c: [
            (not np.any((g := op.gradients(c, attention.ones_like_out(c)))["k"][..., 0, :]),
             "a hidden key has a gradient"),
            (not np.any(g["v"][..., 0, :]), "a hidden value has a gradient"),
        ], "gradients", of=_first_hidden,
        hint="silu' is not 0 where silu is: what does the mask multiply in your backward?", gravity="leak")
blind_queries(states, "0 keys: what do you divide by?")


@states("rounding", "scores of ±10,000 are safe: silu is then the score, or 0", "extremes",
        hint="exp(10,000) overflows: is your sigmoid safe?")  # fmt: skip
def large_scores(op: Subject, **case: Any) -> None:
    m = case["k"].shape[-2]
    signs = np.where(np.arange(m) % 2, 1, -1).astype(case["q"].dtype)
    q, k = np.full_like(case["q"][..., :1], 100), np.full_like(case["k"][..., :1], 100) * signs[:, None]
    large = case | {"q": q, "k": k, "mask": None, "bias": None}
    expected = np.sum(np.maximum(signs, 0)[:, None] * 1e4 * case["v"].astype(float), axis=-2, keepdims=True) / m
    close(op(**large), np.repeat(expected, q.shape[-2], axis=-2), tolerance(op.spec, large), "out")


POINTWISE_ATTENTION = states.spec(
    "out_i = (1 / N_i) Σ_j silu(q_i · k_j + bias_ij) v_j, over the N_i keys that query i may look at",
    "pointwise_attention(q, k, v, mask=None, bias=None) -> out first: q (..., n, d), k (..., m, d), v (..., m, e)",
    "masks are boolean, True = may look; mask and bias have any shape that broadcasts to (..., n, m)",
    "scores are not divided by √d; silu(s) = s σ(s)",
    "the sum is divided by the number of keys that the query may look at; a query without keys gets zeros",
    case=case, outputs=("out",), wrt=("q", "k", "v", "bias"), scale=size, special_cases=special_cases,
    choices=("all keys",),
)  # fmt: skip
