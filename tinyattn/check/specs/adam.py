"""One step of Adam, in place."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import oracles
from ..cases import CaseDrawer
from ..property import Violation, close, demand, largest, rounding, same_bits
from ..spec import Spec
from ..subject import Subject
from .builder import SpecBuilder

states = SpecBuilder("adam")


class Moments(NamedTuple):
    m: np.ndarray
    v: np.ndarray


def case(draw: CaseDrawer) -> dict[str, Any]:
    n = draw.size(1, 9)
    g = draw.array(n) * draw.dtype(draw.choose((1.0, 0.01, 30.0)))
    step = draw.choose((1, 2, 3, 10, 1000))
    fresh = step == 1
    m = np.zeros_like(g) if fresh else draw.array(n)
    v = np.zeros_like(g) if fresh else np.square(draw.array(n)) + m * m
    options = {"lr": draw.choose((1e-3, 0.1)), "beta1": draw.choose((0.9, 0.5)), "beta2": draw.choose((0.999, 0.98)),
               "eps": draw.choose((1e-8, 1e-3))}
    return {"vector": draw.array(n), "gradient": g, "moments": Moments(m, v), "step": step, **options}


@states("exact", "vector and moments are written in place, in their dtype; the gradient is left as it was", "shapes",
        hint="vector -= ... changes the caller's array; vector = vector - ... does not.", gravity="contract")
def in_place(op: Subject, **case: Any) -> None:
    given = _copy(case)
    op(**given)
    same_bits(given["gradient"], case["gradient"], "the gradient that was given")
    expected = _by_loops(case)
    for what, new, old, right in (
        ("vector", given["vector"], case["vector"], expected[0]),
        ("m", given["moments"][0], case["moments"][0], expected[1]),
        ("v", given["moments"][1], case["moments"][1], expected[2]),
    ):
        should = np.max(np.abs(right - old)) > 1e-4 * largest(old)
        demand(np.any(new != old) or not should, f"{what} was not written to")
    demand(given["vector"].dtype == case["vector"].dtype, "the vector's dtype changed")
    apart = _copy(case)                                                  # every other place of longer arrays
    apart |= {"vector": np.repeat(case["vector"], 2)[::2], "gradient": np.repeat(case["gradient"], 2)[::2]}
    apart["moments"] = Moments(*(np.repeat(x, 2)[::2] for x in case["moments"]))
    op(**apart)
    atol = rounding(m_dtype(case), 1, largest(case["vector"]))
    close(apart["vector"], given["vector"], atol, "a strided vector")
    close(apart["moments"][0], given["moments"][0], rounding(m_dtype(case), 1, largest(case["gradient"], case["moments"][0])), "a strided m")


@states("exact", "equal steps give equal results", "shapes", hint="Is anything remembered between calls?",
        gravity="contract")
def repeatable(op: Subject, **case: Any) -> None:
    first, second = _copy(case), _copy(case)
    op(**first)
    op(**_copy(case) | {"step": case["step"] + 1})
    op(**second)
    same_bits(second["vector"], first["vector"], "the second call's vector")


@states("rounding", "a step does what plain loops do: m̂ / (√v̂ + eps), both moments corrected for their start", "oracle",
        hint="Write down m, v, m̂ and v̂ for one number and two steps.")
def oracle(op: Subject, **case: Any) -> None:
    _as_loops(op, case)


def _as_loops(op: Subject, case: dict[str, Any]) -> None:
    given = _copy(case)
    op(**given)
    vector, m, v = _by_loops(case)
    ratio = largest(np.abs(m) / np.sqrt(v + 1e-30)) if len(m) else 1.0
    close(given["moments"][0], m, rounding(m_dtype(case), 1, 4 * largest(m, case["gradient"])), "m")
    close(given["moments"][1], v, rounding(m_dtype(case), 1, 4 * largest(v, case["gradient"]) ** 2), "v")
    atol = rounding(m_dtype(case), 1, largest(case["vector"]) + 100 * case["lr"] * min(ratio, 1e3))
    close(given["vector"], vector, atol, "vector")


@states("rounding", "the first step has size lr, whatever the gradient's: lr · sign(g)",
        hint="m and v start at 0 and are too small at first: by how much?")
def first_step(op: Subject, **case: Any) -> None:
    for size in (1.0, 1e-3):
        given = _fresh(case, np.sign(case["gradient"]) * size)
        op(**given | {"eps": 1e-20})
        moved = (given["vector"] - case["vector"]).astype(float)
        atol = rounding(m_dtype(case), 1, largest(case["vector"]) + 10 * case["lr"])
        close(moved, -case["lr"] * np.sign(case["gradient"]), atol, "the step")


@states("rounding", "a constant gradient moves every entry by lr at every step",
        hint="At step t both means are too small by 1 - βᵗ: with the right t, for both of them.")
def constant_gradient(op: Subject, **case: Any) -> None:
    given = _fresh(case, np.full_like(case["vector"], 0.5))
    for step in range(1, 6):
        before = given["vector"].copy()
        op(**given | {"step": step, "eps": 1e-20})
        atol = rounding(m_dtype(case), 1, largest(before) + 20 * case["lr"])
        close((given["vector"] - before).astype(float), np.full(len(before), -case["lr"]), atol, f"step {step}")


@states("rounding", "multiplying all gradients, and eps, by one number changes no step",
        hint="m and √v have the gradient's unit, and so must whatever is added to √v.")
def scale_free(op: Subject, **case: Any) -> None:
    steps = []
    for size in (1.0, 2.0**-12, 2.0**12):
        given = _fresh(case, case["gradient"] * case["gradient"].dtype.type(size))
        for step in (1, 2, 3):
            op(**given | {"step": step, "eps": 1e-2 * size})
        steps.append((given["vector"] - case["vector"]).astype(float))
    atol = rounding(m_dtype(case), 1, largest(case["vector"]) + 30 * case["lr"])
    close(steps[1], steps[0], atol, "the step for small gradients")
    close(steps[2], steps[0], atol, "the step for large gradients")


@states("exact", "without a gradient, ever, nothing moves", hint="Is anything added that is no gradient?")
def no_gradient(op: Subject, **case: Any) -> None:
    given = _fresh(case, np.zeros_like(case["gradient"]))
    op(**given)
    same_bits(given["vector"], case["vector"], "the vector")


@states("rounding", "the defaults are lr 1e-3, beta1 0.9, beta2 0.98, eps 1e-8",
        hint="SASRec's beta2 is 0.98; the 0.999 of the Adam paper is another default.")
def defaults(op: Subject, **case: Any) -> None:
    named = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.98, "eps": 1e-8}
    implied, said = _copy(case), _copy(case)
    op(**{n: x for n, x in implied.items() if n not in named} | {"step": 2})
    op(**said | named | {"step": 2})
    close(implied["vector"], said["vector"], rounding(m_dtype(case), 1, 1e-3), "vector")


@states("rounding", "a gradient of 1e-9 still moves the vector by what eps leaves of lr", "extremes",
        hint="eps is added to √v̂, after the correction: multiply all gradients by 1e-9 and see what is left.")
def tiny_gradient(op: Subject, **case: Any) -> None:
    if case["vector"].dtype != np.float64:
        return
    for size in (1e-9, 1e-8, 1e-5):
        given = _fresh(case, np.full_like(case["vector"], size)) | {"eps": 1e-8, "vector": np.zeros_like(case["vector"])}
        op(**given)
        expected = -case["lr"] * size / (size + 1e-8)
        close(given["vector"] / case["lr"], np.full(len(given["vector"]), expected / case["lr"]), 1e-9, "the step / lr")


@states("rounding", "after 3,000 and after 100,000 steps it still does what plain loops do", "extremes",
        hint="βᵗ tends to 0, slowly for β = 0.999, and is never cut off.")
def late(op: Subject, **case: Any) -> None:
    for step in (3_000, 100_000):
        _as_loops(op, case | {"step": step})


@states("rounding", "a vector of 300 is worked on to its end", "extremes", hint="Which entries does the loop reach?", once=True)
def long_vector(op: Subject, **case: Any) -> None:
    rng = np.random.default_rng(0)
    m, v = rng.standard_normal(300), rng.random(300) + 0.1
    arrays = {"vector": rng.standard_normal(300), "gradient": rng.standard_normal(300), "moments": Moments(m, v)}
    _as_loops(op, case | arrays | {"step": 5})


def observe(op: Subject, spec: Spec, case: dict[str, Any]) -> dict[str, Any]:
    """What stands in vector and moments after one step, and after a second one with another gradient."""
    given = _copy(case)
    seen: dict[str, Any] = {}
    named = {n: x for n, x in given.items() if n not in ("lr", "beta1", "beta2", "eps")}
    implied = {n: x for n, x in _copy(case).items() if n in named}
    try:
        op(**implied)
        op(**given)
        seen |= {"vector": given["vector"].copy(), "m": given["moments"][0].copy(), "v": given["moments"][1].copy()}
        seen |= {"implied": implied["vector"], "changed": not np.array_equal(given["gradient"], case["gradient"])}
        given["gradient"] = np.cos(case["gradient"]).astype(case["vector"].dtype)
        op(**given | {"step": case["step"] + 1})
        seen |= {"later": given["vector"].copy(), "later v": given["moments"][1].copy()}
    except Violation as violation:
        overflow = isinstance(violation.__cause__, ArithmeticError)
        seen["forward"] = "overflow" if overflow else f"raises {type(violation.__cause__).__name__}"
    return seen


def _by_loops(case: dict[str, Any]) -> tuple[np.ndarray, ...]:
    """The new vector, m and v, in float64."""
    options = {n: case[n] for n in ("lr", "beta1", "beta2", "eps")}
    vector, gradient, m, v = (x.astype(float) for x in (case["vector"], case["gradient"], *case["moments"]))
    return oracles.adam(vector, gradient, m, v, case["step"], **options)


def _copy(case: dict[str, Any]) -> dict[str, Any]:
    return case | {
        "vector": case["vector"].copy(),
        "gradient": case["gradient"].copy(),
        "moments": Moments(*(x.copy() for x in case["moments"])),
    }


def _fresh(case: dict[str, Any], gradient: np.ndarray) -> dict[str, Any]:
    """The first step of a run with this gradient."""
    zeros = Moments(np.zeros_like(case["vector"]), np.zeros_like(case["vector"]))
    return case | {"vector": case["vector"].copy(), "gradient": gradient, "moments": zeros, "step": 1}


def m_dtype(case: dict[str, Any]) -> Any:
    return case["vector"].dtype


SPEC = states.spec(
    "m = β₁ m + (1 - β₁) g, v = β₂ v + (1 - β₂) g², vector -= lr · m̂ / (√v̂ + eps), m̂ = m / (1 - β₁ᵗ), v̂ = v / (1 - β₂ᵗ)",
    "adam(vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8): one step, counted from 1, written "
    "into vector (P,) and moments = (m, v), which can also be reached as moments.m and moments.v",
    "the gradient keeps every bit, and nothing is remembered but in the moments",
    "float32 or float64, all arrays of a call alike",
    "an error of 1e-8 in float64 is an error",
    case=case,
    outputs=("nothing",),
    common=False,
    observe=observe,
)
