"""The linear map, wrong in every way that is known."""

from types import SimpleNamespace

import numpy as np

from .bug import Bug, in_place

BUGS = [
    Bug("W_transposed", "W is used transposed", "y_o sums over inputs i: along which axis of W?"),
    Bug("no_bias", "b is not added", "Compute the image of x = 0."),
    Bug("bias_axis", "b is added along the tokens", "Every token gets the same b."),
    Bug("bias_first_row", "b is added to the first token only", "Every token gets the same b."),
    Bug("bias_first_entry", "b[0] is added everywhere", "Each output has a different bias."),
    Bug("bias_subtracted", "b is subtracted", "y = x W + b."),
    Bug("bias_twice", "b is added twice", "Compute the image of x = 0."),
    Bug("single_in_double", "it always computes in float32", "How many digits agree in float64?", noisy=True),
    Bug("double_out", "the result is always float64", "Print y.dtype for float32 inputs."),
    Bug("changes_input", "it writes into x", "Print x before and after."),
    Bug("changes_bias", "it writes into b", "Print b before and after."),
    Bug("dW_last", "dW is that of the last batch entry", "Every example used W.", also=("dW_last_of_first", "dW_last_token", "dW_last_matrix")),
    Bug("dW_first", "dW is that of the first batch entry", "Every example used W."),
    Bug("dW_mean", "dW is averaged over tokens", "A shared parameter sums its gradients."),
    Bug("dW_div_batch", "dW is divided by the batch size", "Does the loss divide by it?", also=("dW_db_div_batch",)),
    Bug("dW_transposed", "dW is transposed", "dW_io = Σ x_i dy_o: which index comes first?"),
    Bug("dW_batch", "dW keeps the batch axis", "Gradient shape must equal parameter shape.", also=("dW_each_token",)),
    Bug("db_mean", "db is averaged over tokens", "A shared parameter sums its gradients."),
    Bug("db_batch", "db keeps the batch axis", "Compare db's shape with b's.", also=("db_each_token", "db_first_axis")),
    Bug("db_last", "db is that of the last batch entry", "Every token used b.", also=("db_last_of_first", "db_last_token", "db_last_matrix")),
    Bug("db_first", "db is that of the first batch entry", "Every token used b.", also=("db_first_token",)),
    Bug("db_of_x", "db sums x instead of dy where the sizes agree", "y = x W + b: compute ∂y/∂b."),
    Bug("db_ones", "db counts tokens and forgets dy", "Every term of a gradient has dy in it once."),
    Bug("dx_noT", "dx multiplies by W untransposed", "dx_i sums over outputs o: along which axis of W?"),
    Bug("dx_sign", "dx has the wrong sign", "Move x a little: which way does the loss move?"),
    Bug("backward_inplace", "the backward writes into dy", "Call backward twice."),
]  # fmt: skip


def make(bugs=frozenset()):
    """-> linear and linear_backward with these bugs."""

    def linear(x, W, b=None):
        dtype = x.dtype
        square = W.shape[0] == W.shape[1]
        y = x @ (W.T if "W_transposed" in bugs and square else W)
        y = (x.astype(np.float32) @ W.astype(np.float32)).astype(dtype) if "single_in_double" in bugs else y
        if b is not None and "no_bias" not in bugs:
            if "bias_axis" in bugs and y.ndim > 1 and y.shape[-2] == len(b):
                y = y + b[:, None]
            elif "bias_first_row" in bugs and y.ndim > 1:
                y = y + np.where(np.arange(y.shape[-2])[:, None] == 0, b, 0).astype(dtype)
            elif "bias_first_entry" in bugs:
                y = y + b[0]
            else:
                y = y + b * (-1 if "bias_subtracted" in bugs else 2 if "bias_twice" in bugs else 1)
            in_place(np.add, b, 1, "changes_bias" in bugs)
        in_place(np.multiply, x, 2, "changes_input" in bugs)
        return y.astype(float) if "double_out" in bugs else y

    def linear_backward(dy, x, W):
        X, D = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
        count = max(len(X), 1)
        square = W.shape[0] == W.shape[1]
        dx = dy @ (W if "dx_noT" in bugs and square else W.T) * (-1 if "dx_sign" in bugs else 1)
        used, given = X, D
        used, given = (X[-1:], D[-1:]) if "dW_last_token" in bugs else (used, given)
        if "dW_last" in bugs and x.ndim > 2 and len(x):
            used, given = x[-1].reshape(-1, x.shape[-1]), dy[-1].reshape(-1, dy.shape[-1])
        if "dW_last_of_first" in bugs and x.ndim > 1 and len(x):
            used, given = x[-1].reshape(-1, x.shape[-1]), dy[-1].reshape(-1, dy.shape[-1])
        if "dW_last_matrix" in bugs and x.ndim > 1 and x.size:
            used, given = (a.reshape(-1, *a.shape[-2:])[-1] for a in (x, dy))
        if "dW_first" in bugs and x.ndim > 2 and len(x):
            used, given = x[0].reshape(-1, x.shape[-1]), dy[0].reshape(-1, dy.shape[-1])
        dW = used.T @ given
        dW = dW / dW.dtype.type(count) if "dW_mean" in bugs else dW
        batch = dy.dtype.type(max(len(x), 1) if x.ndim > 1 else 1)
        dW = dW / batch if {"dW_div_batch", "dW_db_div_batch"} & bugs else dW
        dW = dW.T.copy() if "dW_transposed" in bugs else dW
        dW = np.swapaxes(x, -1, -2) @ dy if "dW_batch" in bugs and x.ndim > 2 else dW
        db = np.sum(D, axis=0)
        db = db / db.dtype.type(count) if "db_mean" in bugs else db
        db = np.sum(dy, axis=-2) if "db_batch" in bugs and dy.ndim > 2 else db
        db = db / batch if "dW_db_div_batch" in bugs else db
        dW = x[..., :, None] * dy[..., None, :] if "dW_each_token" in bugs else dW
        db = dy.copy() if "db_each_token" in bugs else db
        db = np.sum(dy, axis=0) if "db_first_axis" in bugs and dy.ndim > 1 else db
        if "db_last_of_first" in bugs and dy.ndim > 1 and len(dy):
            db = np.sum(dy[-1].reshape(-1, dy.shape[-1]), axis=0)
        if "db_last_matrix" in bugs and dy.ndim > 1 and dy.size:
            db = np.sum(dy.reshape(-1, *dy.shape[-2:])[-1], axis=0)
        for name, i in (("db_last", -1), ("db_first", 0)):
            db = np.sum(dy[i].reshape(-1, dy.shape[-1]), axis=0) if name in bugs and dy.ndim > 2 and len(dy) else db
            db = D[i].copy() if f"{name}_token" in bugs and len(D) else db
        db = np.sum(X, axis=0) if "db_of_x" in bugs and square else db
        db = np.full_like(db, len(D)) if "db_ones" in bugs else db
        in_place(np.multiply, dy, 2, "backward_inplace" in bugs)
        return dx, dW, db

    return SimpleNamespace(linear=linear, linear_backward=linear_backward)
