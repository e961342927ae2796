"""The ReLU, and its known bugs."""

import numpy as np

from .bug import bug, in_place, planted


def relu(x):
    y = np.maximum(x, 0)
    return y


def relu_backward(dy, x):
    gate = x > 0
    dx = dy * gate
    return dx


BUGS, make = planted(__name__, [
    bug("leaky", "negative numbers leak through", "Compute relu(-100).", "np.maximum(x, 0) -> np.where(x > 0, x, x.dtype.type(0.01) * x)"),
    bug("abs", "it is the absolute value", "Compute relu(-2).", "np.maximum(x, 0) -> np.abs(x)"),
    bug("clip_6", "it is cut at 6", "Compute relu(10).", "return y -> return np.minimum(y, 6)"),
    bug("minimum", "it keeps the negative half", "max or min?", "np.maximum(x, 0) -> np.minimum(x, 0)"),
    bug("threshold_1", "it opens at 1, not at 0", "Compute relu(0.5).", "np.maximum(x, 0) -> np.where(x > 1, x, 0).astype(x.dtype)"),
    bug("softplus", "it is softplus", "Is there a kink at 0?", "np.maximum(x, 0) -> np.logaddexp(x, x.dtype.type(0))"),
    bug("elu", "negative numbers become exp(x) - 1", "Compute relu(-100).", "np.maximum(x, 0) -> np.where(x > 0, x, np.expm1(np.minimum(x, 0)))"),
    bug("changes_input", "it writes into x", "Print x before and after.", "return y -> in_place(np.multiply, x, x > 0); return y"),
    bug("double_out", "the result is always float64", "Print y.dtype for float32 inputs.", "return y -> return y.astype(float)"),
    bug("mask_from_dy", "the gradient passes where dy > 0", "The sign of what decides?", "gate = x > 0 -> gate = dy > 0"),
    bug("mask_from_both", "the gradient passes where both x and dy are positive", "Does the sign of dy matter?", "gate = x > 0 -> gate = (x > 0) & (dy > 0)"),
    bug("mask_from_abs", "the gradient passes where x is not 0", "Compute the slope at -2.", "gate = x > 0 -> gate = x != 0"),
    bug("mask_at_zero", "the gradient passes at x = 0", "x > 0 or x >= 0?", "gate = x > 0 -> gate = x >= 0", permitted=True),
    bug("mask_inverted", "the gradient passes where x < 0", "Compute the slope at +2.", "gate = x > 0 -> gate = x < 0"),
    bug("threshold_1_backward", "the gradient passes where x > 1", "Compute the slope at 0.5.", "gate = x > 0 -> gate = x > 1"),
    bug("leaky_backward", "negative numbers let a little gradient through", "Compute the slope at -2.", "dy * gate -> np.where(x > 0, dy, dy.dtype.type(0.01) * dy)"),
    bug("ones", "the gradient is dy itself", "Which entries did the forward let through?", "gate = x > 0 -> gate = np.ones(x.shape, bool)"),
    bug("no_dy", "the gradient is the slope and forgets dy", "The chain rule multiplies.", "dy * gate -> gate.astype(dy.dtype)"),
    bug("times_y", "the gradient is dy · relu(x)", "Is the slope at +2 1 or 2?", "dy * gate -> dy * np.maximum(x, 0)"),
    bug("backward_inplace", "the backward writes into dy", "Call backward twice.", "return dx -> in_place(np.multiply, dy, gate); return dx"),
])  # fmt: skip
