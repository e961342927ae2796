"""Exercises of chapter 15, before attention."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import ops
from ...check import oracles
from ...check.cases import CaseDrawer
from ...check.spec import Spec
from ...check.specs import get_spec
from ..graders import Function, Number
from ..prose import Prose

CHAPTER = 15
PROSE = Prose(CHAPTER)
N, D = 32, 512                               # of recurrent_over_attention
STEPS, FORGET_BIAS = 100, 1.0                # of power_of_ten_left
LETTERS, NUMBERS, BITS = 27, 64, 32          # of letters_that_fit


def _recurrent_over_attention() -> float:
    """Multiplications of n products (1, d) @ (d, d), over those of one (n, d) @ (d, n)."""
    return N * (D * D) / (N * D * N)


def _letters() -> int:
    """The longest text of which there are no more than there are states of the vector; in whole numbers, exactly."""
    n = 0
    while LETTERS ** (n + 1) <= 2 ** (NUMBERS * BITS):
        n += 1
    return n


def _power_of_ten_left() -> float:
    """log10 of what is left of a gradient after STEPS steps through a cell whose gates do not move."""
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


def _summed(a: Any, b: Any) -> Any:
    """Σ a_tᵀ b_t over all steps and sequences. Shapes: a (..., n, c), b (..., n, d) -> (c, d)."""
    product = a.swapaxes(-1, -2) @ b
    return product.sum(axis=tuple(range(product.ndim - 2)))


def _rnn_backward(dh: Any, x: Any, W: Any, U: Any, h: Any) -> Any:
    """Gradients of _rnn by x, W and U. Shapes: dh, h (..., n, d), x (..., n, c)."""
    return ops.rnn_backward(dh, x, W, U, h)[:3]


def _rnn_case(draw: CaseDrawer) -> dict[str, Any]:
    """Weights so small that h neither saturates nor turns chaotic, however wide: both would hide a wrong line."""
    n, c = draw.size(), draw.size()
    d = draw.size_like(c)
    return {"x": draw.array(*draw.lead, n, c), "W": draw.array(c, d, size=0.5 / c), "U": draw.array(d, d, size=0.5 / d)}


RNN = Spec(
    name="rnn",
    says="h_t = tanh(x_t W + h_{t-1} U), from h_0 = 0",
    function="rnn",
    case=_rnn_case,
    ours=lambda: SimpleNamespace(rnn=_rnn, rnn_backward=_rnn_backward),
    properties=[],
    outputs=("h",),
    oracle=lambda x, W, U: oracles.rnn(x, W, U, np.zeros(len(U))),
    wrt=("x", "W", "U"),
)


def _scan(a: Any, b: Any) -> Any:
    """h_t = a_t h_{t-1} + b_t, h_0 = 0, along the second last axis. Shapes: a, b (..., n, d) -> h (..., n, d)."""
    h = np.empty_like(b)
    last = np.zeros_like(b[..., 0, :])
    for t in range(b.shape[-2]):
        last = h[..., t, :] = a[..., t, :] * last + b[..., t, :]
    return h


def _scan_by_loops(a: Any, b: Any) -> np.ndarray:
    h = np.zeros(b.shape)
    for *lead, t, j in np.ndindex(*b.shape):
        before = h[(*lead, t - 1, j)] if t > 0 else 0.0
        h[(*lead, t, j)] = a[(*lead, t, j)] * before + b[(*lead, t, j)]
    return h


def _scan_case(draw: CaseDrawer) -> dict[str, Any]:
    """Factors below 1: products of seventy of them stay small."""
    shape = (*draw.lead, draw.size(), draw.size())
    return {"a": draw.array(*shape, size=0.25), "b": draw.array(*shape)}


SCAN = Spec(
    name="scan",
    says="h_t = a_t h_{t-1} + b_t, from h_0 = 0",
    function="scan",
    case=_scan_case,
    ours=lambda: SimpleNamespace(scan=_scan),
    properties=[],
    outputs=("h",),
    oracle=_scan_by_loops,
)


def _gru_case(draw: CaseDrawer) -> dict[str, Any]:
    """From the state 0, with weights as small as those of `_rnn_case`: in a closed gate a wrong line would not show."""
    n, i, d = draw.size(), draw.size(), draw.size(high=4)
    W, U = draw.array(i, 3 * d, size=0.5 / i), draw.array(d, 3 * d, size=0.5 / d)
    b, c = draw.array(3 * d, size=0.5), draw.array(3 * d, size=0.5)
    return {"x": draw.array(*draw.lead, n, i), "W": W, "U": U, "b": b, "c": c}


GRU = Spec(
    name="gru_from_zeros",
    says=get_spec("gru").says,
    function="gru",
    case=_gru_case,
    ours=lambda: SimpleNamespace(gru=lambda x, W, U, b, c: ops.gru(x, W, U, b, c)[0]),
    properties=[],
    outputs=("h",),
    oracle=oracles.gru,
)


# --- what readers write instead -----------------------------------------------------------------------------------


def _by_steps(step: Any, begin: float = 0.0) -> Any:
    """All states of the recurrence h = step(x_t W, h, U)."""

    def rnn(x: Any, W: Any, U: Any) -> Any:
        h = np.empty((*x.shape[:-1], len(U)), x.dtype)
        last = np.full((*x.shape[:-2], len(U)), begin, x.dtype)
        for t in range(x.shape[-2]):
            last = h[..., t, :] = step(x[..., t, :] @ W, last, U)
        return h

    return rnn


def _late(x: Any, W: Any, U: Any) -> Any:
    """States shifted by one: what each step began with."""
    h = _rnn(x, W, U)
    return np.concatenate([np.zeros_like(h[..., :1, :]), h[..., :-1, :]], axis=-2)


def _one_step_back(x: Any, W: Any, U: Any) -> Any:
    """Every state from the input before it, not from the state before it: a memory of one token."""
    s = x @ W
    before = np.concatenate([np.zeros_like(s[..., :1, :]), np.tanh(s[..., :-1, :])], axis=-2)
    return np.tanh(s + before @ U)


def _from_h_0(x: Any, W: Any, U: Any) -> Any:
    """n + 1 states, the zeros first."""
    h = _rnn(x, W, U)
    return np.concatenate([np.zeros_like(h[..., :1, :]), h], axis=-2)


WRONG_RNN = PROSE.said(
    "my_rnn.mistakes",
    along_the_batch=lambda x, W, U: np.moveaxis(_rnn(np.moveaxis(x, 0, -2), W, U), -2, 0),
    first_without_tanh=_by_steps(lambda s, h, U: np.tanh(s + h @ U) if h.any() else s),
    no_tanh=_by_steps(lambda s, h, U: s + h @ U),
    no_memory=lambda x, W, U: np.tanh(x @ W),
    tanh_of_the_token_alone=_by_steps(lambda s, h, U: np.tanh(s) + h @ U),
    tanh_inside=_by_steps(lambda s, h, U: np.tanh(s + np.tanh(h @ U))),
    u_transposed=_by_steps(lambda s, h, U: np.tanh(s + h @ U.T)),
    u_missing=_by_steps(lambda s, h, U: np.tanh(s + h)),
    added_to_the_last=_by_steps(lambda s, h, U: h + np.tanh(s + h @ U)),
    late=_late,
    from_the_end=lambda x, W, U: np.ascontiguousarray(_rnn(x[..., ::-1, :], W, U)[..., ::-1, :]),
    from_one=_by_steps(lambda s, h, U: np.tanh(s + h @ U), begin=1.0),
    one_step_back=_one_step_back,
    logistic=_by_steps(lambda s, h, U: 1 / (1 + np.exp(-(s + h @ U)))),
    from_h_0=_from_h_0,
    last_state=lambda x, W, U: _rnn(x, W, U)[..., -1, :],
    time_first=lambda x, W, U: np.moveaxis(_rnn(x, W, U), -2, 0),
)


def _through_time(
    dh: Any, x: Any, W: Any, U: Any, h: Any, *, slope: Any = lambda h: 1 - h**2, carry: Any = None, turned: bool = True,
    joined: Any = lambda own, late, slope: (own + late) * slope, kept: float = 0.0,
) -> Any:  # fmt: skip
    """ds of every step, by a backward whose slope, carry from step to step, or U may be wrong."""
    ds = np.empty_like(h)
    late = np.zeros_like(h[..., 0, :])
    for t in reversed(range(h.shape[-2])):
        total = dh[..., t, :] + late
        ds[..., t, :] = joined(dh[..., t, :], late, slope(h[..., t, :]))
        back = ds[..., t, :] if carry is None else carry(total, dh[..., t, :], ds[..., t, :])
        late = kept * late + back @ (U.T if turned else U)
    return ds


def _three(x: Any, W: Any, h: Any, ds: Any) -> Any:
    """The three gradients, once ds is known."""
    dW = _summed(x, ds)
    return ds @ W.T, dW, _summed(h[..., :-1, :], ds[..., 1:, :])


def _wrong_backward(**how: Any) -> Any:
    return lambda dh, x, W, U, h: _three(x, W, h, _through_time(dh, x, W, U, h, **how))


def _with_dU(of: Any) -> Any:
    """The backward with another dU, `of(h, ds)`."""

    def backward(dh: Any, x: Any, W: Any, U: Any, h: Any) -> Any:
        ds = _through_time(dh, x, W, U, h)
        dx, dW, _ = _three(x, W, h, ds)
        return dx, dW, of(h, ds)

    return backward


def _turned(dh: Any, x: Any, W: Any, U: Any, h: Any) -> Any:
    dx, dW, dU = _rnn_backward(dh, x, W, U, h)
    return dx, dW, dU.T.copy()


def _from_the_front(dh: Any, x: Any, W: Any, U: Any, h: Any) -> Any:
    """The carry runs with time, not against it."""
    turn = (..., slice(None, None, -1), slice(None))
    ds = _through_time(dh[turn], x, W, U, h[turn])[turn]
    return _three(x, W, h, ds)


def _last_only(dh: Any, x: Any, W: Any, U: Any, h: Any) -> Any:
    """Only the upstream gradient at the last state is used."""
    last = np.zeros_like(dh)
    last[..., -1, :] = dh[..., -1, :]
    return _rnn_backward(last, x, W, U, h)


def _mean(dh: Any, x: Any, W: Any, U: Any, h: Any) -> Any:
    dx, dW, dU = _rnn_backward(dh, x, W, U, h)
    return dx, dW / x.dtype.type(x.shape[-2]), dU / x.dtype.type(x.shape[-2])


WRONG_BACKWARD = PROSE.said(
    "my_rnn_backward.mistakes",
    all_later_added=_wrong_backward(kept=1.0),
    carry_past_the_slope=_wrong_backward(joined=lambda own, late, slope: own * slope + late),
    nothing_carried=_wrong_backward(carry=lambda total, own, ds: 0 * ds),
    no_slope=_wrong_backward(slope=np.ones_like),
    slope_without_square=_wrong_backward(slope=lambda h: 1 - h),
    slope_of_h=_wrong_backward(slope=lambda h: 1 - np.tanh(h) ** 2),
    slope_of_logistic=_wrong_backward(slope=lambda h: h * (1 - h)),
    u_not_transposed=_wrong_backward(turned=False),
    total_carried=_wrong_backward(carry=lambda total, own, ds: total),
    own_carried=_wrong_backward(carry=lambda total, own, ds: own),
    later=_with_dU(_summed),
    crossed=_with_dU(lambda h, ds: _summed(h[..., 1:, :], ds[..., :-1, :])),
    against=lambda dh, x, W, U, h: tuple(-gradient for gradient in _rnn_backward(dh, x, W, U, h)),
    turned=_turned,
    from_the_front=_from_the_front,
    last_only=_last_only,
    mean=_mean,
)


def scan_with(
    join: Any = lambda early_a, late_a, early_h, late_h: late_a * early_h + late_h,
    factors: Any = lambda early, late: early * late, grow: Any = lambda step: 2 * step, begin: int = 1,
) -> Any:  # fmt: skip
    """The scan by joined pairs, with one line written otherwise."""

    def scan(a: Any, b: Any) -> Any:
        h, step = b.copy(), begin
        while step < b.shape[-2]:
            early_a, late_a = a[..., :-step, :], a[..., step:, :]
            early_h, late_h = h[..., :-step, :], h[..., step:, :]
            h = np.concatenate([h[..., :step, :], join(early_a, late_a, early_h, late_h)], axis=-2)
            a = np.concatenate([a[..., :step, :], factors(early_a, late_a)], axis=-2)
            step = grow(step)
        return h

    return scan


def _quotients(a: Any, b: Any) -> Any:
    products = np.cumprod(a, axis=-2)
    return products * np.cumsum(b / products, axis=-2)


WRONG_SCAN = PROSE.said(
    "repaired_scan.mistakes",
    as_it_was=scan_with(join=lambda ea, la, eh, lh: ea * eh + lh),
    states_exchanged=scan_with(join=lambda ea, la, eh, lh: la * lh + eh),
    early_and_late_exchanged=scan_with(join=lambda ea, la, eh, lh: ea * lh + eh),
    both_factors=scan_with(join=lambda ea, la, eh, lh: ea * la * eh + lh),
    no_factor=scan_with(join=lambda ea, la, eh, lh: eh + lh),
    late_state_missing=scan_with(join=lambda ea, la, eh, lh: la * eh),
    both_states_multiplied=scan_with(join=lambda ea, la, eh, lh: la * (eh + lh)),
    late_factor_kept=scan_with(factors=lambda early, late: late),
    early_factor_kept=scan_with(factors=lambda early, late: early),
    factors_added=scan_with(factors=lambda early, late: early + late),
    step_by_one=scan_with(grow=lambda step: step + 1),
    one_round=scan_with(grow=lambda step: 10**9),
    quotients=_quotients,
    begins_with_two=scan_with(begin=2),
)


def _sigmoid(u: Any) -> Any:
    return (1 + np.tanh(u / 2)) / 2


def gru_with(
    new: Any = lambda x, h, r, z, U, c: np.tanh(x + r * (h @ U + c)),
    mix: Any = lambda new, z, h: (1 - z) * new + z * h,
    gate: Any = _sigmoid, order: tuple[int, int, int] = (0, 1, 2), shows: Any = lambda new, h: h,
    last: Any = lambda h: h,
) -> Any:  # fmt: skip
    """A GRU with one line written otherwise. new(x_t W_n + b_n, h, r, z, U_n, c_n) is the candidate."""

    def gru(x: Any, W: Any, U: Any, b: Any, c: Any) -> Any:
        d = len(U)
        (W_r, W_z, W_n), (U_r, U_z, U_n), (b_r, b_z, b_n), (c_r, c_z, c_n) = (
            [a[..., i * d : (i + 1) * d] for i in order] for a in (W, U, b, c)
        )
        h = np.zeros((*x.shape[:-2], d), x.dtype)
        states = []
        for x_t in np.moveaxis(x, -2, 0):
            r, z = gate(x_t @ W_r + b_r + h @ U_r + c_r), gate(x_t @ W_z + b_z + h @ U_z + c_z)
            candidate = new(x_t @ W_n + b_n, h, r, z, U_n, c_n)
            h = mix(candidate, z, h)
            states.append(shows(candidate, h))
        return last(np.stack(states, axis=-2))

    return gru


WRONG_GRU = PROSE.said(
    "repaired_gru.mistakes",
    as_it_was=gru_with(lambda x, h, r, z, U, c: np.tanh(x + (r * h) @ U + c)),
    c_outside_the_bracket=gru_with(lambda x, h, r, z, U, c: np.tanh(x + r * (h @ U) + c)),
    c_missing=gru_with(lambda x, h, r, z, U, c: np.tanh(x + r * (h @ U))),
    c_twice=gru_with(lambda x, h, r, z, U, c: np.tanh(x + r * (h @ U + c) + c)),
    r_at_h_and_c=gru_with(lambda x, h, r, z, U, c: np.tanh(x + (r * h) @ U + r * c)),
    product_twice=gru_with(lambda x, h, r, z, U, c: np.tanh(x + (r * h) @ U + h @ U + c)),
    r_at_the_token=gru_with(lambda x, h, r, z, U, c: np.tanh(r * (x + h @ U + c))),
    no_r=gru_with(lambda x, h, r, z, U, c: np.tanh(x + h @ U + c)),
    z_for_r=gru_with(lambda x, h, r, z, U, c: np.tanh(x + z * (h @ U + c))),
    one_minus_r=gru_with(lambda x, h, r, z, U, c: np.tanh(x + (1 - r) * (h @ U + c))),
    u_transposed=gru_with(lambda x, h, r, z, U, c: np.tanh(x + r * (h @ U.T + c))),
    no_tanh=gru_with(lambda x, h, r, z, U, c: x + r * (h @ U + c)),
    shares_exchanged=gru_with(mix=lambda new, z, h: z * new + (1 - z) * h),
    whole_candidate=gru_with(mix=lambda new, z, h: new + z * h),
    gates_of_tanh=gru_with(gate=np.tanh),
    blocks_exchanged=gru_with(order=(1, 0, 2)),
    candidates_shown=gru_with(shows=lambda new, h: new),
    last_state=gru_with(last=lambda h: h[..., -1, :]),
)


def _pairs(q: Any, k: Any) -> tuple[Any, Any]:
    return q[..., :, None, :], k[..., None, :, :]


def additive_with(both: Any = lambda q, k: np.tanh(q + k), weigh: Any = lambda t, w: t @ w) -> Any:
    """Additive scores with one part written otherwise; `both` gets q and k with axes (..., n, 1, d), (..., 1, m, d)."""
    return lambda q, k, w: weigh(both(*_pairs(q, k)), w)


WRONG_ADDITIVE = PROSE.said(
    "my_additive_scores.mistakes",
    no_tanh=additive_with(lambda q, k: q + k),
    sum_of_two_tanh=additive_with(lambda q, k: np.tanh(q) + np.tanh(k)),
    tanh_of_each_product=lambda q, k, w: np.tanh(q @ w)[..., :, None] + np.tanh(k @ w)[..., None, :],
    tanh_of_the_sum=lambda q, k, w: np.tanh(np.sum((_pairs(q, k)[0] + _pairs(q, k)[1]) * w, axis=-1)),
    subtracted=additive_with(lambda q, k: np.tanh(q - k)),
    multiplied=additive_with(lambda q, k: np.tanh(q * k)),
    dot_product=lambda q, k, w: q @ np.swapaxes(k, -1, -2),
    tanh_of_dot_product=lambda q, k, w: np.tanh(q @ np.swapaxes(k, -1, -2)),
    no_w=additive_with(weigh=lambda t, w: np.sum(t, axis=-1)),
    mean_for_sum=additive_with(weigh=lambda t, w: np.mean(t * w, axis=-1)),
    divided_by_root_d=additive_with(weigh=lambda t, w: t @ w / math.sqrt(len(w))),
    w_squared=additive_with(weigh=lambda t, w: t @ w**2),
    logistic=additive_with(lambda q, k: 1 / (1 + np.exp(-(q + k)))),
    transposed=additive_with(weigh=lambda t, w: np.swapaxes(t @ w, -1, -2)),
    weights=additive_with(weigh=lambda t, w: ops.softmax(t @ w)),
    keys_of_the_same_place=lambda q, k, w: np.tanh(q + k) @ w if q.shape == k.shape else np.tanh(q + k[..., :1, :]) @ w,
)


EXERCISES = PROSE.exercises(
    my_rnn=Function(RNN, tempting=WRONG_RNN),
    repaired_scan=Function(SCAN, tempting=WRONG_SCAN),
    recurrent_over_attention=Number(_recurrent_over_attention, tolerance=0.001, tempting=PROSE.said(
        "recurrent_over_attention.mistakes",
        upside_down=lambda: N / D,
        equal=lambda: 1.0,
        one_n_left=lambda: D,
        d_squared_left=lambda: D * D / N,
    )),
    my_rnn_backward=Function(RNN, part="backward", tempting=WRONG_BACKWARD),
    power_of_ten_left=Number(_power_of_ten_left, tolerance=0.0037, tempting=PROSE.said(     # to one decimal
        "power_of_ten_left.mistakes",
        all_left=lambda: 0.0,
        share_itself=lambda: 10 ** _power_of_ten_left(),
        half_open=lambda: STEPS * math.log10(1 / 2),
        sign_missing=lambda: -_power_of_ten_left(),
        natural_logarithm=lambda: STEPS * -math.log(1 + math.exp(-FORGET_BIAS)),
        share_forgotten=lambda: STEPS * math.log10(1 - 1 / (1 + math.exp(-FORGET_BIAS))),
        one_step=lambda: _power_of_ten_left() / STEPS,
        gate_of_tanh=lambda: STEPS * math.log10(math.tanh(FORGET_BIAS)),
    )),
    repaired_gru=Function(GRU, tempting=WRONG_GRU),
    letters_that_fit=Number(_letters, tolerance=0.0005, exactly=True, tempting=PROSE.said(
        "letters_that_fit.mistakes",
        one_letter_a_number=lambda: NUMBERS,
        number_of_bits=lambda: NUMBERS * BITS,
        whole_letters_a_number=lambda: NUMBERS * int(BITS / math.log2(LETTERS)),
        rounded_up=lambda: math.ceil(NUMBERS * BITS / math.log2(LETTERS)),
        five_bits_a_letter=lambda: NUMBERS * BITS // 5,
    )),
    my_additive_scores=Function("additive_scores", tempting=WRONG_ADDITIVE),
)
