"""Exercises of chapter 02, why √d."""

import math
from typing import Any

import numpy as np

from ... import layers, ops
from ..exercise import Exercise
from ..graders import Function, Number, Property

CHAPTER = 2
D, PAIRS = 256, 20_000       # of score_std: the width, and how many pairs are drawn
WIDTH, HEADS = 1024, 16      # of transformer_divisor: the Transformer's big model


def _score_std() -> float:
    """Of q·k over many pairs of vectors with independent entries of variance 1."""
    q, k = np.random.default_rng(0).standard_normal((2, PAIRS, D))
    return float(np.std(np.sum(q * k, axis=-1)))


def _divisor() -> float:
    """By what the library's multi-head attention divides its logits.

    All projections are the identity. The logit of a token with itself is 1, with a row of zeros 0: ln of the ratio of
    the two weights is what is left of the 1.
    """
    p = {name: {"W": np.eye(WIDTH)} for name in ("query", "key", "value")}
    x = np.zeros((2, WIDTH))
    x[1, 0] = 1.0
    weights = layers.multi_head_attention(p, x, x, heads=HEADS)[1].weights      # (heads, 2, 2)
    return 1 / math.log(weights[0, 1, 1] / weights[0, 1, 0])


# --- my_attention: what readers write that the zoo does not know ----------------------------------------------------


def _logits(q: Any, k: Any) -> Any:
    return q @ np.swapaxes(k, -1, -2) / math.sqrt(max(q.shape[-1], 1))


def _logits_as_weights(q: Any, k: Any, v: Any) -> Any:
    return _logits(q, k) @ v, _logits(q, k)


def _logits_for_weights(q: Any, k: Any, v: Any) -> Any:
    """The output is right; beside it the logits are returned."""
    return ops.attention(q, k, v)[0], _logits(q, k)


def _divided_too_late(q: Any, k: Any, v: Any) -> Any:
    p = ops.attention(q, k, v, scale=1.0)[1] / math.sqrt(max(q.shape[-1], 1))
    return p @ v, p


def _output_divided(q: Any, k: Any, v: Any) -> Any:
    out, p = ops.attention(q, k, v, scale=1.0)
    return out / math.sqrt(max(q.shape[-1], 1)), p


def _worst_first(q: Any, k: Any, v: Any) -> Any:
    return ops.attention(-q, k, v)


WRONG_ATTENTION = (
    (_logits_as_weights, "Can an attention weight be negative?", "The logits are used as weights: softmax is missing."),
    (_logits_for_weights, "The output is right. Do the rows of what you return beside it sum to 1?",
     "You return the logits beside the output; it should be the weights, after softmax."),
    (_divided_too_late, "What does each row of your weights sum to?", "The division comes after softmax, not before."),
    (_output_divided, "With one key, what must the output be?", "The output is divided by √d, not the logits."),
    (_worst_first, "Which key gets the most weight, the best or the worst?", "The logits have the wrong sign."),
)  # fmt: skip

EXERCISES = (
    Exercise(
        "score_std",
        "predict the number",
        difficulty=1,
        minutes=3,
        task=f"the standard deviation of q·k for d = {D}",
        grader=Number(
            _score_std,
            tolerance=0.05,
            tempting=(
                (lambda: D, "That is the variance. What is the standard deviation?"),
                (lambda: 1.0, "It is 1 after dividing by √d. What is it before?"),
                (lambda: 1 / math.sqrt(D), "That is the factor that brings it back to 1. What is it before?"),
                (lambda: math.sqrt(2 * D), "You added 1 + 1. But is Var(q_i k_i) a sum, or a product?"),
            ),
            computed=f"On paper √{D} = {math.isqrt(D)}; the library measures {{}} over {PAIRS:,} pairs.",
        ),
        hints=(
            "The logit is a sum of d products. What is the variance of one product?",
            "One product has variance 1. The variances of independent terms add up, and the standard deviation is the "
            "root of their sum.",
        ),
        why=f"{D} products of variance 1 each: the variance of their sum is {D}, and its root is {math.isqrt(D)}.",
    ),
    Exercise(
        "my_attention",
        "write the op",
        difficulty=2,
        minutes=10,
        task="my_attention(q, k, v) -> out, p",
        grader=Function("attention", tempting=WRONG_ATTENTION, names=(("weights", "p"),)),
        hints=(
            "Do the example on paper, line by line: s, p, out. Which of your lines is the first to differ?",
            "Write a line for each of s, p and out: q @ k.swapaxes(-1, -2) divided by the square root of the length of "
            "q's last axis; softmax of it; p @ v.",
        ),
        why="Axes are counted from the end, so any axes may come before; and softmax subtracts each row's largest "
        "logit, so no exponential is above 1.",
    ),
    Exercise(
        "transformer_divisor",
        "predict the number",
        difficulty=1,
        minutes=2,
        task=f"what logits are divided by, in a model of width {WIDTH} with {HEADS} heads",
        grader=Number(
            _divisor,
            tolerance=0.01,
            tempting=(
                (lambda: math.sqrt(WIDTH), "That is the root of the model's width. How many entries has one q·k?"),
                (lambda: WIDTH // HEADS, "That is d, the variance of a logit. And its standard deviation?"),
                (lambda: math.sqrt(HEADS / WIDTH), "That is what logits are multiplied by. What are they divided by?"),
                (lambda: HEADS, "That is how many heads there are. How many entries has one of them?"),
                (lambda: math.sqrt(HEADS), "The root of how many heads there are. How many entries has one of them?"),
            ),
        ),
        hints=(
            "A head does not see all of q: it sees its own slice. How wide is that?",
            "The slice has width / heads entries: that is d. The divisor is its root.",
        ),
        why="One dot product runs over 1024 / 16 = 64 entries, and the divisor is the root of that number.",
    ),
    Exercise(
        "knows_the_scale",
        "write the property that kills this bug",
        difficulty=3,
        minutes=15,
        task="knows_the_scale(attention) -> True if attention divides by √d, False if it forgot to, or divides by "
        "something else",
        grader=Property(
            "attention",
            "no_scale",
            gives=("attention",),
            others=("scale_d", "scale_mult", "scale_of_v", "scale_of_keys"),
        ),
        hints=(
            "What can you do to q and k that changes d, and leaves every dot product q·k as it was?",
            "Append zeros to every q and k, so that they are four times as wide: √d doubles, and q·k stays. So this "
            "must give what attention(q / 2, k, v) gives.",
        ),
        why="Zeros change no dot product, so all that the wider call can notice is d. Four times as wide is twice the "
        "divisor, for √d and for no other.",
    ),
)
