"""RWKV's mean of values under weights that decay."""

from typing import Any

import numpy as np

from ..families import causal, linear_in
from ..property import close, demand, largest, rounding
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("wkv")
causal(states, "k", "v", hint="Which values does y_t average?")
linear_in(states, "v", of=lambda case: case | {"mean0": None, "size0": None})


def case(draw: CaseDrawer) -> dict[str, Any]:
    n, d = draw.tokens(), draw.size()
    k, v = (draw.array(*draw.lead, n, d) for _ in range(2))
    before = draw.flag()
    mean0, size0 = (draw.array(*draw.lead, d) if before else None for _ in range(2))
    return {"k": k, "v": v, "w": np.abs(draw.array(d)), "u": draw.array(d), "mean0": mean0, "size0": size0}


@states("rounding", "adding 800 to all keys, and to the size of the past, changes nothing", "extremes",
        hint="exp(800) overflows float64: which maximum is subtracted from the exponent?")
def far_keys(op: Subject, **case: Any) -> None:
    y = op(**case)
    for far in (800.0, -800.0):
        shift = y.dtype.type(far)
        size0 = None if case["size0"] is None else case["size0"] + shift
        moved = op(**case | {"k": case["k"] + shift, "size0": size0})
        close(moved, y, rounding(y.dtype, 10 * y.size, 800 * SPEC.scale(case)), f"with keys moved by {far:g}, y")


@states("rounding", "y is a mean: it lies between the least and the greatest value", hint="Do the weights sum to 1?")
def between(op: Subject, **case: Any) -> None:
    y, v = op(**case | {"mean0": None, "size0": None}), case["v"]
    atol = rounding(y.dtype, 10 * y.size, SPEC.scale(case))
    low, high = (f(v, axis=-2, keepdims=True) for f in (np.min, np.max))
    demand(np.all((y >= low - atol) & (y <= high + atol)), "y lies outside of the values")


@states("rounding", "with an infinite decay and u = 0, y mixes a token with the one before it only", "extremes",
        hint="How often has the last token's weight decayed by w when the next one reads it?")
def one_back(op: Subject, **case: Any) -> None:
    k, v = case["k"], case["v"]
    y = op(**case | {"w": np.full_like(case["w"], 1e4), "u": np.zeros_like(case["u"]), "mean0": None, "size0": None})
    share = 1 / (1 + np.exp(np.minimum(k[..., :-1, :] - k[..., 1:, :], 700)))
    expected = np.concatenate([v[..., :1, :], share * v[..., 1:, :] + (1 - share) * v[..., :-1, :]], axis=-2)
    close(y, expected, rounding(y.dtype, 10 * y.size, SPEC.scale(case)), "y")


SPEC = states.spec(
    "y_t = Σ_s p_ts v_s, p_t = softmax over s <= t of k_s - (t - 1 - s) w, and of k_t + u for s = t, channel by channel",
    "wkv(k, v, w, u, mean0=None, size0=None) -> y first: k and v (..., n, d), w (d,) >= 0, u (d,), y (..., n, d)",
    "mean0 and size0 (..., d) or None: the mean of the past, and the logarithm of its weight, at the first token",
    case=case,
    together=("mean0", "size0"),
    wrt=("k", "v", "w", "u", "mean0", "size0"),
    scale=lambda case: 10 * largest(*(x for x in case.values() if x is not None)) ** 2,
)
