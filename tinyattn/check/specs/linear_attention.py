"""Linear attention, with φ(x) = ELU(x) + 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import ops
from .. import oracles
from ..cases import CaseDrawer
from ..property import Property, close, rounding, same_bits, stating
from ..spec import Spec
from ..subject import MissingError, Subject

PROPERTIES: list[Property] = []
states = stating("linear_attention", PROPERTIES)
FORMS = ("chunked", "parallel", "recurrent")


def case(draw: CaseDrawer) -> dict[str, Any]:
    """Away from 0, where the second derivative of φ jumps."""
    causal, n, d = draw.choose((True, False)), draw.size(), draw.size()
    m = n if causal else draw.size_like(n)
    q, k = (draw.array(*draw.lead, rows, d) for rows in (n, m))
    for x in (q, k):
        x[np.abs(x) < 0.01] = 0.5
    keys = draw.mask(*draw.choose(((*draw.lead, m), (m,)))) if draw.flag() else None
    v = draw.array(*draw.lead, m, draw.size_like(d))
    return {"q": q, "k": k, "v": v, "causal": causal, "keys": keys, "form": draw.choose(FORMS)}


@states("rounding", "its forms, parallel, recurrent and chunked, are equal",
        hint="Which pairs of a chunk are counted, and which were counted before it?")
def forms(op: Subject, **case: Any) -> None:
    if "form" in op.lacks:
        raise MissingError("linear_attention takes no `form`")
    first = op(**case)
    for form in FORMS:
        close(op(**case | {"form": form}), first, _tolerance(case), f"{form}: out")


@states("exact", "causal, no later token moves an output by a single bit", hint="Where does the sum over keys end?")
def causal(op: Subject, **case: Any) -> None:
    n = case["q"].shape[-2]
    case = case | {name: case[name][..., :n, :] for name in ("k", "v")} | {"causal": True, "keys": None}
    if case["k"].shape[-2] < n:
        case["q"] = case["q"][..., : case["k"].shape[-2], :]
    out, n = op(**case), case["q"].shape[-2]
    for t in range(1, n):
        moved = {name: case[name].copy() for name in ("q", "k", "v")}
        for x in moved.values():
            x[..., t:, :] += 1
        same_bits(op(**case | moved)[..., :t, :], out[..., :t, :], f"with tokens from {t} on changed, the output")


@states("rounding", "equal values come out as they are, where anything may be looked at",
        hint="The weights of a query sum to 1: divide by the sum of the same weights.")
def constant_values(op: Subject, **case: Any) -> None:
    n, m = case["q"].shape[-2], case["k"].shape[-2]
    seen = np.tri(n, m, dtype=bool) if case["causal"] else np.ones((n, m), bool)
    if case["keys"] is not None:
        seen = seen & case["keys"][..., None, :]
    out = op(**case | {"v": np.ones_like(case["v"])})
    close(out, np.broadcast_to(np.any(seen, axis=-1)[..., None], out.shape).astype(float), _tolerance(case), "out")


def _tolerance(case: dict[str, Any]) -> float:
    return rounding(case["q"].dtype, case["q"].size + case["k"].size, SPEC.scale(case))


SPEC = Spec(
    name="linear_attention",
    says="out_i = Σ_j (φ(q_i)·φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j), φ(x) = ELU(x) + 1, causal: over j <= i",
    function="linear_attention",
    case=case,
    ours=lambda: ops,
    properties=PROPERTIES,
    outputs=("out",),
    oracle=oracles.linear_attention,
    wrt=("q", "k", "v"),
    clauses=(
        "linear_attention(q, k, v, causal=True, keys=None, form='chunked') -> out first: q (..., n, d), k (..., m, d), "
        "v (..., m, e)",
        "keys broadcasts to (..., m), True = a real key; a query that may look at nothing gets zeros",
    ),
)
