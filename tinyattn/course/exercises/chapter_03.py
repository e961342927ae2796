"""Exercises of chapter 03, gradients."""

import numpy as np

from ... import ops
from ..graders import Function, Number, Property
from ..prose import Prose


def _gradient_of_a_weight(x: list[int], dy: list[int]) -> float:
    """dW[0, 1] for two tokens. `x` has entry 0 of each token, `dy` the upstream gradient of output 1 of each token."""
    tokens, upstream = np.array([[x[0], 2, 0], [x[1], -3, 1.0]]), np.array([[2, dy[0]], [0.5, dy[1]]])
    return float(ops.linear_backward(upstream, tokens, np.zeros((3, 2)))[1][0, 1])


def _best_step() -> int:
    """The k for which difference quotients with h = 10^k are nearest to the backward of softmax, in float64."""
    s, u = np.random.default_rng(1).standard_normal((2, 4, 8))
    derived = ops.softmax_backward(u, ops.softmax(s))

    def error(h: float) -> float:
        nudges = h * np.eye(s.size).reshape(-1, *s.shape)                 # one for each entry
        above, below = (np.sum(u * ops.softmax(x), axis=(1, 2)) for x in (s + nudges, s - nudges))
        return float(np.median(np.abs((above - below) / (2 * h) - derived.ravel())))

    return min(range(-14, 0), key=lambda exponent: error(10.0**exponent))


WRONG_SOFTMAX_BACKWARD = dict(
    right_but_for_its_sign=lambda dp, p: -ops.softmax_backward(dp, p),
    plain_mean=lambda dp, p: p * (dp - np.mean(dp, axis=-1, keepdims=True)),
    over_everything=lambda dp, p: p * (dp - np.sum(dp * p)),
    over_the_batch=lambda dp, p: p * (dp - np.sum(dp * p, axis=0, keepdims=True)),
)

EXERCISES = Prose(3).exercises(
    gradient_of_a_weight=Number(_gradient_of_a_weight, tolerance=1e-6),
    my_linear_backward=Function("linear", part="backward"),
    my_softmax_backward=Function(                         # without a mask, which a later chapter introduces
        "softmax", part="backward", forward=lambda s: ops.softmax(s), tempting=WRONG_SOFTMAX_BACKWARD
    ),
    best_step=Number(_best_step, exactly=True),
    not_fooled_by_ones=Property("linear", "db_ones", gives=("linear", "linear_backward")),
)
