"""Batch normalisation."""

from typing import Any

import numpy as np

from .. import oracles
from ..common import tolerance
from ..families import linear_in, normaliser
from ..property import close, largest, rounding, same_bits
from ..spec import Form
from . import layer_norm
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("batch_norm")


def case(draw: CaseDrawer) -> dict[str, Any]:
    drawn, fixed = layer_norm.case(draw), draw.flag()
    mean, std = (draw.array(drawn["x"].shape[-1]) if fixed else None for _ in range(2))
    return drawn | {"mean": mean, "var": None if std is None else std * std}


def of_the_batch(case: dict[str, Any]) -> dict[str, Any]:
    return case | {"mean": None, "var": None}


normaliser(states, of=of_the_batch)
linear_in(states, "gamma", of=lambda case: case | {"beta": 0 * case["beta"]}, hint="Is anything added to the gain?")


@states("rounding", "rows in another order give the same results in that order", hint="Over which axes is your mean?")
def rows_in_any_order(op: Subject, **case: Any) -> None:
    y, d = op(**case), case["x"].shape[-1]
    turned = op(**case | {"x": case["x"].reshape(-1, d)[::-1].reshape(case["x"].shape)})
    close(turned.reshape(-1, d)[::-1], y.reshape(-1, d), tolerance(op.spec, case), "the result of row ")


@states("exact", "a feature's result does not depend on another feature", gravity="leak", hint="Which axes are averaged?")
def features_apart(op: Subject, **case: Any) -> None:
    other = case["x"].copy()
    other[..., 1:] = 3 * other[..., 1:] + 1
    moved = op(**case | {"x": other})
    same_bits(moved[..., :1], op(**case)[..., :1], "the first feature's result", largest(moved))


@states("rounding", "a batch has the same result when its mean and variance are passed in, and so has each row alone",
        hint="Are mean and var used as passed in, with nothing computed from the batch?")  # fmt: skip
def given_statistics(op: Subject, **case: Any) -> None:
    rows = case["x"].reshape(-1, case["x"].shape[-1]).astype(float)
    mean, var = (a.astype(case["x"].dtype) for a in (rows.mean(axis=0), rows.var(axis=0)))
    fixed, atol = case | {"x": rows.astype(case["x"].dtype), "mean": mean, "var": var}, 4 * tolerance(op.spec, case)
    y = op(**fixed)
    close(y, op(**of_the_batch(fixed)), atol, "with its statistics passed in, the result of row ")
    close(op(**fixed | {"x": fixed["x"][:1]}), y[:1], atol, "alone, the result of row ")


@states("rounding", "adding a number to a feature, even a large one, changes nothing", "extremes",
        hint="Add 10,000 to the input in float32: E[x²] - mean² loses every digit, a second pass does not.")
def shift(op: Subject, **case: Any) -> None:
    case, n = of_the_batch(case), max(case["x"].size // case["x"].shape[-1], 1)
    rows = np.round(8 * np.cos(np.arange(case["x"].size))).reshape(n, -1)
    rows[0] += -np.sum(rows, axis=0) % n                                  # a whole mean
    near = case | {"x": rows.reshape(case["x"].shape).astype(case["x"].dtype)}
    far = 8192.0 if case["x"].dtype == np.float32 else 2.0**27
    atol = rounding(case["x"].dtype, n, far * scale(near))
    close(op(**near | {"x": near["x"] + case["x"].dtype.type(far)}), op(**near), atol, "y")


@states("rounding", "dx sums to 0 over rows, and dx ⊙ x_hat to γ inv_std³ eps Σ dy ⊙ x_hat", "gradients",
        hint="Shifting a feature changes nothing, so its dx sums to 0; scaling it changes almost nothing.")
def gradient_directions(op: Subject, **case: Any) -> None:
    case = of_the_batch(case)
    _, x_hat, inv_std = oracles.batch_norm(case["x"].astype(float), case["gamma"], case["beta"], case["eps"])
    dy = np.cos(np.arange(case["x"].size).reshape(case["x"].shape)).astype(case["x"].dtype)
    dx, rows = op.gradients(case, dy)["x"], tuple(range(case["x"].ndim - 1))
    atol = 10 * tolerance(op.spec, case) * largest(inv_std)
    close(np.sum(dx, axis=rows), np.zeros(dx.shape[-1]), atol, "the sum of dx of feature ")
    along = case["gamma"] * inv_std**3 * case["eps"] * np.sum(dy * x_hat, axis=rows)
    close(np.sum(dx * x_hat, axis=rows), along, atol * largest(x_hat), "dx along x_hat of feature ")


def scale(case: dict[str, Any]) -> float:
    """The subtracted mean has the size of x; the difference is multiplied by inv_std."""
    x = case["x"].astype(float)
    var = case["var"] if case["var"] is not None else np.var(x, axis=tuple(range(x.ndim - 1))) if x.size else np.ones(1)
    inv_std = largest(1 / np.sqrt(var + case["eps"]))
    return 4 * largest(largest(x, case["mean"]) * inv_std) * inv_std * largest(case["gamma"], case["beta"])


def special_cases() -> list[dict[str, Any]]:
    """The cases of layer_norm, and one with fixed statistics, of which one variance is 0."""
    cases = [case | {"mean": None, "var": None} for case in layer_norm.special_cases()]
    return [*cases, cases[1] | {"mean": np.linspace(-1, 2, 4), "var": np.array([0.0, 1.0, 1e-4, 9.0])}]


SPEC = states.spec(
    "y = x_hat ⊙ γ + β, x_hat = (x - mean) ⊙ inv_std, inv_std = 1 / √(var + eps), of each feature over all rows",
    "batch_norm(x, gamma, beta, eps=1e-5, mean=None, var=None) -> y, x_hat, inv_std (y alone is enough): x (..., d), "
    "inv_std (d,)",
    "mean and biased variance are over all axes but the last; mean and var, if passed, are constants without gradients",
    case=case,
    outputs=("y", "x_hat", "inv_std"),
    wrt=("x", "gamma", "beta"),
    together=("mean", "var"),
    scale=scale,
    special_cases=special_cases,
    forms=(
        Form("a single row", lambda case: case["x"].size == case["x"].shape[-1]),
        Form("x of one axis", lambda case: case["x"].ndim == 1, ours=True),
    ),
)
