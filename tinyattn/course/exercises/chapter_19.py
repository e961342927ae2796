"""Exercises of chapter 19, after attention."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.property import largest, rounding
from ..graders import Function, Judge, Number
from ..plain import Changes, changed, plain_spec
from ..prose import Prose


def _held(delta: float, state: float) -> float:
    """One channel with one state, A = -1, B = C = 1, D = 0: y after a token 1 with Δ = delta."""
    x, step, A, h0 = (np.full((1, 1), float(value)) for value in (1, delta, -1, state))
    y, _ = ops.selective_scan(x, step, A, np.ones((1, 1)), np.ones((1, 1)), np.zeros(1), h0, exact=True)
    return float(y[0, 0])


# my_chunk
def _chunk(S: Any, q: Any, k: Any, v: Any, lam: float) -> Any:
    """-> y of the chunk, and the state after it."""
    c = len(q)
    i = np.arange(c)
    age = i[:, None] - i
    y = (np.where(age >= 0, lam ** np.maximum(age, 0), 0.0) * (q @ k.T)) @ v + (lam ** (i + 1))[:, None] * (q @ S)
    new = lam ** c * S + (k * (lam ** (c - 1 - i))[:, None]).T @ v
    return y, new


def _of_chunk(draw: CaseDrawer) -> dict[str, Any]:
    c, d, e = draw.size(1, 5), draw.size(1, 4), draw.size(1, 4)
    S, q, k, v = (draw.array(*shape) for shape in ((d, e), (c, d), (c, d), (c, e)))
    return {"S": S, "q": q, "k": k, "v": v, "lam": draw.choose((0.5, 0.9, 1.0))}


def _atol(case: dict[str, Any], power: int) -> float:
    arrays = [x for x in case.values() if isinstance(x, np.ndarray)]
    return 30 * rounding(case["q"].dtype, 40, largest(*arrays, 1) ** power)


CHUNK = plain_spec(
    "chunk", "y and S are those of the recurrence, token by token", _of_chunk, _chunk, "y", "S",
    atol=lambda case: _atol(case, 3))  # fmt: skip


# my_state_backward
def _states(lam: Any, k: Any, v: Any) -> list[Any]:
    """S_0 = 0, S_1, .., S_n."""
    states = [np.zeros((k.shape[1], v.shape[1]), k.dtype)]
    for t in range(len(lam)):
        states.append(lam[t] * states[-1] + np.outer(k[t], v[t]))
    return states


def _gradients(dy: Any, lam: Any, q: Any, k: Any, v: Any) -> Any:
    """-> dlam, dq, dk, dv; G is the gradient of the state."""
    S, G = _states(lam, k, v), np.zeros((k.shape[1], v.shape[1]), k.dtype)
    dlam, dq, dk, dv = [np.zeros_like(x) for x in (lam, q, k, v)]
    times = range(len(lam))
    for t in reversed(times):
        here = np.outer(q[t], dy[t])
        G = G + here
        dlam[t], dq[t] = np.sum(G * S[t]), S[t + 1] @ dy[t]
        dk[t], dv[t] = G @ v[t], k[t] @ G
        G = lam[t] * G
    return dlam, dq, dk, dv


def _of_states(draw: CaseDrawer) -> dict[str, Any]:
    n, d, e = draw.size(1, 5), draw.size(1, 4), draw.size(1, 4)
    lam = np.asarray(draw.rng.uniform(0.2, 1, n), draw.dtype)
    return {"dy": draw.array(n, e), "lam": lam, "q": draw.array(n, d), "k": draw.array(n, d), "v": draw.array(n, e)}


STATE_GRADIENTS = plain_spec(
    "state_gradients", "dlam, dq, dk and dv are the gradients", _of_states, _gradients, "dlam", "dq", "dk", "dv",
    atol=lambda case: _atol(case, 4))  # fmt: skip
WRONG_GRADIENTS = Changes(_gradients, at_the_end=changed(_gradients, "S[t + 1] -> S[-1]"))


# shifts_change_nothing
def _naive(k: Any, v: Any, w: Any, u: Any) -> Any:
    """Numerator and denominator by their definition."""
    a, b, y = np.zeros(k.shape[1]), np.zeros(k.shape[1]), np.empty_like(v)
    with np.errstate(all="ignore"):
        for t in range(len(k)):
            bonus = np.exp(u + k[t])
            y[t] = (a + bonus * v[t]) / (b + bonus)
            a, b = np.exp(-w) * a + np.exp(k[t]) * v[t], np.exp(-w) * b + np.exp(k[t])
    return y


def _library(k: Any, v: Any, w: Any, u: Any) -> Any:
    return ops.wkv(*(np.asarray(x, dtype=float) for x in (k, v, w, u)))[0]


def _swinging(k: Any, v: Any, w: Any, u: Any) -> Any:
    """The library's y, plus a term that alternates in sign from token to token, so that the mean of y stays.

    Each channel's term depends on that channel's mean key. If it depended on the sum over channels, a property that
    shifts channels with a constant sum would miss it.
    """
    swing = np.where(np.arange(len(k)) % 2, 1.0, -1.0)
    return _library(k, v, w, u) + 1e-2 * np.tanh(np.mean(k, axis=0)) * (swing - swing.mean())[:, None]


def _running(k: Any, v: Any, w: Any, u: Any) -> Any:
    """Numerator and denominator, both multiplied by e^(-p) for a running maximum p, as in the paper's code."""
    a, b, y = np.zeros(k.shape[1]), np.zeros(k.shape[1]), np.empty(v.shape)
    p = np.full(k.shape[1], -1e38)
    for t in range(len(k)):
        top = np.maximum(p, u + k[t])
        old, new = np.exp(p - top), np.exp(u + k[t] - top)
        y[t] = (old * a + new * v[t]) / (old * b + new)
        top = np.maximum(p - w, k[t])
        old, new = np.exp(p - w - top), np.exp(k[t] - top)
        a, b, p = old * a + new * v[t], old * b + new, top
    return y


def shifts_change_nothing(wkv: Callable[..., Any]) -> bool:
    """Whether k + c gives the same y for a large c of either sign."""
    k, v = np.random.default_rng(0).standard_normal((2, 6, 3))
    w, u = np.array([0.1, 0.5, 2.0]), np.array([0.3, -1.0, 0.0])
    y = wkv(k, v, w, u)
    return all(np.allclose(wkv(k + c, v, w, u), y) for c in (800.0, -800.0))


RIGHT_FORMS = dict(
    library=_library,
    by_matrix=lambda k, v, w, u: np.einsum(
        "dts,sd->td", ops.wkv_weights(*(np.asarray(x, dtype=float) for x in (k, w, u))), v
    ),
    running=_running,
    no_bonus=lambda k, v, w, u: _library(k, v, w, 0 * u),
)
WRONG_FORMS = dict(
    # ±∞ in place of NaN: comparisons with NaN are False, but every comparison notices ±∞
    infinite=changed(_naive, "return y -> return np.where(np.isnan(y), np.copysign(np.inf, k), y)"),
    naive=_naive,
    clipped=lambda k, v, w, u: _naive(np.clip(k, -50, 50), v, w, u),
    nan_to_zero=lambda k, v, w, u: np.nan_to_num(_naive(k, v, w, u)),
    largest_above_zero_taken_off=lambda k, v, w, u: _naive(k - np.maximum(k.max(axis=0), 0), v, w, u),
    largest_below_zero_taken_off=lambda k, v, w, u: _naive(k - np.minimum(k.max(axis=0), 0), v, w, u),
    logarithm_of_one_plus=lambda k, v, w, u: _library(np.log(np.logaddexp(0, np.maximum(k, -30))), v, w, u),
    little_of_each_key=lambda k, v, w, u: _library(k, v, w, u) + 1e-3 * np.tanh(k),
    swinging=_swinging,
)


EXERCISES = Prose(19).exercises(
    my_chunk=Function(CHUNK, tempting=Changes(_chunk)),
    my_state_backward=Function(STATE_GRADIENTS, tempting=WRONG_GRADIENTS),
    shifts_change_nothing=Judge(shifts_change_nothing, RIGHT_FORMS, WRONG_FORMS),
    held_state=Number(_held, tolerance=0.0035),             # to two decimals
)
