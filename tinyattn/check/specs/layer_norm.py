"""Layer normalisation."""

from typing import Any

import numpy as np

from ..families import normaliser, tokens_apart
from ..property import close, largest, rounding
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("layer_norm")
tokens_apart(states)
normaliser(states)


def case(draw: CaseDrawer) -> dict[str, Any]:
    d = draw.size(1, 8)
    x = draw.array(*draw.lead, d) if draw.flag() else draw.array(*draw.lead, draw.size_like(d), d)
    x = x * draw.dtype(draw.choose((1.0, 3.0, 0.01)))
    eps = draw.choose((1e-5, 1e-3, 1e-6, 0.1))
    return {"x": x, "gamma": draw.array(d), "beta": draw.array(d), "eps": eps}


def special_cases() -> list[dict[str, Any]]:
    """A constant token, a tiny one, a large offset, in both precisions."""
    x = np.array([[1.0, 2.0, 4.0, -3.0], [2.0, 2.0, 2.0, 2.0], [1e-3, 0.0, -1e-3, 2e-3]])
    gamma, beta = np.linspace(0.5, 2, 4), np.linspace(-1, 1, 4)
    pairs = ((x[:1], 1e-5), (x, 1e-5), (x * np.ones((2, 1, 1)), 1e-3), (x[:1] + 2.0**27, 1e-5))
    single = {name: array.astype("f") for name, array in (("x", x[:1]), ("gamma", gamma), ("beta", beta))}
    return [*({"x": x, "gamma": gamma, "beta": beta, "eps": eps} for x, eps in pairs), single | {"eps": 1e-5}]


def scale(case: dict[str, Any]) -> float:
    """The subtracted mean has the size of x; the difference is multiplied by rstd."""
    x = case["x"].astype(np.float64)
    rstd = 1 / np.sqrt(np.var(x, axis=-1) + case["eps"]) if x.size else np.ones(1)
    return 4 * largest(x * largest(rstd)) * largest(rstd) * largest(case["gamma"], case["beta"])


@states("rounding", "without gain and shift every token has mean 0", hint="Along which axis is your mean?")
def mean_zero(op: Subject, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float) -> None:
    close(np.mean(_plain(op, x, eps), axis=-1), np.zeros(x.shape[:-1]), _tolerance(x, eps), "the mean of token ")


@states("rounding", "without gain and shift the mean square of a token is variance / (variance + eps): 1 but for eps",
        hint="Biased variance (divide by d), and eps inside the root.")
def variance_one(op: Subject, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float) -> None:
    y = _plain(op, x, eps).astype(float)
    variance = np.var(x.astype(np.float64), axis=-1)
    close(np.mean(y * y, axis=-1), variance / (variance + eps), 10 * _tolerance(x, eps), "the mean square of token ")


@states("rounding", "y is x_hat ⊙ γ + β, β where γ = 0, and x_hat where γ = 1, β = 0",
        hint="Which comes first, gain or shift?")
def gain_and_shift(op: Subject, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float) -> None:
    close(op(x, np.zeros_like(gamma), beta, eps), np.broadcast_to(beta, x.shape), 0, "with γ = 0, y")
    expected = _plain(op, x, eps) * gamma + beta
    close(op(x, gamma, beta, eps), expected, _tolerance(x, eps) * largest(gamma, beta), "y")


@states("rounding", "dx sums to 0, and dx ⊙ x_hat to rstd³ eps Σ g x_hat", "gradients",
        hint="Shifting x changes nothing, so dx must sum to 0; scaling x changes almost nothing, so dx·x_hat is almost 0.")
def gradient_directions(op: Subject, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float) -> None:
    x_hat, rstd = _exact(x, eps)
    dy = np.cos(np.arange(x.size).reshape(x.shape)).astype(x.dtype)
    dx = op.gradients({"x": x, "gamma": gamma, "beta": beta, "eps": eps}, dy)["x"]
    atol = 10 * _tolerance(x, eps) * largest(rstd) * largest(gamma) * largest(x_hat) ** 2
    close(np.sum(dx, axis=-1), np.zeros(x.shape[:-1]), atol, "the sum of dx of token ")
    along = np.sum(dy * gamma * x_hat, axis=-1) * rstd[..., 0] ** 3 * eps
    close(np.sum(dx * x_hat, axis=-1), along, atol, "dx along x_hat of token ")


@states("rounding", "adding a number to a token, even a large one, changes nothing", "extremes",
        hint="Add 10,000 to the input in float32: E[x²] - mean² loses every digit, a second pass does not.")
def shift(op: Subject, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float) -> None:
    """With whole numbers whose mean is whole, so that float32 is exact too."""
    d = x.shape[-1]
    whole = np.round(8 * np.cos(np.arange(x.size))).reshape(x.shape).astype(x.dtype)
    whole[..., 0] += -np.sum(whole, axis=-1) % d                          # a whole mean
    x_hat, rstd = _exact(whole, eps)
    for far in (8192.0, 2.0**27) if x.dtype == np.float64 else (8192.0,):
        atol = rounding(x.dtype, d, far * largest(rstd) * largest(gamma, beta))
        close(op(whole + x.dtype.type(far), gamma, beta, eps), x_hat * gamma + beta, atol, f"with {far:g} added, y")


@states("rounding", "a token of equal numbers becomes β, and is finite", "extremes", hint="Feed a constant row.")
def constant_token(op: Subject, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float) -> None:
    y = op(np.full_like(x, 2.0), gamma, beta, eps)
    close(y, np.broadcast_to(beta, x.shape), rounding(x.dtype, 1, 2 * 300 * largest(gamma, beta)), "y")


def _plain(op: Subject, x: np.ndarray, eps: float) -> np.ndarray:
    d = x.shape[-1]
    return op(x, np.ones(d, x.dtype), np.zeros(d, x.dtype), eps)


def _exact(x: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """x_hat and rstd in float64."""
    x = x.astype(np.float64)
    rstd = 1 / np.sqrt(np.var(x, axis=-1, keepdims=True) + eps)
    return (x - np.mean(x, axis=-1, keepdims=True)) * rstd, rstd


def _tolerance(x: np.ndarray, eps: float) -> float:
    return rounding(x.dtype, x.shape[-1], 4 * largest(x) * largest(_exact(x, eps)[1]))


SPEC = states.spec(
    "y = x_hat ⊙ γ + β, x_hat = (x - mean) · rstd, rstd = 1 / √(variance + eps), over the last axis",
    "layer_norm(x, gamma, beta, eps=1e-5) -> y, x_hat, rstd (y alone is enough): x (..., d), rstd (..., 1)",
    "the biased variance (divided by d), eps inside the root",
    case=case,
    outputs=("y", "x_hat", "rstd"),
    wrt=("x", "gamma", "beta"),
    scale=scale,
    special_cases=special_cases,
    choices=("eps outside", "single"),
)
