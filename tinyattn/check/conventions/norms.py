"""Where eps stands in a norm, and its value where it is no argument."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .. import oracles
from ..cases import CaseDrawer
from ..common import widened
from ..subject import Subject
from ..switch import Switch
from .convention import Convention, FixedArgument, error, oracle, other_spec

KEPT_OUTSIDE = ("mean_zero", "tokens_apart", "gain_and_shift", "constant_token")  # hold wherever eps is added
LIMITS = (1e-9, 1e-5)  # errors that tell values of eps apart; the second is for float32
EPS = (1e-3, 1e-4, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12)


def _fixed_eps(op: Subject) -> Switch | None:
    """The value of eps in an implementation, of any kind, that has no argument for it."""
    default = op.signature.parameters["eps"].default
    if "eps" not in op.lacks:
        return None
    cases = [widened(op.spec.case(CaseDrawer.seeded(seed, ((2,),)))) | {"eps": default} for seed in range(6)]
    omitted = {name: p.default for name, p in op.signature.parameters.items() if name in op.lacks}
    cases = [case | omitted | {"x": 0.01 * case["x"]} for case in cases]  # small, so that eps matters
    for limit, eps in itertools.product(LIMITS, (default, *EPS)):
        if all(error(op.outputs(**case)[0], oracle(op, case | {"eps": eps})) <= limit for case in cases):
            says = f"eps is {eps:g}, and cannot be given"
            return None if eps == default else FixedArgument(says, "eps", eps, default)
    return None


def _eps(op: Subject) -> Switch | None:
    """The place of eps, and its value where it is no argument. If eps is outside the root, `op.spec` is replaced."""
    x, ones, zeros = np.array([[0.011, 0.013, -0.02, 0.004]]), np.ones(4), np.zeros(4)
    fixed = "eps" in op.lacks
    y = op(x, ones, zeros, *(() if fixed else (1e-3,)))
    values = (1e-5, *EPS) if fixed else (1e-3,)
    for limit, form, eps in itertools.product(LIMITS, (oracles.layer_norm, eps_outside), values):
        if error(y, form(x, ones, zeros, eps)[0]) <= limit:
            break
    else:
        return None
    where = ""
    if form is eps_outside:
        where = "eps is added to the standard deviation, not to the variance"
        kept = [p for p in op.spec.properties if p.name in KEPT_OUTSIDE]
        op.spec = other_spec(op.spec, eps_outside, eps_outside_backward, properties=kept)
    if fixed and (eps != 1e-5 or where):
        says = f"{f'{where}, and' if where else 'eps'} is {eps:g}, and cannot be given"
        return FixedArgument(says, "eps", eps, 1e-5)
    return Switch(where) if where else None


def eps_outside(x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> tuple[Any, Any, Any]:
    """y = γ (x - mean) / (σ + eps) + β."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    rstd = 1 / (np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True)) + x.dtype.type(eps))
    return centred * rstd * gamma + beta, centred * rstd, rstd


def eps_outside_backward(dy: Any, x: Any, gamma: Any, eps: float = 1e-5) -> tuple[Any, Any, Any]:
    """dx = rstd (g - mean(g) - x_hat mean(g x_hat) / (rstd σ)), with g = dy γ and rstd = 1 / (σ + eps)."""
    _, x_hat, rstd = eps_outside(x, gamma, gamma, eps)
    sigma = 1 / rstd - x.dtype.type(eps)
    g = dy * gamma
    along = np.mean(g * x_hat, axis=-1, keepdims=True) / np.where(sigma > 0, rstd * sigma, 1)
    dx = rstd * (g - np.mean(g, axis=-1, keepdims=True) - x_hat * along)
    tokens = (-1, x.shape[-1])
    return dx, np.sum((dy * x_hat).reshape(tokens), axis=0), np.sum(dy.reshape(tokens), axis=0)


CONVENTIONS = {
    "eps outside": Convention(
        "eps may be added to the standard deviation; without `eps` it may be any from 1e-12 to 1e-3", _eps
    ),
    "eps": Convention("without `eps` it may be any from 1e-12 to 1e-3", _fixed_eps),
}
