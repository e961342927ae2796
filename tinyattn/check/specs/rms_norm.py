"""Root-mean-square normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import ops
from .. import oracles
from ..cases import CaseDrawer
from ..common import tolerance
from ..families import linear_in, normaliser
from ..property import Property, close, largest, stating
from ..spec import Spec
from ..subject import Subject

PROPERTIES: list[Property] = []
states = stating("rms_norm", PROPERTIES)
normaliser(states)
linear_in(states, "gamma", hint="Is anything added to the gain?")


def case(draw: CaseDrawer) -> dict[str, Any]:
    d = draw.size(1, 8)
    x = draw.array(*draw.lead, d) if draw.flag() else draw.array(*draw.lead, draw.size_like(d), d)
    x = x * draw.dtype(draw.choose((1.0, 3.0, 0.01)))
    return {"x": x, "gamma": draw.array(d), "eps": draw.choose((1e-5, 1e-3, 1e-6, 0.1))}


def special_cases() -> list[dict[str, Any]]:
    """A token of zeros, a constant one, a tiny one."""
    x = np.array([[0.0, 0.0, 0.0, 0.0], [2.0, 2.0, 2.0, 2.0], [1e-3, 0.0, -1e-3, 2e-3]])
    return [{"x": x, "gamma": np.linspace(0.5, 2, 4), "eps": eps} for eps in (1e-5, 0.1)]


@states("rounding", "without gain the mean square of a token is m / (m + eps), with m that of x: 1 but for eps",
        hint="A mean or a sum, a square or its root, the token or what is left of it without its mean?")
def mean_square_one(op: Subject, **case: Any) -> None:
    y = op(**case | {"gamma": np.ones_like(case["gamma"])}).astype(float)
    m = np.mean(case["x"].astype(float) ** 2, axis=-1)
    close(np.mean(y * y, axis=-1), m / (m + case["eps"]), 4 * tolerance(SPEC, case), "the mean square of token ")


@states("rounding", "along x_hat the gradient is what eps leaves: r³ eps Σ g ⊙ x_hat", "gradients",
        hint="Scaling x changes almost nothing, so dx · x_hat is almost 0. And does anything take out the mean?")
def gradient_along_x_hat(op: Subject, **case: Any) -> None:
    _, x_hat, r = oracles.rms_norm(case["x"].astype(float), case["gamma"], case["eps"])
    dy = np.cos(np.arange(case["x"].size).reshape(case["x"].shape)).astype(case["x"].dtype)
    dx = op.gradients(case, dy)["x"]
    expected = np.sum(dy * case["gamma"] * x_hat, axis=-1) * r[..., 0] ** 3 * case["eps"]
    close(np.sum(dx * x_hat, axis=-1), expected, 10 * tolerance(SPEC, case) * largest(r), "dx along x_hat of token ")


def scale(case: dict[str, Any]) -> float:
    """x is multiplied by r and γ; so is its error."""
    r = 1 / np.sqrt(np.mean(case["x"].astype(float) ** 2, axis=-1) + case["eps"]) if case["x"].size else 1.0
    return 4 * largest(np.asarray(r)) * largest(case["x"]) * largest(case["gamma"])


SPEC = Spec(
    name="rms_norm",
    says="y = x_hat ⊙ γ, x_hat = x · r, r = 1 / √(mean(x²) + eps), over the last axis",
    function="rms_norm",
    case=case,
    ours=lambda: ops,
    properties=PROPERTIES,
    outputs=("y", "x_hat", "r"),
    oracle=oracles.rms_norm,
    wrt=("x", "gamma"),
    clauses=(
        "rms_norm(x, gamma, eps=1e-5) -> y, x_hat, r (y alone is enough): x (..., d), r (..., 1)",
        "nothing is centred; eps is inside the root",
    ),
    scale=scale,
    special_cases=special_cases,
)
