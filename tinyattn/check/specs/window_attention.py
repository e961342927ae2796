"""Attention through a window."""

from typing import Any

import numpy as np

from .. import oracles
from ..families import averages
from ..property import close, rounding, same_bits
from .builder import CaseDrawer, SpecBuilder, Subject
from .linear_attention import real_keys

states = SpecBuilder("window_attention")


def case(draw: CaseDrawer) -> dict[str, Any]:
    n, d = draw.tokens(), draw.size()
    q, k, v = (draw.array(*draw.lead, n, width) for width in (d, d, draw.size_like(d)))
    keys = draw.mask(*draw.choose(((*draw.lead, n), (n,)))) if draw.flag() else None
    window = draw.choose((1, 2, 3, 5, n, n + 3))
    return {"q": q, "k": k, "v": v, "window": window, "causal": draw.choose((True, False)), "keys": keys,
            "scale": draw.choose((None, 0.7))}  # fmt: skip


def seen(case: dict[str, Any]) -> np.ndarray:
    back = np.arange(case["q"].shape[-2])[:, None] - np.arange(case["k"].shape[-2])
    return real_keys((back < case["window"]) & (back >= 0 if case["causal"] else back > -case["window"]), case)


averages(states, seen)


def with_key_moved(case: dict[str, Any], key: int) -> dict[str, Any]:
    moved = case | {name: case[name].copy() for name in ("k", "v")}
    for name in ("k", "v"):
        moved[name][..., key, :] += 1
    return moved


@states("exact", "a token moves the outputs whose window contains it, and no other by a single bit",
        hint="A window of W is the query itself and W - 1 tokens before it: count them.", gravity="leak")
def reach(op: Subject, **case: Any) -> None:
    n, out = case["q"].shape[-2], op(**case)
    for key in (0, n // 2, n - 1):
        blind = ~seen(case | {"keys": None})[:, key]
        moved = op(**with_key_moved(case, key))
        same_bits(moved[..., blind, :], out[..., blind, :], f"with key {key} changed, an output too far from it")


@states("rounding", "with a window of n or more, it is attention", hint="What happens where the window exceeds n?")
def wide_open(op: Subject, **case: Any) -> None:
    n = case["q"].shape[-2]
    q, k, v = (case[name].astype(float) for name in "qkv")
    full, _ = oracles.attention(q, k, v, seen(case | {"window": n}), scale=case["scale"])
    atol = rounding(case["q"].dtype, case["q"].size, SPEC.scale(case))
    for window in (n, n + 1, 10 * n):
        close(op(**case | {"window": window}), full, atol, f"with a window of {window}, out")


SPEC = states.spec(
    "softmax attention in which query i looks at keys j with 0 <= i - j < window (not causal: |i - j| < window)",
    "window_attention(q, k, v, window, causal=True, keys=None, keep=None, rate=0.0, scale=None) -> out first: "
    "q, k (..., n, d), v (..., n, e)",
    "keys broadcasts to (..., n), True = a real key; a query that may look at nothing gets zeros",
    case=case,
    outputs=("out",),
    wrt=("q", "k", "v"),
)
