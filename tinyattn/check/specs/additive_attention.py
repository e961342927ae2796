"""Additive attention without a softmax."""

from typing import Any

import numpy as np

from ..common import tolerance
from ..families import causal, linear_in, onto_itself
from ..property import close
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("additive_attention")
linear_in(states, "v", hint="The weights must not depend on the values.")
linear_in(states, "w", hint="The weights are no softmax: twice w is twice each weight.")
causal(states, *"qkv", of=lambda case: onto_itself(case) | {"causal": True}, hint="Where does the sum over keys end?")


def case(draw: CaseDrawer) -> dict[str, Any]:
    causal, n, d = draw.choose((True, False)), draw.tokens(), draw.size()
    m = n if causal else draw.size_like(n)
    q, k = (draw.array(*draw.lead, rows, d) for rows in (n, m))
    v, w = draw.array(*draw.lead, m, draw.size_like(d)), draw.array(d)
    return {"q": q, "k": k, "v": v, "w": w, "causal": causal}


@states("rounding", "where every σ is 1, out is the sum of w times the sum of the allowed values", "extremes",
        hint="Compute σ of a large number: does anything overflow?")
def saturated(op: Subject, **case: Any) -> None:
    v, n = case["v"].astype(float), case["q"].shape[-2]
    seen = np.tri(n, dtype=bool) if case["causal"] else np.ones((n, v.shape[-2]), bool)
    out = op(**case | {"q": np.full_like(case["q"], 2e4), "k": np.full_like(case["k"], -1e4)})
    close(out, np.sum(case["w"], dtype=float) * (seen @ v), tolerance(op.spec, case), "out")


@states("exact", "where every σ is 0, out is 0", "extremes", hint="Compute σ of a large negative number.")
def nothing(op: Subject, **case: Any) -> None:
    out = op(**case | {"q": np.full_like(case["q"], -2e4), "k": np.full_like(case["k"], 1e4)})
    close(out, np.zeros(out.shape), tolerance(op.spec, case), "out")


SPEC = states.spec(
    "out_i = Σ_j a_ij v_j, a_ij = w · σ(q_i + k_j), no softmax; causal: over j <= i",
    "additive_attention(q, k, v, w, causal=True) -> out, weights: q (..., n, d), k (..., m, d), v (..., m, e), "
    "w (d,), out (..., n, e), weights (..., n, m), 0 where not allowed",
    case=case,
    outputs=("out", "weights"),
    wrt=("q", "k", "v", "w"),
)
