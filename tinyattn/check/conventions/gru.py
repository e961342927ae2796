"""The GRU of Cho et al. (2014, equation 8), whose reset gate acts before the product: n = tanh(... + (r ⊙ h') U_n)."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from ..subject import Subject
from ..switch import Switch
from .convention import convention, fitting, other_spec
from .layouts import gru_gates


def gru_before(x: Any, W: Any, U: Any, b: Any, c: Any, h0: Any = None) -> Any:
    """h_t = (1 - z_t) ⊙ n_t + z_t ⊙ h_{t-1}, n_t = tanh(x_t W_n + b_n + (r_t ⊙ h_{t-1}) U_n + c_n)."""
    return _run(x, W, U, b, c, h0)[0]


def _run(x: Any, W: Any, U: Any, b: Any, c: Any, h0: Any) -> tuple[Any, Any]:
    """-> h (..., n, H); for each token r, z, n and h_{t-1}."""
    H, u = len(U), x @ W + b + c
    state = np.zeros((*x.shape[:-2], H), x.dtype) if h0 is None else h0
    h, steps = np.zeros((*x.shape[:-1], H), x.dtype), []
    for t in range(x.shape[-2]):
        gates = 0.5 + 0.5 * np.tanh(0.5 * (u[..., t, : 2 * H] + state @ U[:, : 2 * H]))
        r, z = gates[..., :H], gates[..., H:]
        new = np.tanh(u[..., t, 2 * H :] + (r * state) @ U[:, 2 * H :])
        steps.append((r, z, new, state))
        state = h[..., t, :] = (1 - z) * new + z * state
    return h, steps


def gru_before_backward(dh: Any, x: Any, W: Any, U: Any, b: Any, c: Any, h0: Any = None) -> tuple[Any, ...]:
    """du_n = g (1 - z) (1 - n²), du_z = g (h' - n) z (1 - z), du_r = (du_n U_nᵀ) h' r (1 - r); g is h's gradient."""
    H, (h, steps) = len(U), _run(x, W, U, b, c, h0)
    du, dU, g = np.zeros((*h.shape[:-1], 3 * H), x.dtype), np.zeros_like(U), np.zeros_like(h[..., :1, :].sum(axis=-2))
    for t, (r, z, new, state) in reversed(list(enumerate(steps))):
        g = g + dh[..., t, :]
        du_n = g * (1 - z) * (1 - new * new)
        through = du_n @ U[:, 2 * H :].T
        du[..., t, :] = np.concatenate([through * state * r * (1 - r), g * (state - new) * z * (1 - z), du_n], axis=-1)
        dU += np.concatenate([_product(state, du[..., t, : 2 * H]), _product(r * state, du_n)], axis=-1)
        g = g * z + through * r + du[..., t, : 2 * H] @ U[:, : 2 * H].T
    db = np.sum(du.reshape(-1, 3 * H), axis=0)
    return du @ W.T, _product(x, du), dU, db, db.copy(), None if h0 is None else g


def _product(a: Any, b: Any) -> Any:
    return a.reshape(-1, a.shape[-1]).T @ b.reshape(-1, b.shape[-1])


@convention(
    "gru", "the reset gate may act before the product, as in Cho et al. (2014); the columns of the gates "
    "may stand in any order, and z may be the share of the new state", first=True,
)  # fmt: skip
def _gru(op: Subject) -> Switch | None:
    equation = op.spec.says.replace("r ⊙ (h' U_n + c_n)", "(r ⊙ h') U_n + c_n")
    cho = other_spec(op.spec, gru_before, gru_before_backward, says=equation)
    before = "the reset gate acts before the product, (r ⊙ h') U_n"
    others = (replace(gates, says="; ".join(filter(None, (before, gates.says))), spec=cho) for gates in gru_gates())
    return fitting(op, itertools.chain(gru_gates(), others))
