"""The associative scan: a first-order linear recurrence, with brackets set in any way."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import oracles
from ..families import causal, linear_in
from ..property import close, rounding
from ..subject import MissingError, Subject
from .builder import CaseDrawer, SpecBuilder

states = SpecBuilder("associative_scan")
FORMS = ("sequential", "chunked", "doubling", "tree")
causal(states, "a", "b", hint="Which tokens has h_t taken in?")
linear_in(states, "b", of=lambda case: case | {"h0": None})


def case(draw: CaseDrawer) -> dict[str, Any]:
    n, d = draw.tokens(high=11), draw.size(high=4)
    a, b = draw.array(*draw.lead, n, d), draw.array(*draw.lead, n, d)
    h0 = draw.array(*draw.lead, d) if draw.flag() else None
    return {"a": np.asarray(a / 2, a.dtype), "b": b, "h0": h0, "form": draw.choose(FORMS)}


@states("rounding", "its forms, sequential, chunked, doubling and tree, are equal",
        hint="What do two tokens in a row make of a state? In which order do they stand?")
def forms(op: Subject, **case: Any) -> None:
    if "form" in op.lacks:
        raise MissingError("associative_scan takes no `form`")
    first = op(**case)
    for form in FORMS:
        close(op(**case | {"form": form}), first, _tolerance(case), f"{form}: h")


@states("rounding", "the last state is where a scan of what follows begins", "extremes",
        hint="Which decays is h0 multiplied by?")
def goes_on(op: Subject, **case: Any) -> None:
    half = case["a"].shape[-2] // 2
    if not half:
        return
    early, late = ({x: case[x][..., part, :] for x in "ab"} for part in (slice(half), slice(half, None)))
    begun = op(**case | early)
    close(op(**case | late | {"h0": begun[..., -1, :].copy()}), op(**case)[..., half:, :], _tolerance(case), "h")


def _tolerance(case: dict[str, Any]) -> float:
    return rounding(case["a"].dtype, 10 * case["a"].size, SPEC.scale(case))


def _scale(case: dict[str, Any]) -> float:
    """The largest state that there could be."""
    h0 = None if case["h0"] is None else np.abs(case["h0"])
    h = oracles.associative_scan(np.abs(case["a"]), np.abs(case["b"]), h0)
    return 1 + float(np.max(h, initial=0))


SPEC = states.spec(
    "h_t = a_t ⊙ h_{t-1} + b_t",
    "associative_scan(a, b, h0=None, form='tree') -> h: a and b (..., n, d), h0 (..., d) or None for zeros, "
    "h (..., n, d)",
    case=case,
    outputs=("h",),
    wrt=("a", "b", "h0"),
    scale=_scale,
)
