"""Performer: softmax attention by random features."""

from typing import Any

import numpy as np

from ..common import tolerance
from ..families import averages, causal, onto_itself
from ..property import close, demand, largest
from .builder import CaseDrawer, SpecBuilder, Subject
from .linear_attention import FORMS, equal_forms, seen

states = SpecBuilder("performer_attention")
averages(states, seen)
causal(states, *"qkv", of=lambda case: onto_itself(case) | {"causal": True, "keys": None},
       hint="Which maximum is subtracted from a key's exponents: does it include later keys?")  # fmt: skip
equal_forms(states, FORMS, hint="By how much does a sum shrink when a larger key comes, and how often?", atol=tolerance)


def case(draw: CaseDrawer) -> dict[str, Any]:
    causal, n, d, m = draw.choose((True, False)), draw.tokens(), draw.size(), draw.tokens()
    m = n if causal else m
    q, k = (draw.array(*draw.lead, rows, d) for rows in (n, m))
    v, W = draw.array(*draw.lead, m, draw.size_like(d)), draw.array(draw.size_like(d), d)
    keys = draw.mask(*draw.choose(((*draw.lead, m), (m,)))) if draw.flag() else None
    return {"q": q, "k": k, "v": v, "W": W, "causal": causal, "keys": keys, "form": draw.choose(FORMS)}


@states("exact", "keys that are padding move nothing", gravity="leak",
        hint="Is the largest exponent taken over all keys, or over the real ones?")
def padding(op: Subject, **case: Any) -> None:
    keys = np.arange(case["k"].shape[-2]) % 3 != 2
    noise = {name: np.where(keys[:, None], case[name], case[name].dtype.type(9)) for name in "kv"}
    first, other = op(**case | {"keys": keys}), op(**case | {"keys": keys} | noise)
    demand(np.array_equal(first, other), "a key that is padding moves the output")


@states("rounding", "for keys and queries of any length, equal values come out unchanged", "extremes",
        hint="exp overflows, or all features of a key vanish: what may be subtracted?")
def long_keys(op: Subject, **case: Any) -> None:
    large = {name: 30 * case[name] for name in "qk"} | {"v": np.ones_like(case["v"])}
    out = op(**case | large)
    some = np.any(seen(case), axis=-1)[..., None].astype(float)
    close(out, np.broadcast_to(some, out.shape), tolerance(SPEC, case), "out")


def scale(case: dict[str, Any]) -> float:
    """An exponent's error is that of sums as large as |W| |x| d and |x|² d; it multiplies v."""
    x = largest(case["q"], case["k"])
    return 4 * (largest(case["W"]) * x + x**2) * largest(case["v"])


SPEC = states.spec(
    "out_i = Σ_j (φ(q_i)·φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j), φ(x) = exp(W x̂ - |x̂|²/2), x̂ = x d^(-1/4), causal: over "
    "j <= i",
    "performer_attention(q, k, v, W, causal=True, keys=None, form='chunked') -> out first: q (..., n, d), "
    "k (..., m, d), v (..., m, e), W (features, d)",
    "keys broadcasts to (..., m), True = a real key; a query that may look at nothing gets zeros",
    case=case,
    outputs=("out",),
    wrt=("q", "k", "v"),
    scale=scale,
)
