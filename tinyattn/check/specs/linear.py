"""The linear map of every token."""

from typing import Any

import numpy as np

from ..families import linear_in
from ..property import close, largest, rounding
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("linear")
linear_in(states, "x", of=lambda case: case | {"b": None}, name="additive", says="without b it is linear in x",
          hint="Is anything added besides b, or not linear?")  # fmt: skip


def case(draw: CaseDrawer) -> dict[str, Any]:
    i = draw.size()
    o = draw.size_like(i)
    x = draw.array(*draw.lead, i) if draw.flag() else draw.array(*draw.lead, draw.size_like(o), i)
    return {"x": x, "W": draw.array(i, o), "b": draw.array(o) if draw.flag() else None}


@states("rounding", "every token is mapped alike, whatever its neighbours", hint="Does a token see its neighbour?")
def tokens_apart(op: Subject, x: np.ndarray, W: np.ndarray, b: np.ndarray | None) -> None:
    if x.size:
        alone = op(x.reshape(-1, x.shape[-1])[:1], W, b)
        close(op(x, W, b).reshape(-1, W.shape[1])[:1], alone, _tolerance(x, W), "the first token's y")


@states("rounding", "db is the sum of dy over all tokens, dW the sum of outer products x dyᵀ", "gradients",
        hint="Every token of every batch used W and b: their gradients are sums over all of them.")
def sums_over_tokens(op: Subject, x: np.ndarray, W: np.ndarray, b: np.ndarray | None) -> None:
    bias = np.zeros(W.shape[1], x.dtype) if b is None else b
    dy = np.cos(np.arange(x.size // x.shape[-1] * W.shape[1])).reshape(*x.shape[:-1], W.shape[1]).astype(x.dtype)
    gradients = op.gradients(op.fit({"x": x, "W": W, "b": bias}), dy)
    flat = dy.reshape(-1, W.shape[1]).astype(float)
    if "b" in gradients:
        close(gradients["b"], np.sum(flat, axis=0), 10 * _tolerance(x, W), "db")
    close(gradients["W"], x.reshape(-1, x.shape[-1]).astype(float).T @ flat, 10 * _tolerance(x, W), "dW")


def _tolerance(x: np.ndarray, W: np.ndarray) -> float:
    return rounding(x.dtype, x.size, 4 * largest(x, W) ** 2)


SPEC = states.spec(
    "y = x W + b",
    "linear(x, W, b=None): tokens are rows, x (..., i), W (i, o), b (o,)",
    case=case,
    wrt=("x", "W", "b"),
    but=" (db may be returned even so)",
)
