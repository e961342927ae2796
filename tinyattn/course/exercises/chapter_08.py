"""Exercises of chapter 08, the block."""

import math
from typing import Any

import numpy as np

from ... import ops
from ...check import adapters
from ..exercise import Exercise
from ..graders import Function, Number, Property

CHAPTER = 8
BLOCKS = 12                  # of stream_std: two branches each


def _stream_std() -> float:
    """Of a stream of standard normal entries, to which every branch adds independent standard normal entries."""
    x = np.random.default_rng(0).standard_normal((1 + 2 * BLOCKS, 20_000))
    return float(np.std(np.sum(x, axis=0)))


# --- what readers write instead, beside the zoo's -------------------------------------------------------------------


def _rstd_squared(x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> Any:
    y, x_hat, rstd = ops.layer_norm(x, gamma, beta, eps)
    return y, x_hat, rstd * rstd


def _over_the_batch(x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> Any:
    mean = np.mean(x, axis=0, keepdims=True)
    rstd = 1 / np.sqrt(np.mean((x - mean) ** 2, axis=0, keepdims=True) + eps)
    x_hat = (x - mean) * rstd
    return x_hat * gamma + beta, x_hat, rstd


def _eps_outside(x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> Any:
    centred = x - np.mean(x, axis=-1, keepdims=True)
    rstd = 1 / (np.sqrt(np.mean(centred**2, axis=-1, keepdims=True)) + x.dtype.type(eps))
    return centred * rstd * gamma + beta, centred * rstd, rstd


def _rstd_for_x_hat(dy: Any, x_hat: Any, rstd: Any, gamma: Any) -> Any:
    dx, dgamma, dbeta = ops.layer_norm_backward(dy, x_hat, rstd, gamma)
    return dx * rstd, dgamma, dbeta


def _only_normalised(
    x: Any, gamma_1: Any, beta_1: Any, W_q: Any, W_k: Any, W_v: Any, W_o: Any, gamma_2: Any, beta_2: Any,
    W_1: Any, b_1: Any, W_2: Any, b_2: Any, heads: int, mask: Any = None, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """What attention wrote is read by the second branch, and is never added to x."""
    h = ops.layer_norm(x, gamma_1, beta_1, eps)[0]
    a = adapters.multi_head_attention(h, W_q, W_k, W_v, W_o, heads, mask)
    h = ops.layer_norm(a, gamma_2, beta_2, eps)[0]
    return x + adapters.feed_forward(h, W_1, b_1, W_2, b_2)


EXERCISES = (
    Exercise(
        "my_layer_norm",
        "write the op",
        difficulty=1,
        minutes=8,
        task="my_layer_norm(x, gamma, beta, eps=1e-5) -> y, x_hat, rstd",
        grader=Function(
            "layer_norm",
            takes=("eps",),
            conventions=False,
            tempting=(
                (
                    _eps_outside,
                    "Is eps added to the variance, or to its root?",
                    "Your eps stands outside the root: rstd = 1 / √(variance + eps).",
                ),
                (
                    _rstd_squared,
                    "y and x_hat are right. What is rstd, the number that x - mean is multiplied by?",
                    "You return 1 / (variance + eps); rstd is its root, 1 / √(variance + eps).",
                ),
                (
                    _over_the_batch,
                    "Along which axis does your mean run? Change one token: may its neighbour's output change?",
                    "Your statistics run down the first axis; a token's own run along the last, axis=-1.",
                ),
            ),
        ),
        hints=(
            "A token is a row. Along which axis do its own entries lie, and what shape must its mean keep to be "
            "subtracted from it?",
            "Take the mean with axis=-1, keepdims=True, subtract it, and take the mean square of what is left. Then "
            "rstd = 1 / √(variance + eps): eps inside the root.",
        ),
        why="Each token is centred first and measured afterwards: the variance is the mean square of the centred "
        "entries. keepdims=True keeps the last axis as 1, so that every token meets its own two numbers only.",
    ),
    Exercise(
        "my_layer_norm_backward",
        "derive the backward",
        difficulty=3,
        minutes=15,
        task="my_layer_norm_backward(dy, x_hat, rstd, gamma) -> dx, dgamma, dbeta",
        grader=Function(
            "layer_norm",
            part="backward",
            tempting=(
                (
                    _rstd_for_x_hat,
                    "The direction of dx is right. How often did the forward multiply by rstd?",
                    "dx is multiplied by rstd twice. x_hat already contains one rstd, and it stays inside x_hat.",
                ),
            ),
        ),
        hints=(
            "Write g = dy ⊙ γ. In ⟨g, x_hat mean(x_hat ⊙ δc)⟩ the mean is one number a token: what multiplies it, and "
            "what multiplies δc once you turn the sum around?",
            "The sum turns into ⟨x_hat mean(g ⊙ x_hat), δc⟩. Do the same with δc = δx - mean(δx): the mean of what "
            "stands beside δc is subtracted, and the mean of x_hat is 0. dγ and dβ are sums over all tokens.",
        ),
        why="The forward forgets two things about a token, its mean and its size. A gradient cannot ask for a change "
        "that the output does not feel, so the part of g along (1, ..., 1) and the part along x_hat are taken out.",
    ),
    Exercise(
        "each_token_alone",
        "write the property that kills this bug",
        difficulty=2,
        minutes=8,
        task="each_token_alone(layer_norm) -> True where every token is normalised by its own numbers, else False",
        grader=Property("layer_norm", "axis", gives=("layer_norm",), others=("all_axes",)),
        hints=(
            "If a token is normalised alone, what must its output be when it is the only token there is?",
            "Normalise three tokens together; then one of them without the others. Compare with np.allclose.",
        ),
        why="Where tokens do not see one another, the output of one is the same in any company. The test needs no "
        "formula of LayerNorm, and so it also catches mistakes that its author did not think of.",
    ),
    Exercise(
        "repaired_block",
        "find the bug",
        difficulty=2,
        minutes=8,
        task="buggy_block with its one wrong line put right",
        grader=Function(
            "block",
            tempting=(
                (
                    _only_normalised,
                    "Set W_2 and b_2 to 0: what should be left of the block, and what is left of yours?",
                    "What attention wrote is only read by the second branch; it must be added to x, and stay there.",
                ),
            ),
        ),
        hints=(
            "Set W_2 and b_2 to 0, so that the second branch adds nothing. What should be left of the block, and what "
            "does buggy_block return?",
            "With a silent second branch, buggy_block returns x: what attention added is read by the second branch, "
            "but it never reaches the output. Add it to the stream before going on.",
        ),
        why="There is one stream, and every branch adds to what is there by then: x, then x + a, then x + a + f. The "
        "second branch reads the middle one and must add to it, too.",
    ),
    Exercise(
        "stream_std",
        "predict the number",
        difficulty=1,
        minutes=3,
        task=f"the standard deviation of an entry of the stream after {BLOCKS} blocks",
        grader=Number(
            _stream_std,
            tolerance=0.01,
            computed="A simulation gives {}.",
            tempting=(
                (lambda: 1.0 + 2 * BLOCKS, "Is that the standard deviation, or the variance?"),
                (lambda: 2.0 * BLOCKS, "Is that the standard deviation, or the variance? And is the start counted?"),
                (lambda: math.sqrt(2 * BLOCKS), "What was in the stream before the first branch?"),
                (lambda: math.sqrt(1 + BLOCKS), "How many branches does one block have?"),
                (lambda: 1.0, "Which line of a pre-LN block would bring the stream back to 1?"),
                (lambda: 2.0**BLOCKS, "Are sizes multiplied here, or are variances added?"),
            ),
        ),
        hints=(
            "Chapter 02: what does the variance of a sum of independent numbers do?",
            f"Variances add up: 1 at the start, and 1 for each of the {2 * BLOCKS} branches. Take the root.",
        ),
        why="Independent variances add, so the variance grows with the number of branches, and the size with its root.",
    ),
)
