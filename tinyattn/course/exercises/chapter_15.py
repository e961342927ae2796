"""Exercises of chapter 15, before attention."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...check.cases import CaseDrawer
from ...check.spec import Spec
from ..exercise import Exercise
from ..graders import Function, Number

CHAPTER = 15
N, D = 32, 512                               # of recurrent_over_attention
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


def _rnn(x: Any, W: Any, U: Any) -> Any:
    """h_t = tanh(x_t W + h_{t-1} U), h_0 = 0. Shapes: x (..., n, c), W (c, d), U (d, d) -> h (..., n, d)."""
    h = np.empty((*x.shape[:-1], len(U)), x.dtype)
    last = np.zeros((*x.shape[:-2], len(U)), x.dtype)
    for t in range(x.shape[-2]):
        last = h[..., t, :] = np.tanh(x[..., t, :] @ W + last @ U)
    return h


def _summed(a: Any, b: Any) -> Any:
    """Σ a_tᵀ b_t over all steps and sequences. Shapes: a (..., n, c), b (..., n, d) -> (c, d)."""
    product = a.swapaxes(-1, -2) @ b
    return product.sum(axis=tuple(range(product.ndim - 2)))


def _rnn_backward(dh: Any, x: Any, W: Any, U: Any, h: Any) -> Any:
    """Gradients of _rnn by x, W and U. Shapes: dh, h (..., n, d), x (..., n, c)."""
    ds = np.empty_like(h)
    late = np.zeros_like(h[..., 0, :])
    for t in reversed(range(h.shape[-2])):
        ds[..., t, :] = (dh[..., t, :] + late) * (1 - h[..., t, :] ** 2)
        late = ds[..., t, :] @ U.T
    dW = _summed(x, ds)
    dU = _summed(h[..., :-1, :], ds[..., 1:, :])
    return ds @ W.T, dW, dU


def _rnn_by_loops(x: Any, W: Any, U: Any) -> np.ndarray:
    h = np.zeros((*x.shape[:-1], len(U)))
    for *lead, t in np.ndindex(*x.shape[:-1]):
        for j in range(len(U)):
            total = sum(x[(*lead, t, i)] * W[i, j] for i in range(len(W)))
            if t > 0:
                total += sum(h[(*lead, t - 1, i)] * U[i, j] for i in range(len(U)))
            h[(*lead, t, j)] = math.tanh(total)
    return h


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
    oracle=_rnn_by_loops,
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
    dh: Any, x: Any, W: Any, U: Any, h: Any, *, slope: Any = lambda h: 1 - h**2, carry: Any = None, turned: bool = True
) -> Any:
    """ds of every step, by a backward whose slope, carry from step to step, or U may be wrong."""
    ds = np.empty_like(h)
    late = np.zeros_like(h[..., 0, :])
    for t in reversed(range(h.shape[-2])):
        total = dh[..., t, :] + late
        ds[..., t, :] = total * slope(h[..., t, :])
        late = (ds[..., t, :] if carry is None else carry(total, dh[..., t, :], ds[..., t, :])) @ (U.T if turned else U)
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


EXERCISES = (
    Exercise(
        "my_rnn",
        "write the op",
        difficulty=1,
        minutes=8,
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
        minutes=8,
        task="buggy_scan with its one wrong line put right",
        grader=Function(SCAN),
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
        minutes=25,
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
)
