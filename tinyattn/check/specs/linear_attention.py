"""Linear attention, with φ(x) = ELU(x) + 1."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..families import Case, averages, causal, onto_itself
from ..property import close, rounding
from ..spec import Spec
from ..subject import MissingError, Subject
from .builder import CaseDrawer, SpecBuilder

states = SpecBuilder("linear_attention")
FORMS = ("chunked", "parallel", "recurrent")


def real_keys(mask: np.ndarray, case: dict[str, Any]) -> np.ndarray:
    return mask if case["keys"] is None else mask & case["keys"][..., None, :]


def seen(case: dict[str, Any]) -> np.ndarray:
    n, m = case["q"].shape[-2], case["k"].shape[-2]
    return real_keys(np.tri(n, m, dtype=bool) if case["causal"] else np.ones((n, m), bool), case)


averages(states, seen)
causal(states, *"qkv", of=lambda case: onto_itself(case) | {"causal": True, "keys": None}, hint="Where does the sum over keys end?")


def case(draw: CaseDrawer) -> dict[str, Any]:
    """Queries and keys away from 0, where the second derivative of φ jumps."""
    causal, n, d = draw.choose((True, False)), draw.tokens(), draw.size()
    m = n if causal else draw.size_like(n)
    q, k = (draw.array(*draw.lead, rows, d) for rows in (n, m))
    for x in (q, k):
        x[np.abs(x) < 0.01] = 0.5
    keys = draw.mask(*draw.choose(((*draw.lead, m), (m,)))) if draw.flag() else None
    v = draw.array(*draw.lead, m, draw.size_like(d))
    return {"q": q, "k": k, "v": v, "causal": causal, "keys": keys, "form": draw.choose(FORMS)}


def equal_forms(states: SpecBuilder, every: tuple[str, ...], hint: str, atol: Callable[[Spec, Case], float]) -> None:
    """State that an op gives the same result for each value of its argument `form`."""

    @states("rounding", f"its forms, {', '.join(every)}, give equal results", hint=hint)
    def forms(op: Subject, **case: Any) -> None:
        if "form" in op.lacks:
            raise MissingError(f"{op.spec.function} takes no `form`")
        first = op(**case)
        for form in every:
            close(op(**case | {"form": form}), first, atol(op.spec, case), f"{form}: {op.spec.outputs[0]}")


equal_forms(states, FORMS, hint="Which pairs of a chunk are counted, and which were counted before it?",
            atol=lambda spec, case: rounding(case["q"].dtype, case["q"].size + case["k"].size, spec.scale(case)))  # fmt: skip


SPEC = states.spec(
    "out_i = Σ_j (φ(q_i)·φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j), φ(x) = ELU(x) + 1, causal: over j <= i",
    "linear_attention(q, k, v, causal=True, keys=None, form='chunked') -> out first: q (..., n, d), k (..., m, d), "
    "v (..., m, e)",
    "keys broadcasts to (..., m), True = a real key; a query that may look at nothing gets zeros",
    case=case,
    outputs=("out",),
    wrt=("q", "k", "v"),
    choices=("denominator",),
)
