"""Exercises of chapter 09, how to know you are right."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from ...check.zoo import ZOO
from ..graders import Checker, Function, Number, Property
from ..plain import Changes, changed
from ..prose import Prose

ONE_TOKEN = ("no_scale", "scale_of_keys", "softmax_axis", "no_rowmax", "off_by_one_peek", "scale_np64", "softmax_diag",
             "rowsum_missing", "dv_missing_batch", "backward_changes_input")  # fmt: skip


def _caught_by_one_token() -> int:
    """The number of bugs of ONE_TOKEN that change outputs or gradients for one token without a mask."""
    q, k, v, u = np.random.default_rng(0).standard_normal((4, 1, 4))
    caught = 0
    for name in ONE_TOKEN:
        wrong = ZOO["attention"].make(frozenset([name]))
        out, p = wrong.attention(q, k, v)
        expected = ops.attention_backward(u, q, k, v, ops.attention(q, k, v)[1])[:3]
        got = wrong.attention_backward(u.copy(), q, k, v, p)[:3]
        caught += not np.allclose(out, v) or not all(map(np.allclose, got, expected))
    return caught


# my_gradcheck
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
RIGHT_PAIRS = dict(
    tanh=(np.tanh, _tanh_backward, (3, 4)),
    other_shape=(lambda x: x @ W, lambda dy, x: dy @ W.T, (5, 4)),
    softmax=(ops.softmax, _softmax_backward, (3, 4)),
    softmax_of_two_sentences=(ops.softmax, _softmax_backward, (2, 3, 4)),
    layer_norm=(_norm, _norm_backward, (3, 4)),
    one_column=(ops.softmax, _softmax_backward, (3, 1)),            # its gradient is exactly 0
    relu=(ops.relu, lambda dy, x: ops.relu_backward(dy, x), (3, 4)),
    large_gradients=(lambda x: 1e6 * np.tanh(x), lambda dy, x: 1e6 * _tanh_backward(dy, x), (3, 4)),
)
WRONG_PAIRS = dict(
    softmax_without_row_sum=(ops.softmax, lambda dy, x: ops.softmax(x) * dy, (3, 4)),
    zero_gradient=(ops.softmax, lambda dy, x: 0 * x, (3, 4)),
    dy_ignored=(np.tanh, lambda dy, x: _tanh_backward(np.ones_like(x), x), (3, 4)),
    wrong_sign=(np.tanh, lambda dy, x: -_tanh_backward(dy, x), (3, 4)),
    one_percent_off=(np.tanh, lambda dy, x: 1.01 * _tanh_backward(dy, x), (3, 4)),
    one_entry_doubled=(np.tanh, _one_doubled, (3, 4)),
    small_gradients=(lambda x: 1e-6 * np.tanh(x), lambda dy, x: -1e-6 * _tanh_backward(dy, x), (3, 4)),
)


def largest_error(f: Callable[[Any], Any], f_backward: Callable[[Any, Any], Any], x: Any) -> float:
    """The relative error of a backward along a random direction, by central differences."""
    rng, h = np.random.default_rng(0), 1e-5
    t = rng.standard_normal(x.shape)
    above, below = f(x + h * t), f(x - h * t)
    u = rng.standard_normal(above.shape)
    measured, derived = np.sum(u * (above - below)) / (2 * h), np.sum(f_backward(u, x) * t)
    return float(abs(measured - derived) / max(abs(measured), abs(derived), 1e-300))


# repaired_rms_backward
def _rms_backward(dy: Any, x_hat: Any, r: Any, gamma: Any) -> Any:
    """The backward of RMSNorm."""
    g = dy * gamma
    dx = r * (g - x_hat * np.mean(g * x_hat, axis=-1, keepdims=True))
    return dx, np.sum((dy * x_hat).reshape(-1, len(gamma)), axis=0)


WRONG_RMS = Changes(_rms_backward,
    centred=changed(_rms_backward, "(g - x_hat -> (g - np.mean(g, axis=-1, keepdims=True) - x_hat"),
)

EXERCISES = Prose(9).exercises(
    my_gradcheck=Checker(largest_error, RIGHT_PAIRS, WRONG_PAIRS),
    twins_change_nothing=Property("attention", "scale_of_keys", gives=("attention",)),
    caught_by_one_token=Number(_caught_by_one_token, exactly=True, computed="Of the ten bugs, {} shows."),
    repaired_rms_backward=Function("rms_norm", part="backward", tempting=WRONG_RMS),
)
