"""The associative scan: a first-order linear recurrence, bracketed in any way."""

from typing import Any

import numpy as np

from .. import oracles
from ..common import ours_of
from ..contrast import right_up_to
from ..families import causal, linear_in
from ..property import close, rounding
from .builder import CaseDrawer, SpecBuilder, Subject
from .linear_attention import equal_forms

states = SpecBuilder("associative_scan")
FORMS = ("sequential", "chunked", "doubling", "tree")
causal(states, "a", "b", hint="Which tokens does h_t depend on?")
linear_in(states, "b", of=lambda case: case | {"h0": None})
equal_forms(states, FORMS, hint="How do two tokens in a row change a state?", atol=lambda _, case: _tolerance(case))


def case(draw: CaseDrawer) -> dict[str, Any]:
    n, d = draw.tokens(high=11), draw.size(high=4)
    a, b = draw.array(*draw.lead, n, d), draw.array(*draw.lead, n, d)
    h0 = draw.array(*draw.lead, d) if draw.flag() else None
    return {"a": np.asarray(a / 2, a.dtype), "b": b, "h0": h0, "form": draw.choose(FORMS)}


@states("rounding", "a scan can continue from its last state", "extremes", hint="Which decays multiply h0?")
def goes_on(op: Subject, **case: Any) -> None:
    half = case["a"].shape[-2] // 2
    if not half:
        return
    early, late = ({x: case[x][..., part, :] for x in "ab"} for part in (slice(half), slice(half, None)))
    h0 = op(**case | early)[..., -1, :].copy()
    close(op(**case | late | {"h0": h0}), op(**case)[..., half:, :], _tolerance(case), "h")


def _tolerance(case: dict[str, Any]) -> float:
    return rounding(case["a"].dtype, 10 * case["a"].size, SPEC.scale(case))


def _scale(case: dict[str, Any]) -> float:
    """A bound on the states."""
    h0 = None if case["h0"] is None else np.abs(case["h0"])
    return 1 + float(np.max(oracles.associative_scan(np.abs(case["a"]), np.abs(case["b"]), h0), initial=0))


def remark(op: Subject, **_: Any) -> str:
    """The number of tokens from which on it is wrong."""
    a, b = np.random.default_rng(0).standard_normal((2, 513, 3))

    def right(n: int) -> bool:
        case = op.fit({"a": a[:n] / 2, "b": b[:n], "h0": None, "form": "tree"})
        return bool(np.allclose(op(**case), ours_of(SPEC, case)[0], rtol=0, atol=1e-6))

    tokens = right_up_to(right)
    if tokens is None:
        return ""
    return f"Yours is right for {tokens[0]} tokens, and wrong for {tokens[1]}: (a, b), then (a', b'), is (a a', a' b + b')."


SPEC = states.spec(
    "h_t = a_t ⊙ h_{t-1} + b_t",
    "associative_scan(a, b, h0=None, form='tree') -> h: a and b (..., n, d), h0 (..., d) or None for zeros, "
    "h (..., n, d)",
    case=case,
    outputs=("h",),
    wrt=("a", "b", "h0"),
    scale=_scale,
    remark=remark,
)
