"""Exercises of chapter 03, gradients."""

from typing import Any

import numpy as np

from ... import ops
from ..exercise import Exercise
from ..graders import Function, Number, Property

CHAPTER = 3
X = np.array([[1.0, 2.0, 0.0], [3.0, -3.0, 1.0]])     # of gradient_of_a_weight: two tokens,
DY = np.array([[2.0, -1.0], [0.5, 1.0]])              # and the gradient that came back


def _dW() -> np.ndarray:
    return ops.linear_backward(DY, X, np.zeros((3, 2)))[1]


def _best_step() -> int:
    """The exponent k for which differences with h = 10^k come nearest to the backward, for softmax in float64."""
    s, u = np.random.default_rng(1).standard_normal((2, 4, 8))
    derived = ops.softmax_backward(u, ops.softmax(s))

    def error(h: float) -> float:
        slopes = np.zeros_like(s)
        for i in np.ndindex(s.shape):
            nudge = np.zeros_like(s)
            nudge[i] = h
            slopes[i] = (np.sum(u * ops.softmax(s + nudge)) - np.sum(u * ops.softmax(s - nudge))) / (2 * h)
        return float(np.median(np.abs(slopes - derived)))

    return min(range(-14, 0), key=lambda exponent: error(10.0**exponent))


def _softmax(s: Any) -> Any:
    """The library's, without the mask that the chapter has not come to yet."""
    return ops.softmax(s)


def _over_everything(dp: Any, p: Any) -> Any:
    return p * (dp - np.sum(dp * p))


def _over_the_batch(dp: Any, p: Any) -> Any:
    return p * (dp - np.sum(dp * p, axis=0, keepdims=True))


WRONG_SOFTMAX_BACKWARD = (  # beside the zoo's
    (lambda dp, p: -ops.softmax_backward(dp, p), "Which of the two sums of J has the minus?", "Right but for its "
        "sign."),
    (_over_everything, "Softmax treats each row on its own: over which axis may your sum run?", "The sum runs over "
        "all rows."),
    (_over_the_batch, "Along which axis did softmax go?", "The sum runs down the columns."),
)  # fmt: skip

EXERCISES = (
    Exercise(
        "gradient_of_a_weight",
        "predict the number",
        difficulty=1,
        minutes=4,
        task="dW[0, 1], from x and dy of two tokens",
        grader=Number(
            lambda: _dW()[0, 1],
            tolerance=1e-6,
            tempting=(
                (lambda: X[0, 0] * DY[0, 1], "That is what token 0 asks for. Which other token used the same weight?"),
                (lambda: X[1, 0] * DY[1, 1], "That is what token 1 asks for. Which other token used the same weight?"),
                (lambda: _dW()[0, 1] / 2, "That is the mean over tokens. Does each token's error count half?"),
                (lambda: _dW()[1, 0], "That is dW[1, 0]. Which index is the input's, which the output's?"),
                (lambda: _dW()[0, 0], "That is dW[0, 0]. Which index is the output's?"),
            ),
        ),
        hints=(
            "Nudge W[0, 1] by δ. By how much does output 1 of each token move?",
            "y[t, 1] moves by x[t, 0] δ, and that changes the loss by dy[t, 1] x[t, 0] δ. Add this up over the two "
            "tokens.",
        ),
        why="W[0, 1] takes x[t, 0] to y[t, 1] in every token t, so its gradient is Σ_t x[t, 0] dy[t, 1] = 1 · (-1) + "
            "3 · 1.",
    ),
    Exercise(
        "my_linear_backward",
        "derive the backward",
        difficulty=2,
        minutes=10,
        task="dx, dW, db of y = x W + b, from dy, x and W",
        grader=Function("linear", part="backward"),
        hints=(
            "<A, BC> = <BᵀA, C>. Which of A, B, C are dy, x and δW?",
            "Make one long matrix of all tokens first, (N, i) and (N, o). Then dW = xᵀ dy sums over the tokens by "
            "itself, "
            "and db, whose b was added to every token, is the sum of dy over the tokens.",
        ),
        why="<dy, δx W> = <dy Wᵀ, δx> and <dy, x δW> = <xᵀ dy, δW>. With all tokens in one long matrix these "
            "products sum "
            "over every token, as they must: W and b serve them all. b is added to each row, so db is the sum of the "
            "rows.",
    ),
    Exercise(
        "my_softmax_backward",
        "derive the backward",
        difficulty=2,
        minutes=10,
        task="ds from dp and p",
        grader=Function("softmax", part="backward", forward=_softmax, tempting=WRONG_SOFTMAX_BACKWARD),
        hints=(
            "ds_j = Σ_i dp_i J_ij with J_ij = p_i (1[i = j] - p_j). What remains of each of its two sums?",
            "The first sum has a single term, dp_j p_j. In the second p_j does not depend on i: take it out of the "
            "sum, and "
            "what remains under the Σ is one number for each row.",
        ),
        why="Σ_i dp_i p_i (1[i = j] - p_j) = p_j dp_j - p_j Σ_i dp_i p_i. The last sum is the same for every j: "
            "compute it "
            "once for each row, with its axis kept, so that it lines up with the row.",
    ),
    Exercise(
        "best_step",
        "predict the number",
        difficulty=2,
        minutes=5,
        task="the whole number k of h = 10^k, the best step of differences in float64",
        grader=Number(
            _best_step,
            tolerance=0.0,
            exactly=True,
            tempting=(
                (lambda: 5, "With h = 10⁵ the nudge is larger than the number. For a step smaller than 1, which sign "
                    "has k?"),
                (lambda: -16, "Then x + h is x itself, or nearly. What is left of the difference?"),
                (lambda: -8, "That would do for nudging one way only, where the error is h. What is it for both ways?"),
                (lambda: -2, "That is about the best step of float32. What is ε in float64?"),
                (lambda: 1e-5, "That is h. Which k makes h = 10^k?"),
            ),
        ),
        hints=(
            "At h = 10^-2 and at h = 10^-9, which of the two errors is larger?",
            "One error falls with h and the other rises, so the best step is where they are equal. Solve h² = ε / h, "
            "that is h³ = ε, and round the exponent to a whole number.",
        ),
        why="h² = ε / h gives h³ = 10^-16, so h = 10^-5.3. The nearest whole exponent is -5; a smaller step gains "
            "nothing "
            "from h² and loses to rounding.",
    ),
    Exercise(
        "not_fooled_by_ones",
        "write the property that kills this bug",
        difficulty=3,
        minutes=12,
        task="not_fooled_by_ones(linear, linear_backward) -> True where right, False where db forgets dy",
        grader=Property("linear", "db_ones", gives=("linear", "linear_backward")),
        hints=(
            "What should linear_backward return for twice the dy? Or: for a random u in place of dy, which two numbers "
            "must be equal if db is right?",
            "y is linear in b, so <u, linear(x, W, b + δ) - linear(x, W, b)> equals <db, δ> for every δ, and δ need "
            "not "
            "be small.",
        ),
        why="With dy = u the loss is <u, y>, and δy is exactly δb in every row. So <u, δy> = <db, δb> holds for "
            "moves of any "
            "size. A db that does not look at u cannot satisfy it for a random u.",
    ),
)  # fmt: skip
