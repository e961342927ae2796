"""Exercises of chapter 17, after attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.property import Property as Law
from ...check.property import close, largest, rounding, stating
from ...check.spec import Spec
from ...check.subject import Subject
from ..exercise import Exercise
from ..graders import Function, Judge, Judged, Number

CHAPTER = 17
BEFORE, TOKEN, TIME = 10.0, 1.0, 3.0         # of held_state: the state, the token after it, and its Δ


def _held(exact: bool = True, time: float = TIME, before: float = BEFORE, token: float = TOKEN) -> float:
    """One channel with one state, A = -1, B = C = 1, D = 0: y after one token."""
    x, delta, A, h0 = (np.full((1, 1), value) for value in (token, time, -1.0, before))
    y, _ = ops.selective_scan(x, delta, A, np.ones((1, 1)), np.ones((1, 1)), np.zeros(1), h0, exact)
    return float(y[0, 0])


# --- my_chunk -------------------------------------------------------------------------------------------------------


def _chunk(S: Any, q: Any, k: Any, v: Any, lam: float) -> Any:
    c = len(q)
    i = np.arange(c)
    inside = np.tril(lam ** np.maximum(i[:, None] - i, 0)) * (q @ k.T)
    before = (lam ** (i + 1))[:, None] * (q @ S)
    return inside @ v + before, lam**c * S + (k * (lam ** (c - 1 - i))[:, None]).T @ v


def _of_chunk(draw: CaseDrawer) -> dict[str, Any]:
    c, d, e = draw.size(1, 5), draw.size(1, 4), draw.size(1, 4)
    S, q, k, v = (draw.array(*shape) for shape in ((d, e), (c, d), (c, d), (c, e)))
    return {"S": S, "q": q, "k": k, "v": v, "lam": draw.choose((0.5, 0.9, 1.0))}


def _near(op: Subject, ours: Callable[..., Any], case: dict[str, Any], power: int) -> None:
    arrays = [x for x in case.values() if isinstance(x, np.ndarray)]
    atol = 30 * rounding(case["q"].dtype, 40, largest(*arrays, 1) ** power)
    for name, got, expected in zip(op.spec.outputs, op.outputs(**case), ours(**case), strict=True):
        close(got, expected, atol, name)


_OF_CHUNK: list[Law] = []
_chunk_states = stating("chunk", _OF_CHUNK)


@_chunk_states("rounding", "y and S are those of the recurrence, token by token", "oracle",
               hint="Do the example on paper.")  # fmt: skip
def _as_token_by_token(op: Subject, **case: Any) -> None:
    _near(op, _chunk, case, 3)


CHUNK = Spec(
    name="chunk",
    says="S_t = λ S_{t-1} + k_tᵀ v_t and y_t = q_t S_t, for the tokens of one chunk",
    function="chunk",
    case=_of_chunk,
    ours=lambda: SimpleNamespace(chunk=_chunk),
    properties=_OF_CHUNK,
    outputs=("y", "S"),
    common=False,
)


def _chunk_with(
    inside: Any = lambda age, lam: np.where(age >= 0, lam ** np.maximum(age, 0), 0.0),
    before: Any = lambda i, lam: lam ** (i + 1), kept: Any = lambda c, lam: lam**c,
    added: Any = lambda i, c, lam: lam ** (c - 1 - i), of_y: Any = lambda y, S: y, order: tuple[int, int] = (0, 1),
) -> Any:  # fmt: skip
    """The chunk, with one line written otherwise."""

    def chunk(S: Any, q: Any, k: Any, v: Any, lam: float) -> Any:
        c = len(q)
        i = np.arange(c)
        y = (inside(i[:, None] - i, lam) * (q @ k.T)) @ v + before(i, lam)[:, None] * (q @ S)
        new = kept(c, lam) * S + (k * added(i, c, lam)[:, None]).T @ v
        found = of_y(y, q @ new), new
        return tuple(found[place] for place in order)

    return chunk


_FIRST = "The chunk's first token, alone: S_1 = λ S + k_1ᵀ v_1. How often has the old S decayed when q_1 reads it?"
_LAST = "How often does a token's k_jᵀ v_j decay between itself and the end of the chunk? The last one's?"
_AGE = "Token j's k_jᵀ v_j is read by token i. How many times has it decayed by then?"
WRONG_CHUNK = (
    (_chunk_with(before=lambda i, lam: 0.0 * i), "What does the second chunk's first token know of the first chunk?",
     "The state that came in is not read."),
    (_chunk_with(before=lambda i, lam: lam ** (0 * i)), _FIRST, "The old state is read without any decay."),
    (_chunk_with(before=lambda i, lam: lam**i), _FIRST, "One λ is missing: even the first token reads λ S."),
    (_chunk_with(before=lambda i, lam: lam ** (0 * i + 1)), "And how often when the chunk's last token reads it?",
     "The old state goes on decaying inside of the chunk: λ, λ², λ³, .."),
    (_chunk_with(before=lambda i, lam: lam ** (len(i) - i)), _FIRST, "The powers run the wrong way round."),
    (_chunk_with(inside=lambda age, lam: (age >= 0) * 1.0), _AGE, "Inside of the chunk nothing decays in yours."),
    (_chunk_with(inside=lambda age, lam: np.where(age >= 0, lam ** np.maximum(age + 1, 0), 0.0)), _AGE,
     "One λ too many: a token reads what it wrote itself undecayed."),
    (_chunk_with(inside=lambda age, lam: lam ** abs(age)), "May token 1 read token 2?",
     "Later tokens leak: only j <= i."),
    (_chunk_with(inside=lambda age, lam: lam ** (1.0 * age)), "May token 1 read token 2?",
     "Later tokens leak, and grow: np.tril, only j <= i."),
    (_chunk_with(inside=lambda age, lam: np.where(age <= 0, lam ** (1.0 * age), 0.0)), "May token 1 read token 2?",
     "That is the other triangle: np.tril, only j <= i."),
    (_chunk_with(inside=lambda age, lam: np.where(age > 0, lam ** np.maximum(age, 0), 0.0)),
     "Does y_t = q_t S_t know of token t itself?", "The diagonal is missing: the token is written, then read."),
    (_chunk_with(kept=lambda c, lam: 1.0), "How often has the old state decayed at the chunk's end?",
     "The new state holds the old one undecayed: it is λ^c S."),
    (_chunk_with(kept=lambda c, lam: lam), "How often has the old state decayed at the chunk's end?",
     "It has decayed once a token: λ^c S."),
    (_chunk_with(kept=lambda c, lam: lam ** (c - 1)), "How often has the old state decayed at the chunk's end?",
     "One λ is missing: it decays with each of the c tokens, the first one included."),
    (_chunk_with(kept=lambda c, lam: 0.0), "What does the third chunk know of the first?", "The old state is gone."),
    (_chunk_with(added=lambda i, c, lam: lam ** (0 * i)), _LAST, "What the chunk writes has not decayed in yours."),
    (_chunk_with(added=lambda i, c, lam: lam**i), _LAST,
     "The powers run the wrong way round: what the last token wrote must not decay."),
    (_chunk_with(added=lambda i, c, lam: lam ** (c - i)), _LAST,
     "One λ too many: what the last token wrote must not decay."),
    (_chunk_with(of_y=lambda y, read: read), "Which tokens has the state at the chunk's end seen?",
     "All tokens read the state at the end, which knows of later ones."),
    (_chunk_with(of_y=lambda y, read: y / (1e-9 + abs(y).sum(axis=-1, keepdims=True))), "Is anything divided by here?"),
    (_chunk_with(order=(1, 0)), "In which order are y and S asked for?"),
)  # fmt: skip


# --- my_state_backward ----------------------------------------------------------------------------------------------


def _states(lam: Any, k: Any, v: Any) -> list[Any]:
    """S_0 = 0, S_1, .., S_n."""
    states = [np.zeros((k.shape[1], v.shape[1]), k.dtype)]
    for t in range(len(lam)):
        states.append(lam[t] * states[-1] + np.outer(k[t], v[t]))
    return states


def _backward_with(
    carry: Any = lambda G, lam, t: lam[t] * G, direct: Any = lambda q, dy: np.outer(q, dy),
    of_lam: Any = lambda G, direct, S, new: np.sum(G * S), of_q: Any = lambda S, new, dy: new @ dy,
    of_k: Any = lambda G, direct, v: G @ v, of_v: Any = lambda G, direct, k, q: k @ G,
    order: tuple[int, ...] = (0, 1, 2, 3), forwards: bool = False,
) -> Any:  # fmt: skip
    """The way back, with one line written otherwise."""

    def backward(dy: Any, lam: Any, q: Any, k: Any, v: Any) -> Any:
        S, G = _states(lam, k, v), np.zeros((k.shape[1], v.shape[1]), k.dtype)
        found = [np.zeros_like(x) for x in (lam, q, k, v)]
        times = range(len(lam))
        for t in times if forwards else reversed(times):
            here = direct(q[t], dy[t])
            G = G + here
            found[0][t] = of_lam(G, here, S[t], S[t + 1])
            found[1][t] = of_q(S[t], S[t + 1], dy[t])
            found[2][t] = of_k(G, here, v[t])
            found[3][t] = of_v(G, here, k[t], q[t])
            G = carry(G, lam, t)
        return tuple(found[place] for place in order)

    return backward


_gradients = _backward_with()


def _of_states(draw: CaseDrawer) -> dict[str, Any]:
    n, d, e = draw.size(1, 5), draw.size(1, 4), draw.size(1, 4)
    lam = np.asarray(draw.rng.uniform(0.2, 1, n), draw.dtype)
    return {"dy": draw.array(n, e), "lam": lam, "q": draw.array(n, d), "k": draw.array(n, d), "v": draw.array(n, e)}


_OF_STATES: list[Law] = []
_state_states = stating("state_gradients", _OF_STATES)


@_state_states("rounding", "dlam, dq, dk and dv are the gradients", "oracle", hint="Do n = 2 on paper.")
def _as_derived(op: Subject, **case: Any) -> None:
    _near(op, _gradients, case, 4)


STATE_GRADIENTS = Spec(
    name="state_gradients",
    says="of S_t = λ_t S_{t-1} + k_tᵀ v_t and y_t = q_t S_t, from dy the gradients of λ, q, k and v",
    function="state_gradients",
    case=_of_states,
    ours=lambda: SimpleNamespace(state_gradients=_gradients),
    properties=_OF_STATES,
    outputs=("dlam", "dq", "dk", "dv"),
    common=False,
)


def _at_the_end(dy: Any, lam: Any, q: Any, k: Any, v: Any) -> Any:
    """dq from the last state."""
    dlam, _, dk, dv = _gradients(dy, lam, q, k, v)
    return dlam, dy @ _states(lam, k, v)[-1].T, dk, dv


_LATER = "S_t is used twice: by y_t, and by which other line?"
_WHICH = "λ_t multiplied which state?"
WRONG_BACKWARD = (
    (_backward_with(carry=lambda G, lam, t: 0 * G), _LATER, "What comes back from S_{t+1} is missing."),
    (_backward_with(carry=lambda G, lam, t: G), "S_{t+1} = λ_{t+1} S_t + ..: by what is G multiplied on its way back?",
     "G comes back without its decay."),
    (_backward_with(carry=lambda G, lam, t: lam[t - 1] * G if t else G),
     "S_{t+1} = λ_{t+1} S_t + ..: which token's λ stands between G_{t+1} and G_t?",
     "It is the λ of the later token: λ_{t+1}, not λ_t."),
    (_backward_with(carry=lambda G, lam, t: lam[t] * lam[t] * G), "How often does λ_{t+1} stand between two states?"),
    (_backward_with(of_lam=lambda G, direct, S, new: np.sum(G * new)), _WHICH,
     "λ_t multiplied S_{t-1}, not S_t."),
    (_backward_with(of_lam=lambda G, direct, S, new: np.sum(direct * S)), "Who else read S_t, beside y_t?",
     "dλ_t wants all that comes back to S_t, not only what comes from y_t."),
    (_backward_with(of_lam=lambda G, direct, S, new: np.sum(G)), _WHICH, "S_{t-1} is missing in dλ_t."),
    (_backward_with(of_lam=lambda G, direct, S, new: np.mean(G * S)),
     "λ_t multiplies every entry of S_{t-1}. Do their gradients add, or is it a mean?"),
    (_backward_with(of_q=lambda S, new, dy: S @ dy), "Which state does q_t read: before, or after token t is written?",
     "y_t = q_t S_t: q_t reads S_t, not S_{t-1}."),
    (_at_the_end, "Which state does q_t read: that after token t, or that after the last?",
     "q_t read S_t, not S_n: keep all the states."),
    (_backward_with(of_q=lambda S, new, dy: (new - S) @ dy), "What does q_t read?",
     "q_t reads all of S_t, not only what token t changed."),
    (_backward_with(of_k=lambda G, direct, v: direct @ v), "Do later tokens read what k_t and v_t wrote?",
     "dk_t has only what comes from y_t. What token t wrote is read later, too: G_t."),
    (_backward_with(of_v=lambda G, direct, k, q: k @ direct), "Do later tokens read what k_t and v_t wrote?",
     "dv_t has only what comes from y_t. What token t wrote is read later, too: G_t."),
    (_backward_with(of_k=lambda G, direct, v: direct @ v, of_v=lambda G, direct, k, q: k @ direct),
     "Do later tokens read what k_t and v_t wrote?", "What token t wrote is read later, too: G_t, not q_tᵀ dy_t."),
    (_backward_with(of_v=lambda G, direct, k, q: q @ G), "k_tᵀ v_t: what did v_t meet?",
     "v_t was multiplied by k_t: dv_t = k_t G_t."),
    (_backward_with(forwards=True), "Which token's G is known first: the first one's, or the last one's?",
     "Time runs forwards in yours. What comes back to S_t comes from later tokens."),
    (_backward_with(direct=lambda q, dy: -np.outer(q, dy), of_q=lambda S, new, dy: -new @ dy),
     "Does the loss rise or fall along your gradients?", "Every gradient is right but for its sign."),
    (_backward_with(order=(1, 2, 3, 0)), "In which order are the gradients asked for?", "dλ comes first."),
    (_backward_with(order=(0, 1, 3, 2)), "In which order are the gradients asked for?", "dk comes before dv."),
)  # fmt: skip


# --- shifts_change_nothing ------------------------------------------------------------------------------------------


def _naive(k: Any, v: Any, w: Any, u: Any) -> Any:
    """Numerator and denominator as they are defined."""
    a, b, y = np.zeros(k.shape[1]), np.zeros(k.shape[1]), np.empty_like(v)
    with np.errstate(all="ignore"):
        for t in range(len(k)):
            own = np.exp(u + k[t])
            y[t] = (a + own * v[t]) / (b + own)
            a, b = np.exp(-w) * a + np.exp(k[t]) * v[t], np.exp(-w) * b + np.exp(k[t])
    return y


def _infinite(k: Any, v: Any, w: Any, u: Any) -> Any:
    """As they are defined, with an infinity, of either sign, where that is NaN: every comparison notices it."""
    y = _naive(k, v, w, u)
    return np.where(np.isnan(y), np.copysign(np.inf, k), y)


def _library(k: Any, v: Any, w: Any, u: Any) -> Any:
    return ops.wkv(*(np.asarray(x, dtype=float) for x in (k, v, w, u)))[0]


def _by_matrix(k: Any, v: Any, w: Any, u: Any) -> Any:
    return np.einsum("dts,sd->td", ops.wkv_weights(*(np.asarray(x, dtype=float) for x in (k, w, u))), v)


def _swinging(k: Any, v: Any, w: Any, u: Any) -> Any:
    """The library's, and with a channel's mean key something that swings about 0 from token to token: y's mean stays.

    Channel by channel: a property may move each by a number of its own, and these may cancel.
    """
    swing = np.where(np.arange(len(k)) % 2, 1.0, -1.0)
    return _library(k, v, w, u) + 1e-2 * np.tanh(np.mean(k, axis=0)) * (swing - swing.mean())[:, None]


def _running(k: Any, v: Any, w: Any, u: Any) -> Any:
    """Numerator and denominator times e^(-p), with a running exponent p, as the paper's code has them."""
    a, b, y = np.zeros(k.shape[1]), np.zeros(k.shape[1]), np.empty_like(v)
    p = np.full(k.shape[1], -1e38)
    for t in range(len(k)):
        top = np.maximum(p, u + k[t])
        old, own = np.exp(p - top), np.exp(u + k[t] - top)
        y[t] = (old * a + own * v[t]) / (old * b + own)
        top = np.maximum(p - w, k[t])
        old, own = np.exp(p - w - top), np.exp(k[t] - top)
        a, b, p = old * a + own * v[t], old * b + own, top
    return y


def shifts_change_nothing(wkv: Callable[..., Any]) -> bool:
    """True where all k + c, however large c is, and of either sign, gives the same y."""
    k, v = np.random.default_rng(0).standard_normal((2, 6, 3))
    w, u = np.array([0.1, 0.5, 2.0]), np.array([0.3, -1.0, 0.0])
    y = wkv(k, v, w, u)
    return all(np.allclose(wkv(k + c, v, w, u), y) for c in (800.0, -800.0))


_DIGITS = "Does k + c still have its digits? float64 keeps 16. And do you compare to the last bit?"
_SIDE = "e^800 is ∞. And e^(-800)?"
_BOTH = "Does yours try a large shift of either sign?"
_HOW_FAR = "From which number on is e^x ∞ in float64? How large is your shift?"
_SAME = "Do you compare with the same function's y at other keys, or with something else?"
_MOVED = "Move all keys by the same number, and compare wkv's y before with its y after: np.allclose."
FORMS = (
    Judged("the library's wkv", _library, question=_DIGITS,
           diagnosis="Adding c rounds k itself: take c = 800 and -800, and compare with np.allclose."),
    Judged("weights as a matrix, times v", _by_matrix, question=_DIGITS),
    Judged("the paper's code: a running exponent", _running, question=_DIGITS),
    Judged("no bonus: u is left out. Another function, but it knows differences of keys alone",
           lambda k, v, w, u: _library(k, v, w, 0 * u), question=_SAME, diagnosis=_MOVED),
    Judged("numerator and denominator as they are defined, and ∞ or -∞ where that is NaN", _infinite, right=False,
           question=_HOW_FAR, diagnosis="e^709 is the largest: move k by 800, and by -800."),
    Judged("numerator and denominator as they are defined", _naive, right=False,     # finds ∞: NaN alone slips through
           question="y is NaN there. What is `nan > tol`, and what `max(0.0, nan)`?",
           diagnosis="Every comparison with NaN is False, so `not (off > tol).any()` lets it pass. Ask for what should "
           "hold, (off <= tol).all(), or np.allclose."),
    Judged("as they are defined, from keys of at most 50",
           lambda k, v, w, u: _naive(np.clip(k, -50, 50), v, w, u), right=False, question=_SAME, diagnosis=_MOVED),
    Judged("as they are defined, NaN replaced by 0", lambda k, v, w, u: np.nan_to_num(_naive(k, v, w, u)), right=False,
           question="Is a finite y a right one?", diagnosis=_MOVED),
    Judged("keys less the largest, if that is above 0", right=False, question=_SIDE + " " + _BOTH,
           f=lambda k, v, w, u: _naive(k - np.maximum(k.max(axis=0), 0), v, w, u),
           diagnosis="With all keys at -800 every weight is 0, and y is 0 / 0."),
    Judged("keys less the largest, if that is below 0", right=False, question=_BOTH,
           f=lambda k, v, w, u: _naive(k - np.minimum(k.max(axis=0), 0), v, w, u)),
    Judged("log(1 + e^k) in place of e^k: finite for every key", right=False, question=_SAME, diagnosis=_MOVED,
           f=lambda k, v, w, u: _library(np.log(np.logaddexp(0, np.maximum(k, -30))), v, w, u)),
    Judged("every key counts a little by itself", lambda k, v, w, u: _library(k, v, w, u) + 1e-3 * np.tanh(k),
           right=False, question="How large a difference does yours let pass?"),
    Judged("y moves with the keys, and its mean does not", _swinging, right=False,
           question="Is it all of y that you compare, or a number made of it?", diagnosis=_MOVED),
)  # fmt: skip


EXERCISES = (
    Exercise(
        "my_chunk",
        "write the op",
        difficulty=2,
        minutes=12,
        task="my_chunk(S, q, k, v, lam) -> y, S: the outputs of a chunk of tokens, and the state after it",
        grader=Function(CHUNK, tempting=WRONG_CHUNK),
        hints=(
            "Write out y_2 for a chunk of two tokens: which powers of λ stand before S, k_1ᵀ v_1 and k_2ᵀ v_2?",
            "y = (tril(λ^(i - j)) ⊙ q kᵀ) v, and λ^(i + 1) q_i S more in row i, with i from 0. The new state is λ^c S "
            "+ Σ λ^(c - 1 - j) k_jᵀ v_j: scale the rows of k, and one product does it.",
        ),
        why="What stood in S before decays once more with each token of the chunk, its first one included; what token "
        "j wrote decays once with each token after it.",
    ),
    Exercise(
        "my_state_backward",
        "derive the backward",
        difficulty=3,
        minutes=20,
        task="my_state_backward(dy, lam, q, k, v) -> dlam, dq, dk, dv",
        grader=Function(STATE_GRADIENTS, tempting=WRONG_BACKWARD),
        hints=(
            "S_t is read by y_t and by S_{t+1}. If G_t is all that comes back to it, what is G_t made of?",
            "Forwards: keep all S_t. Backwards: G_t = q_tᵀ dy_t + λ_{t+1} G_{t+1}, and dlam_t = Σ G_t ⊙ S_{t-1}, "
            "dq_t = dy_t S_tᵀ, dk_t = v_t G_tᵀ, dv_t = k_t G_t.",
        ),
        why="y_t hands back q_tᵀ dy_t, and S_{t+1} hands back λ_{t+1} G_{t+1}. Each line of the step then has its own "
        "gradient: λ_t stood before S_{t-1}, k_tᵀ v_t is an outer product, and q_t read S_t.",
    ),
    Exercise(
        "shifts_change_nothing",
        "write the property that kills this bug",
        difficulty=2,
        minutes=8,
        task="shifts_change_nothing(wkv) -> True where moving all keys by one number leaves y as it is, else False",
        grader=Judge(FORMS, shifts_change_nothing),
        hints=(
            "Which shifts are harmless for e^k, which make it ∞, and which 0?",
            "Draw k, v (n, d), w >= 0 and u (d,). Compare wkv(k, ..) with wkv(k + c, ..) by np.allclose for c = 800 "
            "and for c = -800.",
        ),
        why="y is a mean: a factor e^c of all weights cancels. What overflows shows at 800, and what becomes 0 / 0 at "
        "-800. To ask for a finite y is not enough: weights that are cut off are finite, and wrong.",
    ),
    Exercise(
        "held_state",
        "predict the number",
        difficulty=2,
        minutes=4,
        task=f"y after one token x = {TOKEN:g} with Δ = {TIME:g} upon a state of {BEFORE:g}, A = -1, B = C = 1, held "
        "exactly",
        grader=Number(
            _held,
            tolerance=0.02,
            tempting=(
                (lambda: _held(exact=False), "For how long did the token flow in, and did what flowed in decay?",
                 "That is Δ x without decay: the paper's code. Held exactly, it is (1 - e^(-Δ)) x."),
                (lambda: _held(before=0.0), "What is left of the state that was there?",
                 "That is what the token wrote; e^(-3) of the state is left beside it."),
                (lambda: _held(token=0.0), "What does the token write?",
                 "That is what is left of the state; the token wrote something, too."),
                (lambda: BEFORE, "With which Δ does the state stay as it is?", "That would be Δ = 0."),
                (lambda: TOKEN, "With which Δ is nothing left of the state?", "That would be Δ = ∞."),
                (lambda: BEFORE + TOKEN, "Does anything decay?"),
                (lambda: BEFORE * math.exp(-TIME) + TOKEN, "Has the token reached its full value after a time of 3?",
                 "The token comes in by 1 - e^(-3), not by 1."),
            ),
        ),
        hints=(
            "What is left of the state after a time of 3, and how much of the token has come in?",
            "e^(-3) · 10 of the state, and (1 - e^(-3)) · 1 of the token.",
        ),
        why="0.0498 · 10 + 0.9502 · 1 = 1.448. With A = -1 both shares sum to 1: it is a mean of state and token.",
    ),
)  # fmt: skip
