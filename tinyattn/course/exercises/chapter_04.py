"""Exercises of chapter 04, attention backwards."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.spec import Spec
from ..exercise import Exercise
from ..graders import Function, Number, Property

CHAPTER = 4


def _attention(q: Any, k: Any, v: Any) -> Any:
    """The library's, without the options that the chapter has not come to yet.

    The weights are returned twice: a backward may call them `weights`, as the library's does, or otherwise.
    """
    out, weights = ops.attention(q, k, v)
    return out, weights, weights


def _key_bias() -> float:
    """The norm of db_k of six tokens' self-attention, without the rounding."""
    rng = np.random.default_rng(5)
    x, target = rng.standard_normal((6, 4)), rng.standard_normal((6, 2))
    (W_q, W_k, W_v), (b_q, b_k, b_v) = rng.standard_normal((3, 4, 2)), rng.standard_normal((3, 2))
    q, k, v = (ops.linear(x, W, b) for W, b in ((W_q, b_q), (W_k, b_k), (W_v, b_v)))
    out, p = ops.attention(q, k, v)
    dk = ops.attention_backward(out - target, q, k, v, p)[1]
    return round(float(np.linalg.norm(ops.linear_backward(dk, x, W_k)[2])), 9)


def _tied(x: Any, W: Any) -> Any:
    return x @ W @ W.T


def _tied_backward(dy: Any, x: Any, W: Any) -> Any:
    first, second, dx = _both_ways(dy, x, W)
    return dx, first + second


def _both_ways(dy: Any, x: Any, W: Any) -> tuple[Any, Any, Any]:
    """-> dW by the first use, by the second, and dx."""
    dh, dW_second, _ = ops.linear_backward(dy, x @ W, W.T)
    dx, dW_first, _ = ops.linear_backward(dh, x, W)
    return dW_first, dW_second.T, dx


def _tied_case(draw: CaseDrawer) -> dict[str, Any]:
    i = draw.size()
    o = draw.size_like(i)
    return {"x": draw.array(*draw.lead, draw.size(), i), "W": draw.array(i, o)}


def _with_dW(of: Any) -> Any:
    """A backward of `tied` with the right dx, and `of(by the first use, by the second)` for dW."""

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

def _scaled(dq_by: float, dk_by: float) -> Any:
    """A backward of attention whose dq and dk are multiplied by these powers of √d."""

    def backward(dout: Any, q: Any, k: Any, v: Any, p: Any) -> Any:
        dq, dk, dv, _ = ops.attention_backward(dout, q, k, v, p)
        return dq * q.shape[-1] ** (dq_by / 2), dk * q.shape[-1] ** (dk_by / 2), dv

    return backward


WHICH_LINE = "Which forward line has both q and k in it? What else stands in that line?"
WRONG_SCALE = (
    (_scaled(0, 1), WHICH_LINE, "dk is not multiplied by c."),
    (_scaled(1, 0), WHICH_LINE, "dq is not multiplied by c."),
    (_scaled(1, 1), WHICH_LINE, "Neither dq nor dk is multiplied by c."),
)


def _plain_mean(dout: Any, q: Any, k: Any, v: Any, p: Any) -> Any:
    """The bug of repaired_backward: softmax's backward subtracts the mean, whatever the weights are."""
    dp = dout @ np.swapaxes(v, -1, -2)
    ds = p * (dp - np.mean(dp, axis=-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return ds @ k, np.swapaxes(ds, -1, -2) @ q, np.swapaxes(p, -1, -2) @ dout


WHICH_MEAN = "dv is right, dq and dk are not. Which line do both of these need, and dv does not?"

WRONG_TIED = (
    (_with_dW(lambda first, second: first), "How many times does the forward use W?", "dW has only the part from h = "
        "x W."),
    (_with_dW(lambda first, second: second), "How many times does the forward use W?", "dW has only the part from y "
        "= h Wᵀ."),
    (_with_dW(lambda first, second: (first + second) / 2), "What does a value that is used twice get, a mean or a sum?",
     "dW is the mean of the two parts, not their sum."),
    (_with_dW(lambda first, second: first - second), "Are the gradients of two uses added or subtracted?",
     "One of the two parts has the wrong sign."),
    (_with_dW(lambda first, second: 2 * first), "Do both uses give the same part?",
     "dW has the part from h = x W twice."),
    (_with_dW(lambda first, second: 2 * second), "Do both uses give the same part?",
     "dW has the part from y = h Wᵀ twice."),
)  # fmt: skip

EXERCISES = (
    Exercise(
        "my_attention_backward",
        "derive the backward",
        difficulty=3,
        minutes=15,
        task="dq, dk, dv from dout, q, k, v and the attention weights p, in five lines",
        grader=Function(
            "attention",
            part="backward",
            forward=_attention,
            names=(("weights", "p"),),
            tempting=((_plain_mean, WHICH_MEAN, "Softmax's backward subtracts a mean weighted by p."), *WRONG_SCALE),
        ),
        hints=(
            "From the last forward line to the first: which gradients does out = p v give, which p = softmax(s), and "
            "which "
            "s = c q kᵀ? What is the shape of each?",
            "dv = pᵀ dout, dp = dout vᵀ, ds is softmax's backward. In s = c q kᵀ the constant multiplies the whole "
            "product, so "
            "it belongs to dq and to dk. Transpose the last two axes with swapaxes(-1, -2).",
        ),
        why="Each line undoes one forward line. δs = c δq kᵀ + c q δkᵀ, so <ds, δs> = <c ds k, δq> + <c dsᵀ q, δk>. "
            "swapaxes(-1, -2) in place of .T leaves the leading axes where they are.",
    ),
    Exercise(
        "repaired_backward",
        "find the bug",
        difficulty=2,
        minutes=5,
        task="buggy_backward with its one wrong line put right",
        grader=Function(
            "attention",
            part="backward",
            forward=_attention,
            names=(("weights", "p"),),
            tempting=((_plain_mean, WHICH_MEAN), *WRONG_SCALE),
        ),
        hints=(
            "check('repaired_backward', buggy_backward) says which gradients are wrong. Which line do all of these "
            "need, and those that are right do not?",
            "The line of ds: in softmax's backward each row of dp loses its mean weighted by p, Σ_j p_j dp_j, not its "
            "plain mean.",
        ),
        why="dq and dk both differ, dv does not, so the error is in dp or ds, and dp = dout vᵀ is right. If all "
            "weights are even, the two means agree: a test with equal keys misses this bug.",
    ),
    Exercise(
        "repaired_tied_backward",
        "find the bug",
        difficulty=2,
        minutes=8,
        task="buggy_tied_backward, put right",
        grader=Function(TIED, part="backward", forward=_tied, tempting=WRONG_TIED),
        hints=(
            "check('repaired_tied_backward', buggy_tied_backward) says which gradient is wrong. How many lines make "
            "it?",
            "Each line is right about the forward line that it undoes, but the second dW overwrites the first. They "
            "must be "
            "added.",
        ),
        why="The forward uses W twice, so dW is the sum of two parts. An `=` where a `+=` should be keeps only the "
            "last.",
    ),
    Exercise(
        "key_bias_gradient",
        "predict the number",
        difficulty=2,
        minutes=4,
        task="‖db_k‖, the norm of the gradient of a bias that is added to every key",
        grader=Number(
            _key_bias,
            tolerance=1e-6,
            tempting=(
                (lambda: 1.0, "Add the same vector to every key: by how much does each logit of a row move?"),
                (lambda: 6.0, "db_k is the sum of dk over six keys. What do the entries of a row of ds add up to?"),
            ),
        ),
        hints=(
            "What is q·(k + b) - q·k? Does it depend on the key?",
            "db_k = Σ_j dk_j = c Σ_i (Σ_j ds_ij) q_i. Each row of ds sums to a number that you know from chapter 03.",
        ),
        why="Every logit of row i moves by the same c q_i · b, and softmax does not notice what a whole row has in "
            "common. The "
            "output does not depend on b, so its gradient is 0: such a bias never learns.",
    ),
    Exercise(
        "same_for_keys_and_queries",
        "write the property that kills this bug",
        difficulty=3,
        minutes=10,
        task="same_for_keys_and_queries(attention, attention_backward) -> False where dk, or dq, lacks the scale, True "
            "where right",
        grader=Property("attention", "no_scale_dk", gives=("attention", "attention_backward"), others=("no_scale_dq",)),
        hints=(
            "Multiply q by 1.001 and divide k by it. What is <dq, δq> + <dk, δk>?",
            "Let q become (1 + t) q and k become k / (1 + t), with a small t. The loss does not move, and δq = t q, "
            "δk = -t k nearly. Put these into <dq, δq> + <dk, δk>, which must be 0.",
        ),
        why="Only the product q kᵀ is used, so <dq, q> - <dk, k> must be 0. Both equal Σ ds ⊙ s. A scale that is "
            "forgotten on one "
            "side makes them differ by √d.",
    ),
)  # fmt: skip
