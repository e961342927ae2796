"""The ReLU, wrong in every way that is known."""

from types import SimpleNamespace

import numpy as np

from .bug import Bug, in_place

BUGS = [
    Bug("leaky", "negative numbers leak through", "Compute relu(-100)."),
    Bug("abs", "it is the absolute value", "Compute relu(-2)."),
    Bug("clip_6", "it is cut at 6", "Compute relu(10)."),
    Bug("minimum", "it keeps the negative half", "max or min?"),
    Bug("threshold_1", "it opens at 1, not at 0", "Compute relu(0.5)."),
    Bug("softplus", "it is softplus", "Is there a kink at 0?"),
    Bug("elu", "negative numbers become exp(x) - 1", "Compute relu(-100)."),
    Bug("changes_input", "it writes into x", "Print x before and after."),
    Bug("double_out", "the result is always float64", "Print y.dtype for float32 inputs."),
    Bug("mask_from_dy", "the gradient passes where dy > 0", "The sign of what decides?"),
    Bug("mask_from_both", "the gradient passes where both x and dy are positive", "Does the sign of dy matter?"),
    Bug("mask_from_abs", "the gradient passes where x is not 0", "Compute the slope at -2."),
    Bug("mask_at_zero", "the gradient passes at x = 0", "x > 0 or x >= 0?", permitted=True),
    Bug("mask_inverted", "the gradient passes where x < 0", "Compute the slope at +2."),
    Bug("threshold_1_backward", "the gradient passes where x > 1", "Compute the slope at 0.5."),
    Bug("leaky_backward", "negative numbers let a little gradient through", "Compute the slope at -2."),
    Bug("ones", "the gradient is dy itself", "Which entries did the forward let through?"),
    Bug("no_dy", "the gradient is the slope and forgets dy", "The chain rule multiplies."),
    Bug("times_y", "the gradient is dy · relu(x)", "Is the slope at +2 1 or 2?"),
    Bug("backward_inplace", "the backward writes into dy", "Call backward twice."),
]  # fmt: skip


def make(bugs=frozenset()):
    """-> relu and relu_backward with these bugs."""

    def relu(x):
        y = np.maximum(x, 0)
        y = np.where(x > 0, x, x.dtype.type(0.01) * x) if "leaky" in bugs else y
        y = np.abs(x) if "abs" in bugs else y
        y = np.minimum(y, 6) if "clip_6" in bugs else y
        y = np.minimum(x, 0) if "minimum" in bugs else y
        y = np.where(x > 1, x, 0).astype(x.dtype) if "threshold_1" in bugs else y
        y = np.logaddexp(x, x.dtype.type(0)) if "softplus" in bugs else y
        y = np.where(x > 0, x, np.expm1(np.minimum(x, 0))) if "elu" in bugs else y
        in_place(np.multiply, x, x > 0, "changes_input" in bugs)
        return y.astype(float) if "double_out" in bugs else y

    def relu_backward(dy, x):
        gate = x > 0
        gate = dy > 0 if "mask_from_dy" in bugs else gate
        gate = (x > 0) & (dy > 0) if "mask_from_both" in bugs else gate
        gate = x != 0 if "mask_from_abs" in bugs else gate
        gate = x >= 0 if "mask_at_zero" in bugs else gate
        gate = x < 0 if "mask_inverted" in bugs else gate
        gate = x > 1 if "threshold_1_backward" in bugs else gate
        gate = np.ones(x.shape, bool) if "ones" in bugs else gate
        dx = dy * gate
        dx = np.where(x > 0, dy, dy.dtype.type(0.01) * dy) if "leaky_backward" in bugs else dx
        dx = gate.astype(dy.dtype) if "no_dy" in bugs else dx
        dx = dy * np.maximum(x, 0) if "times_y" in bugs else dx
        in_place(np.multiply, dy, gate, "backward_inplace" in bugs)
        return dx

    return SimpleNamespace(relu=relu, relu_backward=relu_backward)
