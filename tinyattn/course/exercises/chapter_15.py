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
from ..exercise import Exercise
from ..graders import Function, Number

CHAPTER = 15
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


def _states(x: Any, W: Any, U: Any, step: Any) -> Any:
    """All states of the recurrence last = step(x_t W, last)."""
    h = np.empty((*x.shape[:-1], len(U)), x.dtype)
    last = np.zeros((*x.shape[:-2], len(U)), x.dtype)
    for t in range(x.shape[-2]):
        last = h[..., t, :] = step(x[..., t, :] @ W, last)
    return h


def _late(x: Any, W: Any, U: Any) -> Any:
    """States shifted by one: what each step began with."""
    h = _rnn(x, W, U)
    return np.concatenate([np.zeros_like(h[..., :1, :]), h[..., :-1, :]], axis=-2)


def _from_the_end(x: Any, W: Any, U: Any) -> Any:
    return np.ascontiguousarray(_rnn(x[..., ::-1, :], W, U)[..., ::-1, :])


def _from_one(x: Any, W: Any, U: Any) -> Any:
    h = np.empty((*x.shape[:-1], len(U)), x.dtype)
    last = np.ones((*x.shape[:-2], len(U)), x.dtype)
    for t in range(x.shape[-2]):
        last = h[..., t, :] = np.tanh(x[..., t, :] @ W + last @ U)
    return h


def _one_step_back(x: Any, W: Any, U: Any) -> Any:
    """Every state from the input before it, not from the state before it: a memory of one token."""
    s = x @ W
    before = np.concatenate([np.zeros_like(s[..., :1, :]), np.tanh(s[..., :-1, :])], axis=-2)
    return np.tanh(s + before @ U)


def _from_h_0(x: Any, W: Any, U: Any) -> Any:
    """n + 1 states, the zeros first."""
    h = _rnn(x, W, U)
    return np.concatenate([np.zeros_like(h[..., :1, :]), h], axis=-2)


def _last_state(x: Any, W: Any, U: Any) -> Any:
    return _rnn(x, W, U)[..., -1, :]


WRONG_RNN = (
    (lambda x, W, U: np.moveaxis(_rnn(np.moveaxis(x, 0, -2), W, U), -2, 0), "Which axis of x is time, in a batch?",
     "Yours goes along the first axis, which is the batch. Tokens are the second last: x[..., t, :]."),
    (lambda x, W, U: _states(x, W, U, lambda s, h: np.tanh(s + h @ U) if h.any() else s),
     "What is h_1, if h_0 is 0: is there a tanh around it?", "h_1 is made as every other state: tanh(x_1 W)."),
    (lambda x, W, U: _states(x, W, U, lambda s, h: s + h @ U), "Is every entry of your h between -1 and 1?",
     "The tanh is missing."),
    (lambda x, W, U: np.tanh(x @ W), "Change x_1: does your h_2 change? Where does h_{t-1} come in?"),
    (lambda x, W, U: _states(x, W, U, lambda s, h: np.tanh(s) + h @ U), "Is every entry of your h between -1 and 1?",
     "The tanh is around the sum, not within it."),
    (lambda x, W, U: _states(x, W, U, lambda s, h: np.tanh(s + np.tanh(h @ U))), "How many tanh has the formula?",
     "There is one tanh a step: around the whole sum, and around nothing inside it."),
    (lambda x, W, U: _states(x, W, U, lambda s, h: np.tanh(s + h @ U.T)),
     "Which entry of U leads from entry i of h_{t-1} to entry j of h_t?", "It is h U: U is not transposed."),
    (lambda x, W, U: _states(x, W, U, lambda s, h: np.tanh(s + h)), "Where does U come in?",
     "h_{t-1} is multiplied by U before it is added."),
    (lambda x, W, U: _states(x, W, U, lambda s, h: h + np.tanh(s + h @ U)), "Does your h stay between -1 and 1?",
     "h_t replaces h_{t-1}: it is not the sum of the two."),
    (_late, "With n = 1, what should come back: h_0, or h_1?", "Row t is the state after x_t was read, not before."),
    (_from_the_end, "Which token is read first?"),
    (_from_one, "What is h_1 if h_0 is 0? Try it with n = 1."),
    (_one_step_back, "Change x_1: does your h_3 change?",
     "Your h_t remembers one token. It should be made from h_{t-1}, which remembers them all."),
    (lambda x, W, U: _states(x, W, U, lambda s, h: 1 / (1 + np.exp(-(s + h @ U)))),
     "Should a token of zeros move the state? tanh(0) is 0, the logistic function's value there is 1/2."),
    (_from_h_0, "How many tokens are there, and how many states?", "h_0 is what you begin with, and no row of h."),
    (_last_state, "How many states are asked for?", "That is the last state. Keep them all, one a row."),
    (lambda x, W, U: np.moveaxis(_rnn(x, W, U), -2, 0), "Which axis of x holds the tokens, and which one of your h?",
     "The axis of tokens is the second last, in h as in x: np.stack(states, axis=-2)."),
)  # fmt: skip


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


def _later(dh: Any, x: Any, W: Any, U: Any, h: Any) -> Any:
    """dU from h_t in place of h_{t-1}."""
    ds = _through_time(dh, x, W, U, h)
    dx, dW, _ = _three(x, W, h, ds)
    return dx, dW, _summed(h, ds)


def _crossed(dh: Any, x: Any, W: Any, U: Any, h: Any) -> Any:
    """dU from the state after in place of the state before."""
    ds = _through_time(dh, x, W, U, h)
    dx, dW, _ = _three(x, W, h, ds)
    return dx, dW, _summed(h[..., 1:, :], ds[..., :-1, :])


def _against(dh: Any, x: Any, W: Any, U: Any, h: Any) -> Any:
    return tuple(-gradient for gradient in _rnn_backward(dh, x, W, U, h))


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


WRONG_BACKWARD = (
    (_wrong_backward(kept=1.0), "Which steps hand something back to h_t directly?",
     "Only step t + 1 does. Yours adds up what all later steps handed back: `=`, not `+=`."),
    (_wrong_backward(joined=lambda own, late, slope: own * slope + late),
     "Does what step t + 1 hands back go through the tanh of step t?",
     "Both gradients reach h_t, and so both are multiplied by the slope: (dh_t + ...)(1 - h_t²)."),
    (_wrong_backward(carry=lambda total, own, ds: 0 * ds), "x_1 reaches h_2 through h_1: what must step 2 hand back?"),
    (_wrong_backward(slope=np.ones_like), "h = tanh(s): what is dh/ds? You have h, and need no s."),
    (_wrong_backward(slope=lambda h: 1 - h), "What is the derivative of tanh, written with tanh?",
     "tanh' = 1 - tanh²: a square is missing."),
    (_wrong_backward(slope=lambda h: 1 - np.tanh(h) ** 2),
     "h is already a tanh. What is the slope of tanh in terms of its output?",
     "h is what comes out of the tanh, not what goes in: the slope is 1 - h²."),
    (_wrong_backward(slope=lambda h: h * (1 - h)), "What is the derivative of tanh, written with tanh?",
     "h (1 - h) is the slope of the logistic function; that of tanh is 1 - h²."),
    (_wrong_backward(turned=False), "s_t = x_t W + h_{t-1} U: which way round does U stand on the way back?",
     "U must be transposed on the way back."),
    (_wrong_backward(carry=lambda total, own, ds: total), "What is handed back comes from s_t: is it ds?"),
    (
        _wrong_backward(carry=lambda total, own, ds: own),
        "How does what the loss asks of h_3 get to h_1?",
        "You hand back only the gradient that came from above. What came from later steps must travel on, too.",
    ),
    (_later, "Which state does step t multiply by U: which rows of h meet which rows of ds?",
     "Step t multiplies U by h_{t-1}, not by h_t."),
    (_crossed, "Which state stood before U when s_t was made?", "h_{t+1} meets ds_t in your dU; it should be h_{t-1}."),
    (_against, "Does the loss rise or fall along your gradients?", "Every gradient is right but for its sign."),
    (_turned, "Which entry of h_{t-1}, and which of s_t, does U[i, j] connect?", "Your dU is transposed."),
    (_from_the_front, "Which step's ds can be computed first: that of the first token, or of the last?"),
    (_last_only, "The loss may look at every h_t: where does each dh_t join in?", "Only dh_n is used."),
    (_mean, "Every step uses the same W and U: do their gradients add up, or is it a mean?"),
)  # fmt: skip


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


_ACTS = "First (a, b), then (a', b'). Which of the two factors multiplies what the first step left?"
WRONG_SCAN = (
    (scan_with(join=lambda ea, la, eh, lh: ea * eh + lh), "What has changed? Compare with buggy_scan line by line.",
     "It is as it was: the early factor multiplies the early state."),
    (scan_with(join=lambda ea, la, eh, lh: la * lh + eh), _ACTS, "Early and late h have changed places."),
    (scan_with(join=lambda ea, la, eh, lh: ea * lh + eh), _ACTS,
     "Early and late have changed places, in the factors and in h."),
    (scan_with(join=lambda ea, la, eh, lh: ea * la * eh + lh), _ACTS,
     "The product of both factors belongs to what came before both steps; that is another round's work."),
    (scan_with(join=lambda ea, la, eh, lh: eh + lh), "Where are the factors?", "The early h is added unmultiplied."),
    (scan_with(join=lambda ea, la, eh, lh: la * eh), "h_2 = a_2 b_1 + b_2: where is b_2?", "The late h is missing."),
    (scan_with(join=lambda ea, la, eh, lh: la * (eh + lh)), "By what is b_2 multiplied in h_2?",
     "The late factor multiplies the early state only."),
    (scan_with(factors=lambda early, late: late), "Two steps in a row: by what is h multiplied in all?",
     "The new factor is the product of both; that line was right."),
    (scan_with(factors=lambda early, late: early), "Two steps in a row: by what is h multiplied in all?",
     "The new factor is the product of both; that line was right."),
    (scan_with(factors=lambda early, late: early + late), "Two steps in a row: by what is h multiplied in all?",
     "The factors of two steps are multiplied, not added; that line was right."),
    (scan_with(grow=lambda step: step + 1), "After two rounds, how many steps does row t stand for?",
     "Each round doubles the number of steps; that line was right."),
    (scan_with(grow=lambda step: 10**9), "How many rounds are there for four tokens?", "There is one round only."),
    (_quotients, "What is b / 0?",
     "Products of factors below 1 become 0, and you divide by them. Join pairs, as buggy_scan."),
    (scan_with(begin=2), "Which rows are joined first?", "The first round joins neighbours: step begins with 1."),
)  # fmt: skip


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


_WHERE = "In the candidate, does r multiply h, or what the product with U_n made of it?"
_KEPT = "With z = 1, is h copied, or replaced?"
WRONG_GRU = (
    (gru_with(lambda x, h, r, z, U, c: np.tanh(x + (r * h) @ U + c)), _WHERE,
     "It is as it was: r acts before the product with U_n."),
    (gru_with(lambda x, h, r, z, U, c: np.tanh(x + r * (h @ U) + c)), "Is c_n inside of the bracket that r multiplies?",
     "r stands behind the product now, but it multiplies c_n as well."),
    (gru_with(lambda x, h, r, z, U, c: np.tanh(x + r * (h @ U))), "Where is c_n?", "c_n is missing."),
    (gru_with(lambda x, h, r, z, U, c: np.tanh(x + r * (h @ U + c) + c)), "How often does c_n stand in the formula?",
     "c_n is there twice: it moves into the bracket."),
    (gru_with(lambda x, h, r, z, U, c: np.tanh(x + (r * h) @ U + r * c)), _WHERE,
     "r multiplies c_n, as it should, but h before the product."),
    (gru_with(lambda x, h, r, z, U, c: np.tanh(x + (r * h) @ U + h @ U + c)), _WHERE,
     "The product with U_n is there twice."),
    (gru_with(lambda x, h, r, z, U, c: np.tanh(r * (x + h @ U + c))), "Does r stand before the token's part as well?",
     "r closes what comes from the state, not what comes from the token."),
    (gru_with(lambda x, h, r, z, U, c: np.tanh(x + h @ U + c)), "Where is r?", "r is not used any more."),
    (gru_with(lambda x, h, r, z, U, c: np.tanh(x + z * (h @ U + c))), "Which gate stands in the candidate?",
     "z stands there in place of r."),
    (gru_with(lambda x, h, r, z, U, c: np.tanh(x + (1 - r) * (h @ U + c))), "With r = 1, is the state heard, or not?",
     "r itself multiplies, not 1 - r."),
    (gru_with(lambda x, h, r, z, U, c: np.tanh(x + r * (h @ U.T + c))),
     "Which entry of U leads from entry i of h to entry j of n?", "U_n must not be transposed."),
    (gru_with(lambda x, h, r, z, U, c: x + r * (h @ U + c)), "Is every entry of your h between -1 and 1?",
     "The tanh of the candidate is missing."),
    (gru_with(mix=lambda new, z, h: z * new + (1 - z) * h), _KEPT,
     "z and 1 - z have changed places (as in some papers). That line was right."),
    (gru_with(mix=lambda new, z, h: new + z * h), _KEPT, "The candidate's share is 1 - z. That line was right."),
    (gru_with(gate=np.tanh), "Between which numbers does a gate lie?", "Gates are σ, not tanh; they were right."),
    (gru_with(order=(1, 0, 2)), "In which order do the blocks of W stand?", "They stand as r, z, n; that was right."),
    (gru_with(shows=lambda new, h: new), "What is asked for: n_t, or h_t?", "Those are the candidates, no states."),
    (gru_with(last=lambda h: h[..., -1, :]), "How many states are asked for?",
     "That is the last state. Keep them all, one a row."),
)  # fmt: skip


def _pairs(q: Any, k: Any) -> tuple[Any, Any]:
    return q[..., :, None, :], k[..., None, :, :]


def additive_with(both: Any = lambda q, k: np.tanh(q + k), weigh: Any = lambda t, w: t @ w) -> Any:
    """Additive scores with one part written otherwise; `both` gets q and k with axes (..., n, 1, d), (..., 1, m, d)."""
    return lambda q, k, w: weigh(both(*_pairs(q, k)), w)


_ROOM = "q is (n, d), k is (m, d), and s is (n, m). Which array has an entry for every pair and every feature?"
WRONG_ADDITIVE = (
    (additive_with(lambda q, k: q + k), "Can a score of yours be larger than Σ |w|?", "The tanh is missing."),
    (additive_with(lambda q, k: np.tanh(q) + np.tanh(k)), "Is it the tanh of a sum, or a sum of two?",
     "q and k are added first: tanh(q + k)."),
    (lambda q, k, w: np.tanh(q @ w)[..., :, None] + np.tanh(k @ w)[..., None, :],
     "Is it the tanh of a sum, or a sum of two?", "First q + k, feature by feature, then the tanh, then w."),
    (lambda q, k, w: np.tanh(np.sum((_pairs(q, k)[0] + _pairs(q, k)[1]) * w, axis=-1)), "Where does w come in?",
     "The tanh is of each feature, before w adds them up."),
    (additive_with(lambda q, k: np.tanh(q - k)), "With q = k, what is the score?", "It is q + k, not q - k."),
    (additive_with(lambda q, k: np.tanh(q * k)), "What does `additive` mean?", "q and k are added, not multiplied."),
    (lambda q, k, w: q @ np.swapaxes(k, -1, -2), "Where is w, and where the tanh?",
     "That is a dot product, which came later."),
    (lambda q, k, w: np.tanh(q @ np.swapaxes(k, -1, -2)), "Where is w?", "The tanh is of a sum of vectors."),
    (additive_with(weigh=lambda t, w: np.sum(t, axis=-1)), "Where is w?", "The features are added up without w."),
    (additive_with(weigh=lambda t, w: np.mean(t * w, axis=-1)), "Is w · tanh(...) a sum, or a mean?",
     "It is a sum over features: nothing is divided by d."),
    (additive_with(weigh=lambda t, w: t @ w / math.sqrt(len(w))), "Is there a √d in the formula?",
     "Nothing is divided: the √d belongs to dot products."),
    (additive_with(weigh=lambda t, w: t @ w**2), "How often does w stand in the formula?", "w is there once."),
    (additive_with(lambda q, k: 1 / (1 + np.exp(-(q + k)))), "With q = k = 0, what is the score?",
     "That is σ; the formula has tanh."),
    (additive_with(weigh=lambda t, w: np.swapaxes(t @ w, -1, -2)), "s_ij: which of the two is the query?",
     "Queries are the rows of s."),
    (additive_with(weigh=lambda t, w: ops.softmax(t @ w)), "What is asked for: scores, or weights?",
     "Those are weights: softmax comes later."),
    (lambda q, k, w: np.tanh(q + k) @ w if q.shape == k.shape else np.tanh(q + k[..., :1, :]) @ w, _ROOM,
     "Query i meets key i only. Every query meets every key: q[..., :, None, :] + k[..., None, :, :]."),
)  # fmt: skip


EXERCISES = (
    Exercise(
        "my_rnn",
        "write the op",
        difficulty=1,
        minutes=6,
        task="my_rnn(x, W, U) -> h, all states of h_t = tanh(x_t W + h_{t-1} U)",
        grader=Function(RNN, tempting=WRONG_RNN),
        hints=(
            "On paper, with n = 2: what is h_1, and what does h_2 need beside x_2?",
            "Loop over t from 0 to n - 1: x[..., t, :] is the token of every sequence of the batch. Begin with zeros "
            "in the shape of x[..., 0, :] @ W, keep each h, and stack them along axis -2.",
        ),
        why="Each state needs the one before, so the steps go in a loop; leading axes go along unchanged.",
    ),
    Exercise(
        "repaired_scan",
        "find the bug",
        difficulty=2,
        minutes=6,
        task="buggy_scan with its one wrong line put right",
        grader=Function(SCAN, tempting=WRONG_SCAN),
        hints=(
            "Do n = 2 on paper: h_2 should be a_2 b_1 + b_2. What does buggy_scan make of it?",
            "First (a, b), then (a', b'): a' (a h + b) + b' = (a' a) h + (a' b + b'). The early state is multiplied "
            "by the late factor.",
        ),
        why="The later step acts on what the earlier one left, so its factor multiplies the earlier h. The product of "
        "both factors does not show the mistake: early · late is late · early.",
    ),
    Exercise(
        "recurrent_over_attention",
        "predict the number",
        difficulty=1,
        minutes=3,
        task=f"n d² / (n² d) for n = {N}, d = {D}",
        grader=Number(
            _recurrent_over_attention,
            tolerance=0.001,
            tempting=(
                (lambda: N / D, "Which work did you divide by which?", "That is attention over recurrence."),
                (lambda: 1.0, "Where are the two equal, and is n = d here?"),
                (lambda: D, "Which factors do n d² and n² d share?", "One n is left below the line."),
                (lambda: D * D / N, "How many factors d are there above, and how many below?"),
            ),
        ),
        hints=(
            "Which factors do n d² and n² d share?",
            "n d² / (n² d): cancel an n and a d. What is left is d over n.",
        ),
        why="n d² / (n² d) = d / n = 512 / 32.",
    ),
    Exercise(
        "my_rnn_backward",
        "derive the backward",
        difficulty=3,
        minutes=20,
        task="my_rnn_backward(dh, x, W, U, h) -> dx, dW, dU",
        grader=Function(RNN, part="backward", tempting=WRONG_BACKWARD),
        hints=(
            "h_t is used twice: by the loss (that is dh_t), and by which other line? What does that line hand back?",
            "Go from the last t to the first with ds_t = (dh_t + ds_{t+1} Uᵀ)(1 - h_t²). Keep every ds_t: all three "
            "gradients are then one product each.",
        ),
        why="h_t reaches the loss directly and through step t + 1, so both gradients are added before the slope of the "
        "tanh. With all ds_t known, s_t = x_t W + h_{t-1} U is a linear map at every step, as in chapter 03.",
    ),
    Exercise(
        "power_of_ten_left",
        "predict the number",
        difficulty=1,
        minutes=4,
        task=f"a, where 10^a is left of a gradient that is multiplied {STEPS} times by f = σ({FORGET_BIAS:g})",
        grader=Number(
            _power_of_ten_left,
            tolerance=0.0037,                                   # to one decimal
            tempting=(
                (lambda: 0.0, "10^0 is 1. Is all of it left?"),
                (lambda: 10 ** _power_of_ten_left(), "Which power of ten is that?",
                 "That is the share itself, 10^a. a is its logarithm."),
                (lambda: STEPS * math.log10(1 / 2), "What is σ(1)?", "That is f = 1/2, which is σ(0)."),
                (lambda: -_power_of_ten_left(), "Is f below or above 1?", "The sign: what is left is less than 1."),
                (lambda: STEPS * -math.log(1 + math.exp(-FORGET_BIAS)), "Which logarithm has 10 as its base?",
                 "That is the natural logarithm."),
                (lambda: STEPS * math.log10(1 - 1 / (1 + math.exp(-FORGET_BIAS))), "Which share is kept: f, or 1 - f?",
                 "That is the share which is forgotten."),
                (lambda: _power_of_ten_left() / STEPS, "How often is the gradient multiplied?", "That is one step's."),
                (lambda: STEPS * math.log10(math.tanh(FORGET_BIAS)), "Is a gate a σ, or a tanh?"),
            ),
        ),
        hints=(
            "What is left after one step, and after two?",
            "f¹⁰⁰ is left, and the logarithm of a power is a product: 100 · log10(f), with f = 1 / (1 + e⁻¹) = 0.731.",
        ),
        why="100 · log10(0.731) = -13.6: with the gate about three quarters open, nothing arrives either.",
    ),
    Exercise(
        "repaired_gru",
        "find the bug",
        difficulty=2,
        minutes=5,
        task="buggy_gru in PyTorch's form, in which r acts after the product with U_n",
        grader=Function(GRU, tempting=WRONG_GRU),
        hints=(
            "In which line do the formula and buggy_gru differ? Follow the brackets.",
            "One line changes, that of the candidate: r multiplies h @ U_n + c_n, once it is made.",
        ),
        why="(r ⊙ h) U_n scales the state's entries before they are mixed, r ⊙ (h U_n + c_n) what comes out. Where r "
        "is the same number for all entries, and c_n is 0, the two are equal.",
    ),
    Exercise(
        "letters_that_fit",
        "predict the number",
        difficulty=2,
        minutes=5,
        task=f"how many letters of {LETTERS} any {NUMBERS} numbers of {BITS} bits can hold without loss",
        grader=Number(
            _letters,
            tolerance=0.0005,
            exactly=True,
            tempting=(
                (lambda: NUMBERS, "How many things can one number of 32 bits tell apart?",
                 "That is one letter in each number, which has room for more."),
                (lambda: NUMBERS * BITS, "Can one bit tell 27 letters apart?", "That is the number of bits."),
                (
                    lambda: NUMBERS * int(BITS / math.log2(LETTERS)),
                    "How many bits of each number are left unused?",
                    "Whole letters in each number leave some bits over. Use all the bits together.",
                ),
                (lambda: math.ceil(NUMBERS * BITS / math.log2(LETTERS)), "Is there room for the whole last letter?",
                 "It is rounded up."),
                (lambda: NUMBERS * BITS // 5, "Five bits tell 32 things apart. Do 27 letters need as many?"),
            ),
        ),
        hints=(
            "How many texts of n letters are there? How many states has the vector? Two texts must not share one.",
            "27ⁿ ≤ 2^(64 · 32). Take the logarithm to base 2 on both sides.",
        ),
        why="Two texts must not share a state, so 27ⁿ ≤ 2²⁰⁴⁸, and n ≤ 2048 / log₂ 27 = 430.7.",
    ),
    Exercise(
        "my_additive_scores",
        "write the op",
        difficulty=1,
        minutes=5,
        task="my_additive_scores(q, k, w) -> s, s_ij = w · tanh(q_i + k_j)",
        grader=Function("additive_scores", tempting=WRONG_ADDITIVE),
        hints=(
            _ROOM,
            "Give q and k an axis each, so that their sum is (..., n, m, d): q[..., :, None, :] + k[..., None, :, :]. "
            "Then the tanh, then a product with w over the last axis.",
        ),
        why="Every query meets every key, feature by feature: broadcasting makes the n · m sums, and w adds up each.",
    ),
)
