"""Exercises of chapter 02, why √d_k."""

import math
from typing import Any

import numpy as np

from ... import layers, ops
from ..exercise import Exercise
from ..graders import Function, Number, Property

CHAPTER = 2
D_K = 256                    # of score_std
WIDTH, HEADS = 1024, 16      # of transformer_divisor: the Transformer's big model


def _score_std() -> float:
    """Of q·k over many pairs of vectors with independent entries of variance 1."""
    q, k = np.random.default_rng(0).standard_normal((2, 20_000, D_K))
    return float(np.std(np.sum(q * k, axis=-1)))


def _divisor() -> float:
    """By what the library's multi-head attention divides its scores, read off the weights of a token and a blank.

    All projections are the identity. The token's score with itself is 1, with the blank 0: ln of the ratio of the two
    weights is what is left of the 1.
    """
    p = {name: {"W": np.eye(WIDTH)} for name in ("query", "key", "value")}
    x = np.zeros((2, WIDTH))
    x[1, 0] = 1.0
    weights = layers.multi_head_attention(p, x, x, heads=HEADS)[1].weights      # (heads, 2, 2)
    return 1 / math.log(weights[0, 1, 1] / weights[0, 1, 0])


def _attention(q: Any, k: Any, v: Any) -> Any:
    """The library's, without the options that the chapter has not come to yet."""
    return ops.attention(q, k, v)


def _over_everything(dp: Any, p: Any) -> Any:
    return p * (dp - np.sum(dp * p))


def _over_the_batch(dp: Any, p: Any) -> Any:
    return p * (dp - np.sum(dp * p, axis=0, keepdims=True))


WRONG_SOFTMAX_BACKWARD = (  # beside the zoo's
    (lambda dp, p: -ops.softmax_backward(dp, p), "Right but for its sign: which of the two sums of J has the minus?"),
    (_over_everything, "Your sum runs over all rows. Softmax treats each row on its own: along which axis?"),
    (_over_the_batch, "Your sum runs down the columns. Along which axis did softmax go?"),
)

EXERCISES = (
    Exercise(
        "score_std",
        "predict the number",
        difficulty=1,
        minutes=3,
        task=f"the standard deviation of q·k for d_k = {D_K}",
        grader=Number(
            _score_std,
            tolerance=0.05,
            tempting=(
                (lambda: D_K, "That is the variance. The standard deviation is its root."),
                (lambda: 1.0, "That would be so after dividing by √d_k. What is it before?"),
                (lambda: 1 / math.sqrt(D_K), "That is the factor that brings it back to 1. What is it before?"),
                (lambda: math.sqrt(2 * D_K), "Var(q_i k_i) is E[q_i²] E[k_i²] = 1 · 1, not 1 + 1."),
            ),
        ),
        hints=(
            "The score is a sum of d_k products. What is the variance of one product?",
            "Variances of independent terms add up: what is the variance of the sum, and what is its root?",
        ),
    ),
    Exercise(
        "my_softmax_backward",
        "derive the backward",
        difficulty=2,
        minutes=10,
        task="ds from dp and p, without building the Jacobian",
        grader=Function("softmax", part="backward", tempting=WRONG_SOFTMAX_BACKWARD),
        hints=(
            "ds_j = Σ_i dp_i ∂p_i/∂s_j. Put J_ij = p_i (1[i = j] - p_j) in, and split it into two sums.",
            "One of the two sums has a single term. In the other p_j does not depend on i: take it out, and what is "
            "left under the Σ is one number a row.",
        ),
    ),
    Exercise(
        "my_attention",
        "write the op",
        difficulty=2,
        minutes=10,
        task="my_attention(q, k, v) -> out, weights",
        grader=Function("attention"),
        hints=(
            "Four lines: scores, exponentials, weights, output. Print the shape after each.",
            "exp overflows at 710: what may you subtract from a whole row of scores without changing its weights?",
        ),
    ),
    Exercise(
        "repaired_backward",
        "find the bug",
        difficulty=2,
        minutes=8,
        task="hasty_backward with its one wrong line put right",
        grader=Function("attention", part="backward", forward=_attention),
        hints=(
            "check('repaired_backward', hasty_backward) says which gradient is wrong. Which line makes it?",
            "s = c q kᵀ: the constant multiplies the whole product. Whose gradients pass through it?",
        ),
    ),
    Exercise(
        "transformer_divisor",
        "predict the number",
        difficulty=1,
        minutes=2,
        task=f"what scores are divided by, in a model of width {WIDTH} with {HEADS} heads",
        grader=Number(
            _divisor,
            tolerance=0.01,
            tempting=(
                (lambda: math.sqrt(WIDTH), "That is the root of the model's width. How many entries has one q·k?"),
                (lambda: WIDTH // HEADS, "That is d_k itself, the variance. And the divisor?"),
                (lambda: math.sqrt(HEADS / WIDTH), "That is what scores are multiplied by."),
                (lambda: HEADS, "That is how many heads there are. How many entries has one of them?"),
                (lambda: math.sqrt(HEADS), "The root of how many heads there are. How many entries has one?"),
            ),
        ),
        hints=(
            "A head does not see all of q: it sees its own slice.",
            "The slice has width / heads entries. That is d_k.",
        ),
    ),
    Exercise(
        "knows_the_scale",
        "write the property that kills this bug",
        difficulty=3,
        minutes=15,
        task="knows_the_scale(attention) -> True where attention divides by √d_k, False where it forgot to",
        grader=Property("attention", "no_scale", gives=("attention",)),
        hints=(
            "You need two calls whose outputs are equal if, and only if, the scale is there. What changes d_k, and "
            "leaves every q·k as it was?",
            "Zeros added to the end of each q and k. With four times the entries √d_k doubles: which queries would "
            "have given the same weights before?",
        ),
    ),
)
