"""The feed-forward network, wrong in every way that is known."""

from types import SimpleNamespace

import numpy as np

from ...ops import gelu
from .bug import Bug, in_place

BUGS = [
    Bug("no_activation", "the ReLU is missing: two linear maps in a row are one", "What does a negative hidden unit pass on?"),
    Bug("gelu_instead", "the activation is GELU", "Double x and all biases: does the output double?", also=("gelu_tanh",)),
    Bug("leaky", "the activation leaks", "What does a negative hidden unit pass on?"),
    Bug("sigmoid", "the activation is a sigmoid", "Double x and all biases: does the output double?"),
    Bug("tanh", "the activation is tanh", "Double x and all biases: does the output double?"),
    Bug("abs", "the activation is the absolute value", "What does a negative hidden unit pass on?"),
    Bug("relu_squared", "the activation is squared", "Double x and all biases: does the output double?"),
    Bug("activation_after", "a second ReLU follows at the end", "Can an output be negative?"),
    Bug("across_positions", "the mean over the tokens is added", "Does a token see its neighbour?"),
    Bug("no_b1", "b_1 is not added", "Compute the output of x = 0."),
    Bug("no_b2", "b_2 is not added", "Compute the output where all hidden units are off."),
    Bug("b1_after_relu", "b_1 is added after the ReLU", "Which sign does a hidden unit with b_1 = -100 have?"),
    Bug("b2_twice", "b_2 is added twice", "Compute the output where all hidden units are off."),
    Bug("residual", "x is added", "Set W_2 and b_2 to 0: is anything left?"),
    Bug("changes_input", "it writes into x", "Print x before and after."),
    Bug("no_relu_mask", "the gradient passes hidden units that were off", "Which units did the forward let through?"),
    Bug("mask_from_output", "the gate is the sign of something else than the hidden unit: the gradient, or the output",
        "The sign of what decides?", also=("gate_of_output",)),
    Bug("mask_without_b1", "the gate forgets b_1", "The sign of x W_1, or of x W_1 + b_1?"),
    Bug("dW1_ungated", "dW_1 and db_1 use the gradient before the gate", "What reached the first layer?"),
    Bug("dW2_from_u", "dW_2 uses the hidden units before the ReLU", "What did W_2 multiply?"),
    Bug("db_mean", "db_1 and db_2 are averaged over tokens", "A shared parameter sums its gradients."),
    Bug("db2_mean", "db_2 is averaged over tokens", "A shared parameter sums its gradients."),
    Bug("dW_last_batch", "dW_1 and dW_2 are those of the last batch entry", "Every example used W."),
    Bug("db1_is_db2", "db_1 sums dy where the sizes agree", "Which gradient reached the first layer?"),
    Bug("dx_noT", "dx multiplies by W_1 untransposed", "dx_i sums over hidden units: along which axis of W_1?"),
    Bug("dx_missing_W2", "dx skips W_2 where the sizes agree", "Which way does the gradient come?"),
]  # fmt: skip


def make(bugs=frozenset()):
    """-> feed_forward and feed_forward_backward with these bugs."""
    bends = {
        "no_activation": lambda u: u,
        "gelu_instead": gelu,
        "gelu_tanh": lambda u: gelu(u, approximate=True),
        "leaky": lambda u: np.where(u > 0, u, u.dtype.type(0.01) * u),
        "sigmoid": lambda u: 1 / (1 + np.exp(-u)),
        "tanh": np.tanh,
        "abs": np.abs,
        "relu_squared": lambda u: np.maximum(u, 0) ** 2,
    }

    def feed_forward(x, W_1, b_1, W_2, b_2):
        u = x @ W_1
        u = u + b_1 if not {"no_b1", "b1_after_relu"} & bugs else u
        bend = next((f for name, f in bends.items() if name in bugs), lambda u: np.maximum(u, 0))
        h = bend(u)
        h = h + b_1 if "b1_after_relu" in bugs else h
        y = h @ W_2
        y = y + (2 * b_2 if "b2_twice" in bugs else b_2) if "no_b2" not in bugs else y
        y = np.maximum(y, 0) if "activation_after" in bugs else y
        y = y + np.mean(y, axis=-2, keepdims=True) if "across_positions" in bugs and y.ndim > 1 and y.shape[-2] else y
        y = y + x if "residual" in bugs else y
        in_place(np.multiply, x, 0.5, "changes_input" in bugs)
        return y

    def feed_forward_backward(dy, x, W_1, b_1, W_2, b_2):
        u = x @ W_1 + b_1
        h = np.maximum(u, 0)
        dh = dy @ W_2.T
        dh = dy if "dx_missing_W2" in bugs and W_2.shape[0] == W_2.shape[1] else dh
        gate = u > 0
        gate = np.ones(u.shape, bool) if "no_relu_mask" in bugs else gate
        gate = dh > 0 if "mask_from_output" in bugs else gate
        gate = h @ W_2 + b_2 > 0 if "gate_of_output" in bugs and h.shape == dy.shape else gate
        gate = x @ W_1 > 0 if "mask_without_b1" in bugs else gate
        du = dh * gate
        dx = du @ (W_1 if "dx_noT" in bugs and W_1.shape[0] == W_1.shape[1] else W_1.T)
        first = dh if "dW1_ungated" in bugs else du

        def tokens(a):
            a = a[-1] if "dW_last_batch" in bugs and a.ndim > 2 and len(a) else a
            return a.reshape(-1, a.shape[-1])

        def total(a):
            a = a.reshape(-1, a.shape[-1])
            return np.sum(a, axis=0)

        count = dy.dtype.type(max(dy.size // max(dy.shape[-1], 1), 1))
        dW_1, dW_2 = tokens(x).T @ tokens(first), tokens(u if "dW2_from_u" in bugs else h).T @ tokens(dy)
        db_1, db_2 = total(first), total(dy)
        db_1 = db_2.copy() if "db1_is_db2" in bugs and db_1.shape == db_2.shape else db_1
        db_1 = db_1 / count if "db_mean" in bugs else db_1
        db_2 = db_2 / count if {"db_mean", "db2_mean"} & bugs else db_2
        return dx, dW_1, db_1, dW_2, db_2

    return SimpleNamespace(feed_forward=feed_forward, feed_forward_backward=feed_forward_backward)
