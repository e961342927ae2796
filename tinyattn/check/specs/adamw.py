"""A step of AdamW."""

from typing import Any

import numpy as np

from .. import oracles
from ..property import close, largest, same_bits
from ..spec import Form
from .adam import DEFAULTS, Moments, after_step, agrees_with_loops, has_defaults, in_place_of, observe, within
from .adam import case as adam_case
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("adamw")
HINT = "λ p is added to the step, beside m̂ / (√v̂ + eps), and not to the gradient."


def case(draw: CaseDrawer) -> dict[str, Any]:
    drawn = adam_case(draw)
    each = np.abs(draw.array(len(drawn["vector"])))
    return drawn | {"weight_decay": draw.choose((0.01, 0.5, 0.0, each))}


@states("exact", "vector and moments are written in place, in their dtype; the gradient keeps its bits", "shapes",
        hint="vector -= ... changes the caller's array; vector = vector - ... does not.", gravity="contract")
def in_place(op: Subject, **case: Any) -> None:
    stepped = after_step(op, case)
    same_bits(stepped["gradient"], case["gradient"], "the gradient passed in")
    same_bits(stepped["weight_decay"], case["weight_decay"], "the decay passed in")


@states("rounding", "a step does what plain loops do: p -= lr (λ p + m̂ / (√v̂ + eps))", "oracle", hint=HINT)
def oracle(op: Subject, **case: Any) -> None:
    agrees_with_loops(op, oracles.adamw, case, size=4)


@states("rounding", "if all gradients are 0, a step multiplies entries by 1 - lr λ, and moments stay 0", hint=HINT)
def decay_alone(op: Subject, **case: Any) -> None:
    zeros = Moments(np.zeros_like(case["vector"]), np.zeros_like(case["vector"]))
    stepped = after_step(op, case | {"gradient": np.zeros_like(case["vector"]), "moments": zeros})
    left = (1 - case["lr"] * np.asarray(case["weight_decay"], float)) * case["vector"].astype(float)
    close(stepped["vector"], left, within(case, 4 * largest(case["vector"])), "the vector")
    same_bits(np.stack(stepped["moments"]), np.zeros((2, len(left)), case["vector"].dtype), "the moments")


@states("rounding", "the defaults are Adam's, and a decay of 0.01", hint="torch has the same decay, and β₂ = 0.999.")
def defaults(op: Subject, **case: Any) -> None:
    has_defaults(op, case, DEFAULTS | {"weight_decay": 0.01})


SPEC = states.spec(
    "vector -= lr · (λ · vector + m̂ / (√v̂ + eps)), with Adam's m̂ and v̂",
    "adamw(vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8, weight_decay=0.01): one step, "
    "counted from 1, written into vector (P,) and moments = (m, v), which can also be reached as moments.m and moments.v",
    "weight_decay is a number, or (P,): one for each entry",
    "the gradient keeps every bit, and nothing is remembered outside the moments",
    "float32 or float64, all arrays of a call alike",
    case=case,
    outputs=("nothing",),
    choices=("beta2", "decay alone", "eps hat"),
    forms=(Form("a weight_decay for each entry", lambda case: np.ndim(case.get("weight_decay", 0)) > 0),),
    common=False,
    observe=observe,
    loops=(oracles.adamw,),
    of_loops=in_place_of,
)
