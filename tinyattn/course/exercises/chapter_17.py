"""Exercises of chapter 17, before attention."""

import math
from typing import Any

import numpy as np

from ... import ops
from ...check import oracles
from ...check.cases import CaseDrawer
from ...check.specs import get_spec
from ..graders import Function, Number
from ..plain import Changes, changed, op_spec
from ..prose import Prose
from .chapter_06 import _outer as _summed

N, D = 32, 512                               # of recurrent_over_attention
STEPS, FORGET_BIAS = 100, 1.0                # of power_of_ten_left
LETTERS, BITS = 27, 32                       # of letters_that_fit


def _letters(numbers: int) -> int:
    """The largest n with LETTERS^n <= 2^(numbers BITS), in whole numbers."""
    n = 0
    while LETTERS ** (n + 1) <= 2 ** (numbers * BITS):
        n += 1
    return n


def _power_of_ten_left() -> float:
    """log10 of the gradient by the state STEPS steps before, through an LSTM cell with constant gates."""
    x, W, U = np.zeros((STEPS, 1)), np.zeros((1, 4)), np.zeros((1, 4))
    b = np.array([0.0, FORGET_BIAS, 40.0, 0.0])                     # i, f, o, g: the output gate is open
    h, c, gates = ops.lstm(x, W, U, b, c0=np.zeros(1))
    dh = np.zeros_like(h)
    dh[-1] = 1
    dc0 = ops.lstm_backward(dh, x, W, U, h, c, gates, c0=np.zeros(1))[-1]
    assert dc0 is not None
    return math.log10(dc0.item())


def _rnn(x: Any, W: Any, U: Any) -> Any:
    """h_t = tanh(x_t W + h_{t-1} U), h_0 = 0. Shapes: x (..., n, c), W (c, d), U (d, d) -> h (..., n, d)."""
    return ops.rnn(x, W, U, np.zeros(len(U), x.dtype))


def _rnn_backward(dh: Any, x: Any, W: Any, U: Any, h: Any) -> Any:
    """Gradients of _rnn by x, W and U. Shapes: dh, h (..., n, d), x (..., n, c)."""
    return ops.rnn_backward(dh, x, W, U, h)[:3]


def _rnn_case(draw: CaseDrawer) -> dict[str, Any]:
    """Small weights: if h saturated or became chaotic, a wrong line would not show."""
    n, c = draw.size(), draw.size()
    d = draw.size_like(c)
    return {"x": draw.array(*draw.lead, n, c), "W": draw.array(c, d, size=0.5 / c), "U": draw.array(d, d, size=0.5 / d)}


RNN = op_spec(
    "rnn", "h_t = tanh(x_t W + h_{t-1} U), from h_0 = 0", _rnn_case, _rnn, "h", backward=_rnn_backward,
    oracle=lambda x, W, U: oracles.rnn(x, W, U, np.zeros(len(U))), wrt=("x", "W", "U"))  # fmt: skip


def _scan_case(draw: CaseDrawer) -> dict[str, Any]:
    """Factors so small that products of seventy stay small."""
    shape = (*draw.lead, draw.size(), draw.size())
    return {"a": draw.array(*shape, size=0.25), "b": draw.array(*shape)}


SCAN = op_spec(
    "scan", "h_t = a_t h_{t-1} + b_t, from h_0 = 0", _scan_case, lambda a, b: ops.associative_scan(a, b), "h",
    oracle=oracles.associative_scan)  # fmt: skip


def _gru_case(draw: CaseDrawer) -> dict[str, Any]:
    """The state begins at 0, and weights are small: a closed gate would hide a wrong line."""
    n, i, d = draw.size(), draw.size(), draw.size(high=4)
    W, U = draw.array(i, 3 * d, size=0.5 / i), draw.array(d, 3 * d, size=0.5 / d)
    b, c = draw.array(3 * d, size=0.5), draw.array(3 * d, size=0.5)
    return {"x": draw.array(*draw.lead, n, i), "W": W, "U": U, "b": b, "c": c}


GRU = op_spec(
    "gru", get_spec("gru").says, _gru_case, lambda x, W, U, b, c: ops.gru(x, W, U, b, c)[0], "h", oracle=oracles.gru
)


# wrong answers
def _rnn_by_steps(x: Any, W: Any, U: Any) -> Any:
    """All states of the recurrence h = step(x_t W, h, U)."""
    h = np.empty((*x.shape[:-1], len(U)), x.dtype)
    last = np.full((*x.shape[:-2], len(U)), 0.0, x.dtype)
    for t in range(x.shape[-2]):
        last = h[..., t, :] = np.tanh(x[..., t, :] @ W + last @ U)
    return h


def _zeros_first(h: Any) -> Any:
    return np.concatenate([np.zeros_like(h[..., :1, :]), h], axis=-2)


WRONG_RNN = Changes(_rnn_by_steps,
    along_the_batch=lambda x, W, U: np.moveaxis(_rnn(np.moveaxis(x, 0, -2), W, U), -2, 0),
    no_memory=lambda x, W, U: np.tanh(x @ W),
    late=lambda x, W, U: _zeros_first(_rnn(x, W, U))[..., :-1, :],
    from_the_end=lambda x, W, U: np.ascontiguousarray(_rnn(x[..., ::-1, :], W, U)[..., ::-1, :]),
    one_step_back=lambda x, W, U: np.tanh(x @ W + _zeros_first(np.tanh(x @ W))[..., :-1, :] @ U),
    from_h_0=lambda x, W, U: _zeros_first(_rnn(x, W, U)),
    last_state=lambda x, W, U: _rnn(x, W, U)[..., -1, :],
    time_first=lambda x, W, U: np.moveaxis(_rnn(x, W, U), -2, 0),
)


def _backward_by_steps(dh: Any, x: Any, W: Any, U: Any, h: Any) -> Any:
    """The backward, step by step; `now` is dh of the step, `late` the gradient from the next one."""
    ds = np.empty_like(h)
    late = np.zeros_like(h[..., 0, :])
    for t in reversed(range(h.shape[-2])):
        now = dh[..., t, :]
        ds[..., t, :] = (now + late) * (1 - h[..., t, :] ** 2)
        late = ds[..., t, :] @ U.T
    return ds @ W.T, _summed(x, ds), _summed(h[..., :-1, :], ds[..., 1:, :])


_crossed = changed(_backward_by_steps, "h[..., :-1, :], ds[..., 1:, :] -> h[..., 1:, :], ds[..., :-1, :]")


def _from_the_front(dh: Any, x: Any, W: Any, U: Any, h: Any) -> Any:
    """The gradient is carried forward in time, not backward."""
    turn = (..., slice(None, None, -1), slice(None))
    dx, dW, dU = _crossed(dh[turn], x[turn], W, U, h[turn])
    return dx[turn], dW, dU


WRONG_BACKWARD = Changes(_backward_by_steps,
    crossed=_crossed,
    against=lambda dh, x, W, U, h: tuple(-gradient for gradient in _rnn_backward(dh, x, W, U, h)),
    from_the_front=_from_the_front,
    last_only=changed(_backward_by_steps, "dh[..., t, :] -> dh[..., t, :] * (t == h.shape[-2] - 1)"),
    mean=changed(_backward_by_steps, "_summed( -> 1 / x.dtype.type(x.shape[-2]) * _summed("),
)


def scan_by_pairs(a: Any, b: Any) -> Any:
    """The scan by doubling: each round joins results that are `step` apart."""
    h, step = b.copy(), 1
    while step < b.shape[-2]:
        early_a, late_a = a[..., :-step, :], a[..., step:, :]
        early_h, late_h = h[..., :-step, :], h[..., step:, :]
        h = np.concatenate([h[..., :step, :], late_a * early_h + late_h], axis=-2)
        a = np.concatenate([a[..., :step, :], early_a * late_a], axis=-2)
        step = 2 * step
    return h


WRONG_SCAN = Changes(scan_by_pairs,
    quotients=lambda a, b: np.cumprod(a, axis=-2) * np.cumsum(b / np.cumprod(a, axis=-2), axis=-2),
)


def gru_by_steps(x: Any, W: Any, U: Any, b: Any, c: Any) -> Any:
    """The states of a GRU."""
    d = len(U)
    (W_r, W_z, W_n), (U_r, U_z, U_n), (b_r, b_z, b_n), (c_r, c_z, c_n) = (
        [a[..., i * d : (i + 1) * d] for i in (0, 1, 2)] for a in (W, U, b, c)
    )
    h = np.zeros((*x.shape[:-2], d), x.dtype)
    states = []
    for x_t in np.moveaxis(x, -2, 0):
        r, z = ((1 + np.tanh(u / 2)) / 2 for u in (x_t @ W_r + b_r + h @ U_r + c_r, x_t @ W_z + b_z + h @ U_z + c_z))
        candidate = np.tanh(x_t @ W_n + b_n + r * (h @ U_n + c_n))
        h = (1 - z) * candidate + z * h
        states.append(h)
    return np.stack(states, axis=-2)


def _pairs(q: Any, k: Any) -> tuple[Any, Any]:
    return q[..., :, None, :], k[..., None, :, :]


def additive_scores(q: Any, k: Any, w: Any) -> Any:
    """Additive scores."""
    q, k = _pairs(q, k)
    return np.tanh(q + k) @ w


WRONG_ADDITIVE = Changes(additive_scores,
    tanh_of_each_product=lambda q, k, w: np.tanh(q @ w)[..., :, None] + np.tanh(k @ w)[..., None, :],
    tanh_of_the_sum=lambda q, k, w: np.tanh(np.sum((_pairs(q, k)[0] + _pairs(q, k)[1]) * w, axis=-1)),
    dot_product=lambda q, k, w: q @ np.swapaxes(k, -1, -2),
    tanh_of_dot_product=lambda q, k, w: np.tanh(q @ np.swapaxes(k, -1, -2)),
    keys_of_the_same_place=lambda q, k, w: np.tanh(q + k) @ w if q.shape == k.shape else np.tanh(q + k[..., :1, :]) @ w,
)


EXERCISES = Prose(17).exercises(
    my_rnn=Function(RNN, tempting=WRONG_RNN),
    repaired_scan=Function(SCAN, tempting=WRONG_SCAN),
    # multiplications of n products (1, d) @ (d, d), divided by those of one (n, d) @ (d, n)
    recurrent_over_attention=Number(lambda: N * D * D / (N * D * N), tolerance=0.001),
    my_rnn_backward=Function(RNN, part="backward", tempting=WRONG_BACKWARD),
    power_of_ten_left=Number(_power_of_ten_left, tolerance=0.0037),         # to one decimal
    repaired_gru=Function(GRU, tempting=Changes(gru_by_steps)),
    letters_that_fit=Number(_letters, exactly=True),
    my_additive_scores=Function("additive_scores", tempting=WRONG_ADDITIVE),
)
