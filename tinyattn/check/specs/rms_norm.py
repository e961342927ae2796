"""Root-mean-square normalisation."""

from typing import Any

import numpy as np

from .. import oracles
from ..common import tolerance
from ..families import linear_in, normaliser, tokens_apart
from ..property import close, largest
from . import layer_norm
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("rms_norm")
tokens_apart(states)
normaliser(states)
linear_in(states, "gamma", hint="Is anything added to the gain?")


def case(draw: CaseDrawer) -> dict[str, Any]:
    return {name: x for name, x in layer_norm.case(draw).items() if name != "beta"}


@states("rounding", "dx ⊙ x_hat sums to r³ eps Σ g ⊙ x_hat", "gradients",
        hint="Scaling x changes almost nothing, so dx · x_hat is almost 0. Is a mean subtracted?")
def gradient_along_x_hat(op: Subject, **case: Any) -> None:
    _, x_hat, r = oracles.rms_norm(case["x"].astype(float), case["gamma"], case["eps"])
    dy = np.cos(np.arange(case["x"].size).reshape(case["x"].shape)).astype(case["x"].dtype)
    dx = op.gradients(case, dy)["x"]
    expected = np.sum(dy * case["gamma"] * x_hat, axis=-1) * r[..., 0] ** 3 * case["eps"]
    close(np.sum(dx * x_hat, axis=-1), expected, 10 * tolerance(SPEC, case) * largest(r), "dx along x_hat of token ")


def scale(case: dict[str, Any]) -> float:
    """x and its rounding error are multiplied by r and γ."""
    r = 1 / np.sqrt(np.mean(case["x"].astype(float) ** 2, axis=-1) + case["eps"]) if case["x"].size else 1.0
    return 4 * largest(np.asarray(r)) * largest(case["x"]) * largest(case["gamma"])


SPEC = states.spec(
    "y = x_hat ⊙ γ, x_hat = x · r, r = 1 / √(mean(x²) + eps), over the last axis",
    "rms_norm(x, gamma, eps=1e-5) -> y, x_hat, r (y alone is enough): x (..., d), r (..., 1)",
    case=case,
    outputs=("y", "x_hat", "r"),
    wrt=("x", "gamma"),
    scale=scale,
    special_cases=lambda: [
        {"x": np.array([[0.0] * 4, [2.0] * 4, [1e-3, 0.0, -1e-3, 2e-3]]), "gamma": np.linspace(0.5, 2, 4), "eps": 1e-5}
    ],
    choices=("single",),
)
