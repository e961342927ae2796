"""LayerNorm followed by a linear map, as one op."""

from typing import Any

import numpy as np

from ... import ops
from ..common import tolerance, widened
from ..families import linear_in, normaliser, tokens_apart
from ..property import close, largest
from . import layer_norm
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("norm_linear")
tokens_apart(states)
normaliser(states)
linear_in(states, "W", of=lambda case: case | {"b": None}, hint="Does W multiply x_hat, or x_hat ⊙ γ + β?")


def case(draw: CaseDrawer) -> dict[str, Any]:
    normed = layer_norm.case(draw)
    i, eps = len(normed["gamma"]), normed.pop("eps")
    W = draw.array(i, draw.size_like(i))
    return {**normed, "W": W, "b": draw.array(W.shape[1]) if draw.flag() else None, "eps": eps}


@states("rounding", "adding a number to a token, even a large one, changes nothing", "extremes",
        hint="With γ ⊙ W in place of W, is x still centred first, in a separate pass?")
def shift(op: Subject, **case: Any) -> None:
    """With whole numbers, so that float32 is exact too."""
    case |= {"x": np.round(8 * case["x"])}
    moved = case | {"x": case["x"] + case["x"].dtype.type(8192)}
    close(op(**moved), ops.norm_linear(**widened(moved))[0], tolerance(SPEC, moved), "y")


@states("rounding", "its gradients are those of LayerNorm followed by a linear map", "gradients",
        hint="γ scales rows of W and β moves the bias: which part of dV belongs to dW, and which to dγ?")
def one_after_the_other(op: Subject, **case: Any) -> None:
    wide = widened(case)
    h, x_hat, rstd = ops.layer_norm(*(wide[name] for name in ("x", "gamma", "beta", "eps")))
    dy = np.cos(np.arange(h[..., 0].size * wide["W"].shape[1])).reshape(*h.shape[:-1], -1)
    dh, dW, db = ops.linear_backward(dy, h, wide["W"])
    expected = dict(zip(SPEC.wrt, (*ops.layer_norm_backward(dh, x_hat, rstd, wide["gamma"]), dW, db), strict=True))
    for name, g in op.gradients(case, dy.astype(case["x"].dtype)).items():
        close(g, expected[name], 10 * tolerance(SPEC, case) * largest(expected[name]), f"d{name}")


def scale(case: dict[str, Any]) -> float:
    return layer_norm.scale(case) * largest(case["W"]) * len(case["W"]) + largest(case["b"])


SPEC = states.spec(
    "y = LN(x) W + b, LN(x) = (x - mean) / √(variance + eps) ⊙ γ + β",
    "norm_linear(x, gamma, beta, W, b=None, eps=1e-5) -> y, x_hat, rstd (y alone is enough): x (..., i), gamma and beta "
    "(i,), W (i, o), b (o,), rstd (..., 1)",
    "the biased variance (divided by i), eps inside the root",
    case=case,
    outputs=("y", "x_hat", "rstd"),
    wrt=("x", "gamma", "beta", "W", "b"),
    scale=scale,
    special_cases=lambda: [
        {**case, "W": np.cos(np.arange(12.0)).reshape(4, 3).astype(case["x"].dtype), "b": None}
        for case in layer_norm.special_cases()
    ],
)
