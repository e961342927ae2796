"""Normalisation: LayerNorm, RMSNorm, batch normalisation, and LayerNorm before a linear map."""

from typing import Any

import numpy as np

from ... import ops
from .. import oracles
from ..common import by_loops, tolerance, widened
from ..families import LARGE, linear_in, normaliser, tokens_apart
from ..property import close, largest, rounding, waves
from ..spec import Form
from .builder import Call, CaseDrawer, SpecBuilder, Subject

layer_norm = SpecBuilder("layer_norm")
tokens_apart(layer_norm)
normaliser(layer_norm)


def layer_norm_case(draw: CaseDrawer) -> dict[str, Any]:
    d = draw.size(1, 8)
    x = draw.array(*draw.lead, d) if draw.flag() else draw.array(*draw.lead, draw.size_like(d), d)
    x = x * draw.dtype(draw.choose((1.0, 3.0, 0.01)))
    eps = draw.choose((1e-5, 1e-3, 1e-6, 0.1))
    return {"x": x, "gamma": draw.array(d), "beta": draw.array(d), "eps": eps}


def layer_norm_special_cases() -> list[dict[str, Any]]:
    """A constant token, a tiny one, a large offset, in both precisions."""
    x = np.array([[1.0, 2.0, 4.0, -3.0], [2.0, 2.0, 2.0, 2.0], [1e-3, 0.0, -1e-3, 2e-3]])
    gamma, beta = np.linspace(0.5, 2, 4), np.linspace(-1, 1, 4)
    pairs = ((x[:1], 1e-5), (x, 1e-5), (x * np.ones((2, 1, 1)), 1e-3), (x[:1] + 2.0**27, 1e-5))
    single = {name: array.astype("f") for name, array in (("x", x[:1]), ("gamma", gamma), ("beta", beta))}
    return [*({"x": x, "gamma": gamma, "beta": beta, "eps": eps} for x, eps in pairs), single | {"eps": 1e-5}]


def layer_norm_scale(case: dict[str, Any]) -> float:
    """The subtracted mean has the size of x; the difference is multiplied by rstd."""
    x = case["x"].astype(np.float64)
    rstd = 1 / np.sqrt(np.var(x, axis=-1) + case["eps"]) if x.size else np.ones(1)
    return 4 * largest(x * largest(rstd)) * largest(rstd) * largest(case["gamma"], case["beta"])


layer_norm.law("mean_zero", "rounding", "without gain and shift every token has mean 0",
        lambda op, c: (
            np.mean(_plain(op, c), axis=-1), np.zeros(c.x.shape[:-1]), _tolerance(c.x, c.eps), "the mean of token ",
        ), hint="Along which axis is your mean?")
layer_norm.law("variance_one", "rounding",
        "without gain and shift the mean square of a token is variance / (variance + eps): 1 but for eps",
        lambda op, c: (
            np.mean((y := _plain(op, c).astype(float)) * y, axis=-1),
            (v := np.var(c.x.astype(float), axis=-1)) / (v + c.eps),
            10 * _tolerance(c.x, c.eps), "the mean square of token ",
        ), hint="Biased variance (divide by d), and eps inside the root.")
layer_norm.law("gain_and_shift", "rounding", "y is x_hat ⊙ γ + β, β where γ = 0, and x_hat where γ = 1, β = 0",
        lambda op, c: [
            (op(**c(gamma=0 * c.gamma)), np.broadcast_to(c.beta, c.x.shape), 0, "with γ = 0, y"),
            (op(**c), (x_hat := _plain(op, c)) * c.gamma + c.beta, _tolerance(c.x, c.eps) * largest(c.gamma, c.beta)),
            (op(**c(gamma=LARGE * c.gamma)), x_hat * LARGE * c.gamma + c.beta,
             LARGE * _tolerance(c.x, c.eps) * largest(c.gamma, c.beta), f"with {LARGE} γ, y"),
        ], hint="Which comes first, gain or shift? Is anything clipped?")


@layer_norm("rounding", "dx sums to 0, and dx ⊙ x_hat to rstd³ eps Σ g x_hat", "gradients",
        hint="Shifting x changes nothing, so dx must sum to 0; scaling x changes almost nothing, so dx·x_hat is almost 0.")
def layer_norm_gradient_directions(op: Subject, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float) -> None:
    x_hat, rstd = _exact(x, eps)
    dy = waves(x)
    dx = op.gradients({"x": x, "gamma": gamma, "beta": beta, "eps": eps}, dy)["x"]
    atol = 10 * _tolerance(x, eps) * largest(rstd) * largest(gamma) * largest(x_hat) ** 2
    close(np.sum(dx, axis=-1), np.zeros(x.shape[:-1]), atol, "the sum of dx of token ")
    along = np.sum(dy * gamma * x_hat, axis=-1) * rstd[..., 0] ** 3 * eps
    close(np.sum(dx * x_hat, axis=-1), along, atol, "dx along x_hat of token ")


@layer_norm("rounding", "adding a number to a token, even a large one, changes nothing", "extremes",
        hint="Add 10,000 to the input in float32: E[x²] - mean² loses every digit, a second pass does not.")
def layer_norm_shift(op: Subject, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float) -> None:
    """The numbers and their mean are whole, so that float32 is exact, too."""
    d = x.shape[-1]
    whole = np.round(8 * np.cos(np.arange(x.size))).reshape(x.shape).astype(x.dtype)
    whole[..., 0] += -np.sum(whole, axis=-1) % d                          # a whole mean
    expected = by_loops(op.spec, {"x": whole, "gamma": gamma, "beta": beta, "eps": eps})[0]
    rstd = _exact(whole, eps)[1]
    for far in (8192.0, 2.0**27) if x.dtype == np.float64 else (8192.0,):
        atol = rounding(x.dtype, d, far * largest(rstd) * largest(gamma, beta))
        close(op(whole + x.dtype.type(far), gamma, beta, eps), expected, atol, f"with {far:g} added, y")


layer_norm.law("constant_token", "rounding", "a token of equal numbers becomes β, and is finite",
        lambda op, c: (
            op(**c(x=np.full_like(c.x, 2.0))), np.broadcast_to(c.beta, c.x.shape),
            rounding(c.x.dtype, 1, 600 * largest(c.gamma, c.beta)),
        ), "extremes", hint="Feed a constant row.")


def _plain(op: Subject, c: Call) -> np.ndarray:
    return op(**c(gamma=np.ones_like(c.gamma), beta=np.zeros_like(c.beta)))


def _exact(x: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """x_hat and rstd in float64."""
    x = x.astype(np.float64)
    rstd = 1 / np.sqrt(np.var(x, axis=-1, keepdims=True) + eps)
    return (x - np.mean(x, axis=-1, keepdims=True)) * rstd, rstd


def _tolerance(x: np.ndarray, eps: float) -> float:
    return rounding(x.dtype, x.shape[-1], 4 * largest(x) * largest(_exact(x, eps)[1]))


LAYER_NORM = layer_norm.spec(
    "y = x_hat ⊙ γ + β, x_hat = (x - mean) · rstd, rstd = 1 / √(variance + eps), over the last axis",
    "layer_norm(x, gamma, beta, eps=1e-5) -> y, x_hat, rstd (y alone is enough): x (..., d), rstd (..., 1)",
    "the biased variance (divided by d), eps inside the root",
    case=layer_norm_case, outputs=("y", "x_hat", "rstd"), wrt=("x", "gamma", "beta"), scale=layer_norm_scale,
    special_cases=layer_norm_special_cases, choices=("eps outside", "single"),
)


rms_norm = SpecBuilder("rms_norm")
tokens_apart(rms_norm)
normaliser(rms_norm)
linear_in(rms_norm, "gamma", hint="Is anything added to the gain?")


@rms_norm("rounding", "dx ⊙ x_hat sums to r³ eps Σ g ⊙ x_hat", "gradients",
        hint="Scaling x changes almost nothing, so dx · x_hat is almost 0. Is a mean subtracted?")
def gradient_along_x_hat(op: Subject, **case: Any) -> None:
    _, x_hat, r = oracles.rms_norm(case["x"].astype(float), case["gamma"], case["eps"])
    dy = waves(case["x"])
    dx = op.gradients(case, dy)["x"]
    expected = np.sum(dy * case["gamma"] * x_hat, axis=-1) * r[..., 0] ** 3 * case["eps"]
    close(np.sum(dx * x_hat, axis=-1), expected, 10 * tolerance(RMS_NORM, case) * largest(r), "dx along x_hat of token ")


def rms_norm_scale(case: dict[str, Any]) -> float:
    """x and its rounding error are multiplied by r and γ."""
    r = 1 / np.sqrt(np.mean(case["x"].astype(float) ** 2, axis=-1) + case["eps"]) if case["x"].size else 1.0
    return 4 * largest(np.asarray(r)) * largest(case["x"]) * largest(case["gamma"])


RMS_NORM = rms_norm.spec(
    "y = x_hat ⊙ γ, x_hat = x · r, r = 1 / √(mean(x²) + eps), over the last axis",
    "rms_norm(x, gamma, eps=1e-5) -> y, x_hat, r (y alone is enough): x (..., d), r (..., 1)",
    case=lambda draw: {name: x for name, x in layer_norm_case(draw).items() if name != "beta"},
    outputs=("y", "x_hat", "r"), wrt=("x", "gamma"), scale=rms_norm_scale,
    special_cases=lambda: [
        {"x": np.array([[0.0] * 4, [2.0] * 4, [1e-3, 0.0, -1e-3, 2e-3]]), "gamma": np.linspace(0.5, 2, 4), "eps": 1e-5}
    ],
    choices=("eps outside", "single"),
)


batch_norm = SpecBuilder("batch_norm")


def batch_norm_case(draw: CaseDrawer) -> dict[str, Any]:
    drawn, fixed = layer_norm_case(draw), draw.flag()
    mean, std = (draw.array(drawn["x"].shape[-1]) if fixed else None for _ in range(2))
    return drawn | {"mean": mean, "var": None if std is None else std * std}


def _rows(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1, x.shape[-1])


def of_the_batch(case: dict[str, Any]) -> dict[str, Any]:
    return case | {"mean": None, "var": None}


normaliser(batch_norm, of=of_the_batch)
linear_in(batch_norm, "gamma", of=lambda case: case | {"beta": 0 * case["beta"]}, hint="Is anything added to the gain?")
batch_norm.law("rows_in_any_order", "rounding", "rows in another order give the same results in that order",
        lambda op, c: (_rows(op(**c(x=_rows(c.x)[::-1].reshape(c.x.shape))))[::-1], _rows(op(**c))),
        what="the result of row ", hint="Over which axes is your mean?")
batch_norm.law("features_apart", "exact", "a feature's result does not depend on another feature", lambda op, c: (
            (moved := op(**c(x=np.where(np.arange(c.x.shape[-1]) > 0, 3 * c.x + 1, c.x))))[..., :1], op(**c)[..., :1],
            largest(moved), "the first feature's result",
        ), bits=True, hint="Which axes are averaged?", gravity="leak")


@batch_norm("rounding", "a batch has the same result when its mean and variance are passed in, and so has each row alone",
        hint="Are mean and var used as passed in, with nothing computed from the batch?")  # fmt: skip
def given_statistics(op: Subject, **case: Any) -> None:
    rows = case["x"].reshape(-1, case["x"].shape[-1]).astype(float)
    mean, var = (a.astype(case["x"].dtype) for a in (rows.mean(axis=0), rows.var(axis=0)))
    fixed, atol = case | {"x": rows.astype(case["x"].dtype), "mean": mean, "var": var}, 4 * tolerance(op.spec, case)
    y = op(**fixed)
    close(y, op(**of_the_batch(fixed)), atol, "with its statistics passed in, the result of row ")
    close(op(**fixed | {"x": fixed["x"][:1]}), y[:1], atol, "alone, the result of row ")


@batch_norm("rounding", "adding a number to a feature, even a large one, changes nothing", "extremes",
        hint="Add 10,000 to the input in float32: E[x²] - mean² loses every digit, a second pass does not.")
def batch_norm_shift(op: Subject, **case: Any) -> None:
    case, n = of_the_batch(case), max(case["x"].size // case["x"].shape[-1], 1)
    rows = np.round(8 * np.cos(np.arange(case["x"].size))).reshape(n, -1)
    rows[0] += -np.sum(rows, axis=0) % n                                  # a whole mean
    near = case | {"x": rows.reshape(case["x"].shape).astype(case["x"].dtype)}
    far = 8192.0 if case["x"].dtype == np.float32 else 2.0**27
    atol = rounding(case["x"].dtype, n, far * batch_norm_scale(near))
    close(op(**near | {"x": near["x"] + case["x"].dtype.type(far)}), op(**near), atol, "y")


@batch_norm("rounding", "dx sums to 0 over rows, and dx ⊙ x_hat to γ inv_std³ eps Σ dy ⊙ x_hat", "gradients",
        hint="Shifting a feature changes nothing, so its dx sums to 0; scaling it changes almost nothing.")
def batch_norm_gradient_directions(op: Subject, **case: Any) -> None:
    case = of_the_batch(case)
    _, x_hat, inv_std = oracles.batch_norm(case["x"].astype(float), case["gamma"], case["beta"], case["eps"])
    dy = waves(case["x"])
    dx, rows = op.gradients(case, dy)["x"], tuple(range(case["x"].ndim - 1))
    atol = 10 * tolerance(op.spec, case) * largest(inv_std)
    close(np.sum(dx, axis=rows), np.zeros(dx.shape[-1]), atol, "the sum of dx of feature ")
    along = case["gamma"] * inv_std**3 * case["eps"] * np.sum(dy * x_hat, axis=rows)
    close(np.sum(dx * x_hat, axis=rows), along, atol * largest(x_hat), "dx along x_hat of feature ")


def batch_norm_scale(case: dict[str, Any]) -> float:
    """The subtracted mean has the size of x; the difference is multiplied by inv_std."""
    x = case["x"].astype(float)
    var = case["var"] if case["var"] is not None else np.var(x, axis=tuple(range(x.ndim - 1))) if x.size else np.ones(1)
    inv_std = largest(1 / np.sqrt(var + case["eps"]))
    return 4 * largest(largest(x, case["mean"]) * inv_std) * inv_std * largest(case["gamma"], case["beta"])


def batch_norm_special_cases() -> list[dict[str, Any]]:
    """The cases of layer_norm, and one with fixed statistics, in which a variance is 0."""
    cases = [case | {"mean": None, "var": None} for case in layer_norm_special_cases()]
    return [*cases, cases[1] | {"mean": np.linspace(-1, 2, 4), "var": np.array([0.0, 1.0, 1e-4, 9.0])}]


BATCH_NORM = batch_norm.spec(
    "y = x_hat ⊙ γ + β, x_hat = (x - mean) ⊙ inv_std, inv_std = 1 / √(var + eps), of each feature over all rows",
    "batch_norm(x, gamma, beta, eps=1e-5, mean=None, var=None) -> y, x_hat, inv_std (y alone is enough): x (..., d), "
    "inv_std (d,)",
    "mean and biased variance are over all axes but the last; mean and var, if passed, are constants without gradients",
    case=batch_norm_case, outputs=("y", "x_hat", "inv_std"), wrt=("x", "gamma", "beta"), together=("mean", "var"),
    scale=batch_norm_scale, special_cases=batch_norm_special_cases,
    forms=(
        Form("a single row", lambda case: case["x"].size == case["x"].shape[-1]),
        Form("x of one axis", lambda case: case["x"].ndim == 1, ours=True),
        Form("x of three axes or more", lambda case: case["x"].ndim > 2, ours=True),
    ),
)


norm_linear = SpecBuilder("norm_linear")
tokens_apart(norm_linear)
normaliser(norm_linear)
linear_in(norm_linear, "W", of=lambda case: case | {"b": None}, hint="Does W multiply x_hat, or x_hat ⊙ γ + β?")


def norm_linear_case(draw: CaseDrawer) -> dict[str, Any]:
    normed = layer_norm_case(draw)
    i, eps = len(normed["gamma"]), normed.pop("eps")
    W = draw.array(i, draw.size_like(i))
    return {**normed, "W": W, "b": draw.array(W.shape[1]) if draw.flag() else None, "eps": eps}


norm_linear.law("shift", "rounding", "adding a number to a token, even a large one, changes nothing",
        lambda op, c: (op(**c), ops.norm_linear(**widened(c))[0]), "extremes",
        of=lambda c: c(x=np.round(8 * c.x) + 8192),
        hint="With γ ⊙ W in place of W, is x still centred first, in a separate pass?")


@norm_linear("rounding", "its gradients are those of LayerNorm followed by a linear map", "gradients",
        hint="γ scales rows of W and β moves the bias: which part of dV belongs to dW, and which to dγ?")
def one_after_the_other(op: Subject, **case: Any) -> None:
    wide = widened(case)
    h, x_hat, rstd = ops.layer_norm(*(wide[name] for name in ("x", "gamma", "beta", "eps")))
    dy = waves(h, *h.shape[:-1], wide["W"].shape[1])
    dh, dW, db = ops.linear_backward(dy, h, wide["W"])
    expected = dict(zip(NORM_LINEAR.wrt, (*ops.layer_norm_backward(dh, x_hat, rstd, wide["gamma"]), dW, db), strict=True))
    for name, g in op.gradients(case, dy.astype(case["x"].dtype)).items():
        close(g, expected[name], 10 * tolerance(NORM_LINEAR, case) * largest(expected[name]), f"d{name}")


NORM_LINEAR = norm_linear.spec(
    "y = LN(x) W + b, LN(x) = (x - mean) / √(variance + eps) ⊙ γ + β",
    "norm_linear(x, gamma, beta, W, b=None, eps=1e-5) -> y, x_hat, rstd (y alone is enough): x (..., i), gamma and beta "
    "(i,), W (i, o), b (o,), rstd (..., 1)",
    "the biased variance (divided by i), eps inside the root",
    case=norm_linear_case, outputs=("y", "x_hat", "rstd"), wrt=("x", "gamma", "beta", "W", "b"),
    scale=lambda case: layer_norm_scale(case) * largest(case["W"]) * len(case["W"]) + largest(case["b"]),
    special_cases=lambda: (
        {**case, "W": np.cos(np.arange(12.0)).reshape(4, 3).astype(case["x"].dtype), "b": None}
        for case in layer_norm_special_cases()
    ),
)
