"""Exercises of chapter 09, how to know you are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from ..exercise import Exercise
from ..graders import Checker, Function, Number, Pair, Property

CHAPTER = 9
ONE_TOKEN = ("no_scale", "scale_of_keys", "softmax_axis", "no_rowmax", "off_by_one_peek", "scale_np64", "softmax_diag",
             "rowsum_missing", "dv_missing_batch", "backward_changes_input")  # fmt: skip


def _caught_by_one_token() -> int:
    """Of ONE_TOKEN: bugs that outputs or gradients show for one token without a mask."""
    from ...check.zoo import ZOO

    q, k, v, u = np.random.default_rng(0).standard_normal((4, 1, 4))
    caught = 0
    for name in ONE_TOKEN:
        wrong = ZOO["attention"].make(frozenset([name]))
        out, p = wrong.attention(q, k, v)
        expected = ops.attention_backward(u, q, k, v, ops.attention(q, k, v)[1])[:3]
        got = wrong.attention_backward(u.copy(), q, k, v, p)[:3]
        caught += not np.allclose(out, v) or not all(map(np.allclose, got, expected))
    return caught


# --- my_gradcheck: backwards to try it on ---------------------------------------------------------------------------


def _norm(x: Any) -> Any:
    return ops.layer_norm(x, np.linspace(0.5, 2, x.shape[-1]), np.zeros(x.shape[-1]))[0]


def _norm_backward(dy: Any, x: Any) -> Any:
    gamma = np.linspace(0.5, 2, x.shape[-1])
    return ops.layer_norm_backward(dy, *ops.layer_norm(x, gamma, np.zeros_like(gamma))[1:], gamma)[0]


def _softmax_backward(dy: Any, x: Any) -> Any:
    return ops.softmax_backward(dy, ops.softmax(x))


def _tanh_backward(dy: Any, x: Any) -> Any:
    return dy * (1 - np.tanh(x) ** 2)


def _one_doubled(dy: Any, x: Any) -> Any:
    dx = _tanh_backward(dy, x)
    dx[-1, -1] *= 2
    return dx


W = np.random.default_rng(1).standard_normal((4, 2))
ZEROS = (
    "What do all outputs of a softmax add up to, and what is the slope of a sum that never moves? What if all logits "
    "move alike?",
    "Your u, or your t, seems to be all ones. Then both sides are 0 and only noise is compared: draw both at random.",
)
PAIRS = (
    Pair("tanh(x)", np.tanh, _tanh_backward,
         question="Do both sides use the same dy, and is your h neither too large nor too small?",
         diagnosis="Take h near 1e-5, divide the difference by 2 h, and give f_backward the dy that weights f."),
    Pair("x @ W, with outputs of another shape", lambda x: x @ W, lambda dy, x: dy @ W.T, (5, 4),
         question="Of which shape must dy be: that of x, or that of f(x)?",
         diagnosis="dy is shaped like f(x), and dx like x."),
    Pair("softmax(x)", ops.softmax, _softmax_backward, question=ZEROS[0], diagnosis=ZEROS[1]),
    Pair("softmax(x), two sentences", ops.softmax, _softmax_backward, (2, 3, 4),
         question="Does your checker count on x having two axes?",
         diagnosis="np.ndindex(x.shape), or a random direction of x.shape, works for any number of axes."),
    Pair("LayerNorm(x)", _norm, _norm_backward),
    Pair("relu(x), where many gradients are exactly 0", ops.relu, lambda dy, x: ops.relu_backward(dy, x),
         question="What is the relative error where both numbers are 0?",
         diagnosis="0 / 0 is no number. Divide by the largest entry of all, or guard the denominator."),
    Pair("1,000,000 tanh(x): large gradients", lambda x: 1e6 * np.tanh(x), lambda dy, x: 1e6 * _tanh_backward(dy, x),
         question="Is your error relative, or absolute?",
         diagnosis="The difference must be divided by the size of the gradients themselves."),
    Pair("softmax(x), without the row sum", ops.softmax, lambda dy, x: ops.softmax(x) * dy, right=False,
         question="Does your error compare the measured slope with what f_backward returned?",
         diagnosis="The error must grow with the difference between measured and derived."),
    Pair("softmax(x), dx = 0", ops.softmax, lambda dy, x: 0 * x, right=False, question=ZEROS[0], diagnosis=ZEROS[1]),
    Pair("tanh(x), dx = 1 - tanh(x)², without dy", np.tanh, lambda dy, x: _tanh_backward(np.ones_like(x), x),
         right=False, question="For which dy is a backward right that never looks at dy?",
         diagnosis="For dy = 1 only. Draw a random dy."),
    Pair("tanh(x), dx with the wrong sign", np.tanh, lambda dy, x: -_tanh_backward(dy, x), right=False,
         question="What is left of a sign, if you compare sizes?", diagnosis="Compare a - b, not |a| - |b|."),
    Pair("tanh(x), all of dx 1 % too large", np.tanh, lambda dy, x: 1.01 * _tanh_backward(dy, x), right=False,
         question="1 % is a bug. Does your measure still see it?",
         diagnosis="Return the error itself, without rounding it or comparing it with a generous tolerance."),
    Pair("tanh(x), one of twelve entries of dx doubled", np.tanh, _one_doubled, right=False,
         question="Does every entry of dx take part in your comparison?",
         diagnosis="Move all entries, one by one or all together along a random direction."),
    Pair("0.000001 tanh(x), dx with the wrong sign: small gradients", lambda x: 1e-6 * np.tanh(x),
         lambda dy, x: -1e-6 * _tanh_backward(dy, x), right=False, question="Is your error relative, or absolute?",
         diagnosis="The difference must be divided by the size of the gradients themselves."),
)  # fmt: skip


def largest_error(f: Callable[[Any], Any], f_backward: Callable[[Any, Any], Any], x: Any) -> float:
    """The relative error of a backward along a random direction, by central differences."""
    rng, h = np.random.default_rng(0), 1e-5
    t = rng.standard_normal(x.shape)
    above, below = f(x + h * t), f(x - h * t)
    u = rng.standard_normal(above.shape)
    measured, derived = np.sum(u * (above - below)) / (2 * h), np.sum(f_backward(u, x) * t)
    return float(abs(measured - derived) / max(abs(measured), abs(derived), 1e-300))


# --- repaired_rms_backward ------------------------------------------------------------------------------------------


def _one_mean_for_all(dy: Any, x_hat: Any, r: Any, gamma: Any) -> Any:
    g = dy * gamma
    dx = r * (g - x_hat * (np.mean(g * x_hat) if g.size else 0))
    return dx, np.sum((dy * x_hat).reshape(-1, len(gamma)), axis=0)


def _summed(dy: Any, x_hat: Any, r: Any, gamma: Any) -> Any:
    g = dy * gamma
    dx = r * (g - x_hat * np.sum(g * x_hat, axis=-1, keepdims=True))
    return dx, np.sum((dy * x_hat).reshape(-1, len(gamma)), axis=0)


def _down_the_columns(dy: Any, x_hat: Any, r: Any, gamma: Any) -> Any:
    g = dy * gamma
    dx = r * (g - x_hat * np.mean(g * x_hat, axis=0))
    return dx, np.sum((dy * x_hat).reshape(-1, len(gamma)), axis=0)


def _centred(dy: Any, x_hat: Any, r: Any, gamma: Any) -> Any:
    dx, dgamma = ops.rms_norm_backward(dy, x_hat, r, gamma)
    g = dy * gamma
    return dx - r * np.mean(g, axis=-1, keepdims=True), dgamma


EXERCISES = (
    Exercise(
        "my_gradcheck",
        "write the op",
        difficulty=2,
        minutes=12,
        task="my_gradcheck(f, f_backward, x) -> the relative error of the backward, a number",
        grader=Checker(PAIRS, largest_error),
        hints=(
            "The formula has two sides. Which of its arrays are drawn at random, and which shape has each?",
            "Draw t like x and u like f(x). measured = sum(u (f(x + h t) - f(x - h t))) / (2 h) with h = 1e-5, and "
            "derived = sum(f_backward(u, x) t). Return |measured - derived| / max(|measured|, |derived|).",
        ),
        why="A gradient is all that is needed to say how ⟨u, f(x)⟩ moves in any direction. A wrong entry spoils almost "
        "every direction, so one random direction and one random u test all entries at once.",
    ),
    Exercise(
        "twins_change_nothing",
        "write the property that kills this bug",
        difficulty=2,
        minutes=10,
        task="twins_change_nothing(attention) -> True where the number of keys does not matter by itself, False where "
        "logits are divided by its root",
        grader=Property("attention", "scale_of_keys", gives=("attention",)),
        hints=(
            "Every key gets a twin with the same value. What happens to each weight, and what to the weighted sum?",
            "Compare attention(q, k, v)[0] with attention of np.concatenate([k, k]) and np.concatenate([v, v]): each "
            "weight is halved and counted twice.",
        ),
        why="Twins share what one key had, so that the average of the values stays. A scale that knows how many keys "
        "there are makes the weights flatter, and the average moves. No right answer was needed, only two answers.",
    ),
    Exercise(
        "caught_by_one_token",
        "predict the number",
        difficulty=2,
        minutes=3,
        task="of the ten bugs, how many do outputs and gradients of a single token show?",
        grader=Number(
            _caught_by_one_token,
            tolerance=0.0,
            exactly=True,
            computed="Of the ten bugs, {} shows.",
            tempting=(
                (
                    lambda: 0,
                    "The outputs show none. What is ds = p ⊙ dp, without the row sum, where p = 1?",
                    "rowsum_missing gives ds = dp, and the truth is 0.",
                ),
                (
                    lambda: 2,
                    "What is p (1 - p) dp where p = 1?",
                    "softmax_diag gives 0 there, and 0 is right: with one key no logit matters.",
                ),
                (
                    lambda: 3,
                    "Is there a mask in these two tests? Float32? A second sentence?",
                    "Only the two wrong backwards of softmax can differ at all, and one of them is right where p = 1.",
                ),
            ),
        ),
        hints=(
            "With one key p = 1 and out = v. What are the true dq and dk, and what do the two wrong backwards of "
            "softmax give?",
            "The true ds is 0. p (1 - p) dp is 0 as well; p dp without its row sum is dp, which is not.",
        ),
        why="With one key the output is v and no logit matters, so the truth is ds = 0. Only the backward without the "
        "row sum gives something else.",
    ),
    Exercise(
        "repaired_rms_backward",
        "find the bug",
        difficulty=2,
        minutes=8,
        task="buggy_rms_backward with its one wrong line put right",
        grader=Function(
            "rms_norm",
            part="backward",
            tempting=(
                (
                    _one_mean_for_all,
                    "Which numbers does each mean run over? Try gradcheck on two tokens.",
                    "The mean runs over all tokens: with more than one, each needs its own.",
                ),
                (_summed, "Was it a mean or a sum?", "Your sum runs along the right axis: take its mean."),
                (
                    _down_the_columns,
                    "Which axis holds one token's features?",
                    "The mean runs over tokens, axis 0. A token's own runs along the last: axis=-1, keepdims=True.",
                ),
                (
                    _centred,
                    "You take the mean of g out, as LayerNorm does. Does RMSNorm forget a token's mean?",
                    "RMSNorm does not centre, so nothing along (1, ..., 1) is to be taken out.",
                ),
            ),
        ),
        hints=(
            "The test has one token. What is the smallest input that it does not try?",
            "`.mean()` without an axis is the mean over all tokens. With one token that is its own mean; with two, "
            "each needs one of its own: axis=-1, keepdims=True.",
        ),
        why="Every token has an r of its own, and its gradient involves nobody else. A reduction without an axis mixes "
        "tokens, and a test with one token cannot see it.",
    ),
)
