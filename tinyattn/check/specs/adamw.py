"""A step of AdamW."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import oracles
from ..cases import CaseDrawer
from ..property import close, demand, largest, rounding, same_bits
from ..subject import Subject
from . import adam
from .adam import Moments
from .builder import SpecBuilder

states = SpecBuilder("adamw")
HINT = "λ p is added to the step, beside m̂ / (√v̂ + eps), and not to the gradient."


def case(draw: CaseDrawer) -> dict[str, Any]:
    found = adam.case(draw)
    each = np.abs(draw.array(len(found["vector"])))
    return found | {"weight_decay": draw.choose((0.01, 0.5, 0.0, each))}


@states("exact", "vector and moments are written in place, in their dtype; the gradient is left as it was", "shapes",
        hint="vector -= ... changes the caller's array; vector = vector - ... does not.", gravity="contract")
def in_place(op: Subject, **case: Any) -> None:
    given = _copy(case)
    op(**given)
    same_bits(given["gradient"], case["gradient"], "the gradient that was given")
    same_bits(given["weight_decay"], case["weight_decay"], "the decay that was given")
    demand(given["vector"].dtype == case["vector"].dtype, "the vector's dtype changed")


@states("rounding", "a step does what plain loops do: p -= lr (λ p + m̂ / (√v̂ + eps))", "oracle", hint=HINT)
def oracle(op: Subject, **case: Any) -> None:
    given, dtype = _copy(case), case["vector"].dtype
    op(**given)
    vector, gradient, m, v = (x.astype(float) for x in (case["vector"], case["gradient"], *case["moments"]))
    options = {n: case[n] for n in ("lr", "beta1", "beta2", "eps", "weight_decay") if n in case}
    vector, m, v = oracles.adamw(vector, gradient, m, v, case["step"], **options)
    ratio = largest(np.abs(m) / np.sqrt(v + 1e-30)) if len(m) else 1.0
    close(given["moments"][0], m, rounding(dtype, 1, 4 * largest(m, case["gradient"])), "m")
    close(given["moments"][1], v, rounding(dtype, 1, 4 * largest(v, case["gradient"]) ** 2), "v")
    atol = rounding(dtype, 1, 4 * largest(case["vector"]) + 100 * case["lr"] * min(ratio, 1e3))
    close(given["vector"], vector, atol, "vector")


@states("rounding", "without a gradient, ever, a step leaves 1 - lr λ of every entry, and moments stay 0", hint=HINT)
def decay_alone(op: Subject, **case: Any) -> None:
    zeros = Moments(np.zeros_like(case["vector"]), np.zeros_like(case["vector"]))
    given = _copy(case) | {"gradient": np.zeros_like(case["vector"]), "moments": zeros}
    op(**given)
    left = (1 - case["lr"] * np.asarray(case["weight_decay"], float)) * case["vector"].astype(float)
    close(given["vector"], left, rounding(case["vector"].dtype, 1, 4 * largest(case["vector"])), "the vector")
    same_bits(np.stack(zeros), np.zeros((2, len(left)), case["vector"].dtype), "the moments")


@states("rounding", "the defaults are Adam's, and a decay of 0.01", hint="torch has the same decay, and β₂ = 0.999.")
def defaults(op: Subject, **case: Any) -> None:
    named = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.98, "eps": 1e-8, "weight_decay": 0.01}
    implied, said = _copy(case), _copy(case)
    op(**{n: x for n, x in implied.items() if n not in named} | {"step": 2})
    op(**said | named | {"step": 2})
    close(implied["vector"], said["vector"], rounding(case["vector"].dtype, 1, 1e-3), "vector")


def _copy(case: dict[str, Any]) -> dict[str, Any]:
    return case | {
        "vector": case["vector"].copy(),
        "gradient": case["gradient"].copy(),
        "moments": Moments(*(x.copy() for x in case["moments"])),
        "weight_decay": np.array(case["weight_decay"]) if np.ndim(case["weight_decay"]) else case["weight_decay"],
    }


SPEC = states.spec(
    "vector -= lr · (λ · vector + m̂ / (√v̂ + eps)), with m̂ and v̂ as Adam has them",
    "adamw(vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8, weight_decay=0.01): one step, "
    "counted from 1, written into vector (P,) and moments = (m, v), which can also be reached as moments.m and moments.v",
    "weight_decay is a number, or (P,): one for each entry",
    "the gradient keeps every bit, and nothing is remembered but in the moments",
    "float32 or float64, all arrays of a call alike",
    case=case,
    outputs=("nothing",),
    common=False,
    observe=adam.observe,
)
