"""LayerNorm and the linear map that reads it, as one."""

from __future__ import annotations

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
linear_in(states, "W", of=lambda case: case | {"b": None}, hint="What is multiplied by W: x_hat, or x_hat ⊙ γ + β?")


def case(draw: CaseDrawer) -> dict[str, Any]:
    normed = layer_norm.case(draw)
    i, eps = len(normed["gamma"]), normed.pop("eps")
    W = draw.array(i, draw.size_like(i))
    return {**normed, "W": W, "b": draw.array(W.shape[1]) if draw.flag() else None, "eps": eps}


@states("rounding", "adding one number to a token changes nothing, also where the number is large", "extremes",
        hint="Where γ ⊙ W stands for W, is x still centred first, in a pass of its own?")
def shift(op: Subject, **case: Any) -> None:
    """Whole numbers, so that the sum and its mean are exact in float32 too."""
    case |= {"x": np.round(8 * case["x"])}
    moved = case | {"x": case["x"] + case["x"].dtype.type(8192)}
    close(op(**moved), ops.norm_linear(**widened(moved))[0], tolerance(SPEC, moved), "y")


@states("rounding", "it is the linear map of LayerNorm, one after the other, and so are its gradients", "gradients",
        hint="γ scales rows of W and β moves the bias: what of dV belongs to dW, and what to dγ?")
def one_after_the_other(op: Subject, **case: Any) -> None:
    wide = widened(case)
    h, x_hat, rstd = ops.layer_norm(*(wide[name] for name in ("x", "gamma", "beta", "eps")))
    dy = np.cos(np.arange(h[..., 0].size * wide["W"].shape[1])).reshape(*h.shape[:-1], -1)
    dh, dW, db = ops.linear_backward(dy, h, wide["W"])
    expected = (*ops.layer_norm_backward(dh, x_hat, rstd, wide["gamma"]), dW, db)
    found = op.gradients(case, dy.astype(case["x"].dtype))
    for name, g in zip(SPEC.wrt, expected, strict=True):
        if name in found:
            close(found[name], g, 10 * tolerance(SPEC, case) * largest(g), f"d{name}")


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
        {**given, "W": np.cos(np.arange(12.0)).reshape(4, 3).astype(given["x"].dtype), "b": None}
        for given in layer_norm.special_cases()
    ],
)
