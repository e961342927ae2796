"""Where eps stands in a norm, and its value where it is no argument."""

from typing import Any

import numpy as np

from .. import oracles
from ..cases import CaseDrawer
from ..common import widened
from ..subject import Subject
from ..switch import FixedArgument, Switch
from .convention import LIMITS, convention, fixed_eps, number, oracle, other_spec, relative_error

KEPT_OUTSIDE = (  # true of eps outside the root, too
    "mean_zero", "tokens_apart", "gain_and_shift", "constant_token", "linear_in_gamma", "shift", "large_and_small",
)  # fmt: skip


@convention("eps", "without `eps` it may be any from 1e-12 to 1e-3")
def _fixed_eps(op: Subject) -> Switch | None:
    """The value of eps in an implementation, of any kind, that has no argument for it."""
    default = op.signature.parameters["eps"].default
    if "eps" not in op.lacks:
        return None
    cases = [widened(op.spec.case(CaseDrawer.seeded(seed, ((2,),)))) for seed in range(6)]
    omitted = {name: p.default for name, p in op.signature.parameters.items() if name in op.lacks}
    cases = [case | omitted | {"x": 1e-4 * case["x"]} for case in cases]  # small, so that eps matters
    results = [op.outputs(**case)[0] for case in cases]

    def error(eps: float) -> float:
        right = (oracle(op, case | {"eps": eps}) for case in cases)
        return max(map(relative_error, results, right))

    eps = fixed_eps(error, default)
    if eps is None or eps == default:
        return None
    return FixedArgument(f"eps is fixed at {number(eps)}", "eps", eps, default)


@convention("eps outside", "eps may be added to the root, not under it; without `eps` it may be any from 1e-12 to 1e-3")
def _eps(op: Subject) -> Switch | None:
    """The place of eps, and its value where it is no argument. If eps is outside the root, `op.spec` is replaced."""
    (inside, outside, backward, size), fixed = PLACES[op.spec.name], "eps" in op.lacks
    x = np.array([[0.011, 0.013, -0.02, 0.004], [3e-5, -1e-5, 4e-5, 2e-5]])
    weights = (np.ones(4), np.zeros(4))[: len(op.spec.wrt) - 1]
    y = op(x, *weights, *(() if fixed else (1e-3,)))
    for form in (inside, outside):

        def error(eps: float, form: Any = form) -> float:
            return relative_error(y, form(x, *weights, eps)[0])

        eps = fixed_eps(error, 1e-5) if fixed else 1e-3 if error(1e-3) <= LIMITS[-1] else None
        if eps is not None:
            break
    else:
        return None
    where = ""
    if form is outside:
        where = f"eps is added to the {size}"
        kept = [p for p in op.spec.properties if p.name in KEPT_OUTSIDE]
        op.spec = other_spec(op.spec, outside, backward, properties=kept)
    if fixed and (eps != 1e-5 or where):
        says = f"{f'{where}, and' if where else 'eps'} is fixed at {number(eps)}"
        return FixedArgument(says, "eps", eps, 1e-5)
    return Switch(where) if where else None


def eps_outside(x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> tuple[Any, Any, Any]:
    """y = γ (x - mean) / (σ + eps) + β."""
    y, x_hat, rstd = rms_outside(x - np.mean(x, axis=-1, keepdims=True), gamma, eps)
    return y + beta, x_hat, rstd


def eps_outside_backward(dy: Any, x: Any, gamma: Any, eps: float = 1e-5) -> tuple[Any, Any, Any]:
    """dx = dc - mean(dc), with dc the gradient of the centred c = x - mean."""
    dc, dgamma = rms_outside_backward(dy, x - np.mean(x, axis=-1, keepdims=True), gamma, eps)
    return dc - np.mean(dc, axis=-1, keepdims=True), dgamma, np.sum(dy.reshape(-1, x.shape[-1]), axis=0)


def rms_outside(x: Any, gamma: Any, eps: float = 1e-5) -> tuple[Any, Any, Any]:
    """y = γ x / (σ + eps), with σ = √mean(x²)."""
    r = 1 / (np.sqrt(np.mean(x * x, axis=-1, keepdims=True)) + x.dtype.type(eps))
    return x * r * gamma, x * r, r


def rms_outside_backward(dy: Any, x: Any, gamma: Any, eps: float = 1e-5) -> tuple[Any, Any]:
    """dx = r (g - x_hat mean(g x_hat) / (r σ)), with g = dy γ and r = 1 / (σ + eps)."""
    _, x_hat, r = rms_outside(x, gamma, eps)
    sigma, g = 1 / r - x.dtype.type(eps), dy * gamma
    along = np.mean(g * x_hat, axis=-1, keepdims=True) / np.where(sigma > 0, r * sigma, 1)
    return r * (g - x_hat * along), np.sum((dy * x_hat).reshape(-1, x.shape[-1]), axis=0)


PLACES: dict[str, tuple[Any, Any, Any, str]] = {  # eps under the root, eps added to it, the latter's backward
    "layer_norm": (oracles.layer_norm, eps_outside, eps_outside_backward, "standard deviation, not to the variance"),
    "rms_norm": (oracles.rms_norm, rms_outside, rms_outside_backward, "root, not to the mean square under it"),
}
