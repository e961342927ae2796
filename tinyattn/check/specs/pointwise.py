"""Pointwise attention: SiLU of scores, without softmax."""

from typing import Any

import numpy as np

from ..common import tolerance
from ..families import causal, linear_in, onto_itself
from ..property import close, demand, largest, same_bits
from . import attention
from .builder import SpecBuilder, Subject

states = SpecBuilder("pointwise_attention")
NAMES = ("q", "k", "v", "mask", "bias")


def case(draw: Any) -> dict[str, Any]:
    drawn = attention.case(draw)
    return {name: drawn[name] for name in NAMES}


def special_cases() -> list[dict[str, Any]]:
    """Those of attention: a query without keys, large scores, scores far below zero."""
    return [{name: drawn[name] for name in NAMES} for drawn in attention.special_cases()]


def size(case: dict[str, Any]) -> float:
    """Weights grow with the scores, as those of a softmax do not."""
    score = case["q"].shape[-1] * largest(case["q"]) * largest(case["k"]) + largest(case["bias"]) + 1
    return 4 * score * largest(case["q"], case["k"], case["v"], 1.0)


def _mask_of(case: dict[str, Any], *seen: np.ndarray) -> list[dict[str, Any]]:
    """The case under each of these masks (m,), without others."""
    return [case | {"mask": keys[None]} for keys in seen]


@states("rounding", "what a query takes from two sets of keys is what it takes from each, weighed by their sizes",
        hint="Does a key's weight depend on another key's score? Softmax's does.")  # fmt: skip
def keys_apart(op: Subject, **case: Any) -> None:
    m = case["k"].shape[-2]
    some = np.arange(m) % 3 == 0
    one, other, both = (op(**case) for case in _mask_of(case, some, ~some, np.ones(m, bool)))
    share = np.mean(some).astype(one.dtype)
    close(both, share * one + (1 - share) * other, 3 * tolerance(op.spec, case), "out")


@states("rounding", "with scores of 0 every output is 0", hint="silu(0) = 0: what does a pair without a score weigh?")
def no_scores(op: Subject, **case: Any) -> None:
    out = op(**case | {"q": np.zeros_like(case["q"]), "bias": None})
    demand(not np.any(out), "an output is not 0")


@states("rounding", "duplicating all keys and values changes nothing", hint="Sum and number of keys double.")
def duplicated_keys(op: Subject, **case: Any) -> None:
    twice = case | {name: np.concatenate([case[name], case[name]], axis=-2) for name in "kv"}
    for name in ("mask", "bias"):
        if case[name] is not None:
            wide = np.broadcast_to(case[name], (*case[name].shape[:-1], case["k"].shape[-2]))
            twice[name] = np.concatenate([wide, wide], axis=-1)
    close(op(**twice), op(**case), 2 * tolerance(op.spec, case), "out")


linear_in(states, "v", name="linear_in_values", hint="The weights must not depend on v.")
causal(states, "k", "v", of=lambda case: _causal(case), hint="Change the last token: which outputs moved?")


def _causal(case: dict[str, Any]) -> dict[str, Any]:
    case = onto_itself(case)
    return case | {"mask": np.tri(case["q"].shape[-2], dtype=bool), "bias": None}


@states("exact", "a hidden key and its value move no output", hint="Is each hidden weight exactly 0?", gravity="leak")
def hidden_content(op: Subject, **case: Any) -> None:
    (case,) = _mask_of(case, np.arange(case["k"].shape[-2]) > 0)
    k, v = case["k"].copy(), case["v"].copy()
    k[..., 0, :], v[..., 0, :] = 100, -1000
    same_bits(op(**case | {"k": k, "v": v}), op(**case), "out")


@states("exact", "a hidden key and its value receive no gradient", "gradients", gravity="leak",
        hint="silu' is not 0 where silu is: what does the mask multiply in your backward?")  # fmt: skip
def hidden_gradient(op: Subject, **case: Any) -> None:
    (case,) = _mask_of(case, np.arange(case["k"].shape[-2]) > 0)
    gradients = op.gradients(case, np.ones((*case["q"].shape[:-1], case["v"].shape[-1]), case["q"].dtype))
    demand(not np.any(gradients["k"][..., 0, :]), "a hidden key has a gradient")
    demand(not np.any(gradients["v"][..., 0, :]), "a hidden value has a gradient")


@states("exact", "a query that may look at nothing gets zeros", "extremes", hint="0 keys: what do you divide by?")
def nothing_to_look_at(op: Subject, **case: Any) -> None:
    mask = np.ones((case["q"].shape[-2], case["k"].shape[-2]), dtype=bool)
    mask[0] = False
    demand(not np.any(op(**case | {"mask": mask})[..., 0, :]), "the output of a query without keys is not 0")


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
)  # fmt: skip
