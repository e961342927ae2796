"""The feed-forward network, and its known bugs."""

import numpy as np

from ...ops import gelu as gelu  # for changes below
from .bug import bug, count, entry, in_place, planted, rows


def feed_forward(x, W_1, b_1, W_2, b_2):
    u = x @ W_1 + b_1
    h = np.maximum(u, 0)
    y = h @ W_2 + b_2
    return y


def feed_forward_backward(dy, x, W_1, b_1, W_2, b_2):
    hidden = x @ W_1 + b_1
    on = np.maximum(hidden, 0)
    dh = dy @ W_2.T
    du = dh * (hidden > 0)
    dx = du @ W_1.T
    dW_1, dW_2 = rows(x).T @ rows(du), rows(on).T @ rows(dy)
    db_1, db_2 = np.sum(rows(du), axis=0), np.sum(rows(dy), axis=0)
    return dx, dW_1, db_1, dW_2, db_2


_TWICE, _NEGATIVE = "Double x and all biases: does the output double?", "What does a negative hidden unit pass on?"
_OFF, _SHARED = "Compute the output where all hidden units are off.", "A shared parameter sums its gradients."
_H, _Y, _GATE, _END = "h = np.maximum(u, 0) -> h = {}", "y = h @ W_2 + b_2 -> y = {}", "dh * (hidden > 0) -> dh * ({})", "return dx, -> {}; return dx,"

BUGS, make = planted(__name__, [
    bug("no_activation", "the ReLU is missing: two linear maps in a row are one", _NEGATIVE, _H.format("u")),
    bug("gelu_instead", "the activation is GELU", _TWICE, _H.format("gelu(u)"), {"gelu_tanh": _H.format("gelu(u, approximate=True)")}),
    bug("leaky", "the activation leaks", _NEGATIVE, _H.format("np.where(u > 0, u, u.dtype.type(0.01) * u)")),
    bug("sigmoid", "the activation is a sigmoid", _TWICE, _H.format("1 / (1 + np.exp(-u))")),
    bug("tanh", "the activation is tanh", _TWICE, _H.format("np.tanh(u)")),
    bug("abs", "the activation is the absolute value", _NEGATIVE, _H.format("np.abs(u)")),
    bug("relu_squared", "the activation is squared", _TWICE, _H.format("np.maximum(u, 0) ** 2")),
    bug("activation_after", "a second ReLU follows at the end", "Can an output be negative?", _Y.format("np.maximum(h @ W_2 + b_2, 0)")),
    bug("across_positions", "the mean over the tokens is added", "Does a token see its neighbour?",
        "return y -> return y + np.mean(y, axis=-2, keepdims=True) if y.ndim > 1 and y.shape[-2] else y"),
    bug("no_b1", "b_1 is not added", "Compute the output of x = 0.", "u = x @ W_1 + b_1 -> u = x @ W_1"),
    bug("no_b2", "b_2 is not added", _OFF, _Y.format("h @ W_2")),
    bug("b1_after_relu", "b_1 is added after the ReLU", "Which sign does a hidden unit with b_1 = -100 have?", "u = x @ W_1 + b_1 -> u = x @ W_1 && " + _H.format("np.maximum(u, 0) + b_1")),
    bug("b2_twice", "b_2 is added twice", _OFF, _Y.format("h @ W_2 + 2 * b_2")),
    bug("residual", "x is added", "Set W_2 and b_2 to 0: is anything left?", "return y -> return y + x"),
    bug("changes_input", "it writes into x", "Print x before and after.", "return y -> in_place(np.multiply, x, 0.5); return y"),
    bug("no_relu_mask", "the gradient passes hidden units that were off", "Which units did the forward let through?", _GATE.format("np.ones(hidden.shape, bool)")),
    bug("mask_from_output", "the gate is the sign of something else than the hidden unit: the gradient, or the output", "The sign of what decides?", _GATE.format("dh > 0"),
        {"gate_of_output": _GATE.format("(on @ W_2 + b_2 if on.shape == dy.shape else hidden) > 0")}),
    bug("mask_without_b1", "the gate forgets b_1", "The sign of x W_1, or of x W_1 + b_1?", _GATE.format("x @ W_1 > 0")),
    bug("dW1_ungated", "dW_1 and db_1 use the gradient before the gate", "What reached the first layer?", "rows(du) -> rows(dh)"),
    bug("dW2_from_u", "dW_2 uses the hidden units before the ReLU", "What did W_2 multiply?", "rows(on) -> rows(hidden)"),
    bug("db_mean", "db_1 and db_2 are averaged over tokens", _SHARED, _END.format("db_1, db_2 = db_1 / count(dy), db_2 / count(dy)")),
    bug("db2_mean", "db_2 is averaged over tokens", _SHARED, _END.format("db_2 = db_2 / count(dy)")),
    bug("dW_last_batch", "dW_1 and dW_2 are those of the last batch entry", "Every example used W.",
        "rows(x).T @ rows(du), rows(on).T @ rows(dy) -> rows(entry(x, -1, 2)).T @ rows(entry(du, -1, 2)), rows(entry(on, -1, 2)).T @ rows(entry(dy, -1, 2))"),
    bug("db1_is_db2", "db_1 sums dy where the sizes agree", "Which gradient reached the first layer?", _END.format("db_1 = db_2.copy() if db_1.shape == db_2.shape else db_1")),
    bug("dx_noT", "dx multiplies by W_1 untransposed", "dx_i sums over hidden units: along which axis of W_1?", "du @ W_1.T -> du @ (W_1 if W_1.shape[0] == W_1.shape[1] else W_1.T)"),
    bug("dx_missing_W2", "dx skips W_2 where the sizes agree", "Which way does the gradient come?", "dh = dy @ W_2.T -> dh = dy if W_2.shape[0] == W_2.shape[1] else dy @ W_2.T"),
])  # fmt: skip
