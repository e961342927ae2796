"""Exercises of chapter 04, the backward pass."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.spec import Spec
from ..exercise import Exercise
from ..graders import Function, Number, Property

CHAPTER = 4
X = np.array([[1.0, 2.0, 0.0], [3.0, -1.0, 1.0]])     # of blamed_weight: two tokens,
DY = np.array([[2.0, -1.0], [0.5, 1.0]])              # and what came back


def _blame() -> np.ndarray:
    return ops.linear_backward(DY, X, np.zeros((3, 2)))[1]


def _best_step() -> int:
    """The exponent k for which differences with h = 10^k come nearest to the backward, for attention in float64."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal(shape) for shape in ((3, 4), (5, 4), (5, 2)))
    out, weights = ops.attention(q, k, v)
    u = rng.standard_normal(out.shape)
    derived = ops.attention_backward(u, q, k, v, weights)[0]

    def error(h: float) -> float:
        slopes = np.zeros_like(q)
        for i in np.ndindex(q.shape):
            nudge = np.zeros_like(q)
            nudge[i] = h
            up, down = (ops.attention(x, k, v)[0] for x in (q + nudge, q - nudge))
            slopes[i] = np.sum(u * (up - down)) / (2 * h)
        return float(np.median(np.abs(slopes - derived)))

    return min(range(-14, 0), key=lambda exponent: error(10.0**exponent))


def _attention(q: Any, k: Any, v: Any) -> Any:
    """The library's, without the options that the chapter has not come to yet."""
    return ops.attention(q, k, v)


def _tied(x: Any, W: Any) -> Any:
    return x @ W @ W.T


def _tied_backward(dy: Any, x: Any, W: Any) -> Any:
    first, second, dx = _both_ways(dy, x, W)
    return dx, first + second


def _both_ways(dy: Any, x: Any, W: Any) -> tuple[Any, Any, Any]:
    """-> dW by the first reading, by the second, and dx."""
    dh, dW_second, _ = ops.linear_backward(dy, x @ W, W.T)
    dx, dW_first, _ = ops.linear_backward(dh, x, W)
    return dW_first, dW_second.T, dx


def _tied_case(draw: CaseDrawer) -> dict[str, Any]:
    i = draw.size()
    o = draw.size_like(i)
    return {"x": draw.array(*draw.lead, draw.size(), i), "W": draw.array(i, o)}


def _with_dW(of: Any) -> Any:
    """A backward of `tied` with the right dx, and `of(by the first reading, by the second)` for dW."""

    def backward(dy: Any, x: Any, W: Any) -> Any:
        first, second, dx = _both_ways(dy, x, W)
        return dx, of(first, second)

    return backward


TIED = Spec(
    name="tied",
    says="y = (x W) Wᵀ",
    function="tied",
    case=_tied_case,
    ours=lambda: SimpleNamespace(tied=_tied, tied_backward=_tied_backward),
    properties=[],
    outputs=("y",),
    oracle=_tied,
    wrt=("x", "W"),
)

EXERCISES = (
    Exercise(
        "blamed_weight",
        "predict the number",
        difficulty=1,
        minutes=4,
        task="dW[0, 1], from x and dy of two tokens",
        grader=Number(
            lambda: _blame()[0, 1],
            tolerance=1e-6,
            tempting=(
                (lambda: X[0, 0] * DY[0, 1], "That is token 0's part. Token 1 used the same weight."),
                (lambda: X[1, 0] * DY[1, 1], "That is token 1's part. Token 0 used the same weight."),
                (lambda: _blame()[0, 1] / 2, "That is the mean over tokens. Does each token's error count half?"),
                (lambda: _blame()[1, 0], "That is dW[1, 0]. Which index is the input's, which the output's?"),
            ),
        ),
        hints=(
            "Nudge W[0, 1] by δ. By how much does each token's output 1 move?",
            "y[t, 1] moves by x[t, 0] δ, and costs dy[t, 1] for every unit. What do the two tokens cost together?",
        ),
    ),
    Exercise(
        "my_linear_backward",
        "derive the backward",
        difficulty=2,
        minutes=10,
        task="dx, dW, db of y = x W + b, from dy, x and W",
        grader=Function("linear", part="backward"),
        hints=(
            "<A, BC> = <BᵀA, C>. Which of A, B, C are dy, x and δW? Shapes tell you whether you moved the right one.",
            "Make one long matrix of all tokens first, (N, i) and (N, o): then the products sum over tokens by "
            "themselves. b reached every token: what does a broadcast become on the way back?",
        ),
    ),
    Exercise(
        "my_attention_backward",
        "derive the backward",
        difficulty=3,
        minutes=15,
        task="dq, dk, dv from dout, q, k, v and the weights, in five lines",
        grader=Function("attention", part="backward", forward=_attention),
        hints=(
            "From the last forward line to the first: out = p v gives dv and dp, p = softmax(s) gives ds, s = c q kᵀ "
            "gives dq and dk. Write the shape beside each.",
            "raw is gone: c now belongs to dq and to dk. Transpose the last two axes with swapaxes(-1, -2), and keep "
            "the row sum's axis, so that it lines up with its row.",
        ),
    ),
    Exercise(
        "mended_tied_backward",
        "find the bug",
        difficulty=2,
        minutes=8,
        task="hasty_tied_backward, put right",
        grader=Function(
            TIED,
            part="backward",
            forward=_tied,
            tempting=(
                (_with_dW(lambda first, second: first), "This is what comes back along h = x W. Is that all?"),
                (_with_dW(lambda first, second: second), "This is what comes back along y = h Wᵀ. Is that all?"),
                (_with_dW(lambda first, second: (first + second) / 2), "That is the mean. Do the two ways add up?"),
                (_with_dW(lambda first, second: first - second), "Two ways, and one of them with the wrong sign."),
                (_with_dW(lambda first, second: 2 * first), "Twice one way is not both ways: they differ."),
                (_with_dW(lambda first, second: 2 * second), "Twice one way is not both ways: they differ."),
            ),
        ),
        hints=(
            "check('mended_tied_backward', hasty_tied_backward) says which gradient is wrong. How many lines make it?",
            "Each line is right about the line it undoes. What happens to the first answer when the second is given?",
        ),
    ),
    Exercise(
        "best_step",
        "predict the number",
        difficulty=2,
        minutes=5,
        task="k of h = 10^k, the best step of differences in float64",
        grader=Number(
            _best_step,
            tolerance=0.21,
            tempting=(
                (lambda: 5, "A step of 10⁵ is a leap. Smaller than 1: which sign has k?"),
                (lambda: -16, "x + h is x itself then, or nearly. What is left of the difference?"),
                (lambda: -8, "That would do for nudging one way only, where the error is h. Both ways it is h²."),
                (lambda: -2, "That is about where float32 has its best step. float64 has twice the digits."),
            ),
        ),
        hints=(
            "One error grows like h², the other like ε / h with ε = 10^-16. The best step is where neither is larger.",
            "h² = ε / h, so h³ = ε.",
        ),
    ),
    Exercise(
        "not_fooled_by_ones",
        "write the property that kills this bug",
        difficulty=3,
        minutes=12,
        task="not_fooled_by_ones(linear, linear_backward) -> True where right, False where db forgets dy",
        grader=Property("linear", "db_ones", gives=("linear", "linear_backward")),
        hints=(
            "What should come back for twice the dy? Or: take a random u for dy, and hold <u, δy> against <db, δb>.",
            "y is linear in b: <u, linear(x, W, b + δ) - linear(x, W, b)> is <db, δ> for every δ, and it need not be "
            "small.",
        ),
    ),
)
