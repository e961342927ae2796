"""Additive scores, of queries and keys."""

from typing import Any

import numpy as np

from ..common import tolerance
from ..families import linear_in
from ..property import close, demand
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("additive_scores")
linear_in(states, "w")


def case(draw: CaseDrawer) -> dict[str, Any]:
    n, d = draw.tokens(), draw.size()
    m = draw.size_like(n)
    return {"q": draw.array(*draw.lead, n, d), "k": draw.array(*draw.lead, m, d), "w": draw.array(d)}


@states("rounding", "exchanging queries and keys transposes s", hint="Is it q + k, or q - k?")
def exchanged(op: Subject, **case: Any) -> None:
    swapped = op(**case | {"q": case["k"], "k": case["q"]})
    close(swapped.swapaxes(-1, -2), op(**case), tolerance(SPEC, case), "s of keys and queries")


@states("rounding", "for queries and keys of any size, no score exceeds Σ |w|", "extremes", hint="What bounds tanh?")
def bounded(op: Subject, **case: Any) -> None:
    s = op(**case | {"q": 100 * case["q"], "k": 100 * case["k"]})
    demand(np.all(np.abs(s) <= np.sum(np.abs(case["w"])) + tolerance(SPEC, case)), "a score is larger than Σ |w|")


@states("rounding", "a score depends on one query and one key", gravity="leak", hint="Which pair does s_ij belong to?")
def pairs_apart(op: Subject, **case: Any) -> None:
    s = op(**case)
    for i in range(case["q"].shape[-2]):
        row = op(**case | {"q": case["q"][..., i : i + 1, :].copy()})
        close(row, s[..., i : i + 1, :], tolerance(SPEC, case), f"row {i} of s")


SPEC = states.spec(
    "s_ij = w · tanh(q_i + k_j)",
    "additive_scores(q, k, w) -> s: q (..., n, d), k (..., m, d), w (d,), s (..., n, m)",
    case=case,
    outputs=("s",),
    wrt=("q", "k", "w"),
)
