"""The linear map, and its known bugs."""

import numpy as np

from .bug import bug, count, entry, in_place, matrices, planted, rows


def linear(x, W, b=None):
    y = x @ W
    y = y if b is None else y + b
    return y


def linear_backward(dy, x, W):
    dx = dy @ W.T
    dW = rows(x).T @ rows(dy)
    db = np.sum(rows(dy), axis=0)
    return dx, dW, db


def _batch(x):
    return x.dtype.type(max(len(x), 1) if x.ndim > 1 else 1)


def _last_matrix(x):
    return matrices(x)[-1] if x.ndim > 1 and x.size else x


_EVERY, _SHARED, _WRITES = "Every token gets the same b.", "A shared parameter sums its gradients.", "return y -> if {0} is not None: in_place({1})\n    return y"
_XW, _B, _DW, _DB = "y = x @ W -> y = {}", "else y + b -> else y {}", "dW = rows(x).T @ rows(dy) -> dW = {}", "db = np.sum(rows(dy), axis=0) -> db = {}"
_DX, _PART, _SUM = "dx = dy @ W.T -> dx = {}", _DW.format("rows({0}(x{1})).T @ rows({0}(dy{1}))"), _DB.format("np.sum(rows({}(dy{})), axis=0)")

BUGS, make = planted(__name__, [
    bug("W_transposed", "W is used transposed", "y_o sums over inputs i: along which axis of W?", _XW.format("x @ (W.T if W.shape[0] == W.shape[1] else W)")),
    bug("no_bias", "b is not added", "Compute the image of x = 0.", _B.format("")),
    bug("bias_axis", "b is added along the tokens", _EVERY, _B.format("+ (b[:, None] if y.ndim > 1 and y.shape[-2] == len(b) else b)")),
    bug("bias_first_row", "b is added to the first token only", _EVERY, _B.format("+ (np.where(np.arange(y.shape[-2])[:, None] == 0, b, 0).astype(x.dtype) if y.ndim > 1 else b)")),
    bug("bias_first_entry", "b[0] is added everywhere", "Each output has a different bias.", _B.format("+ b[0]")),
    bug("bias_subtracted", "b is subtracted", "y = x W + b.", _B.format("- b")),
    bug("bias_twice", "b is added twice", "Compute the image of x = 0.", _B.format("+ b * 2")),
    bug("single_in_double", "it always computes in float32", "How many digits agree in float64?", _XW.format("(x.astype(np.float32) @ W.astype(np.float32)).astype(x.dtype)"), noisy=True),
    bug("double_out", "the result is always float64", "Print y.dtype for float32 inputs.", "return y -> return y.astype(float)"),
    bug("changes_input", "it writes into x", "Print x before and after.", _WRITES.format("x", "np.multiply, x, 2")),
    bug("changes_bias", "it writes into b", "Print b before and after.", _WRITES.format("b", "np.add, b, 1")),
    bug("dW_last", "dW is that of the last batch entry", "Every example used W.", _PART.format("entry", ", -1, 2"),
        {"dW_last_of_first": _PART.format("entry", ", -1, 1"), "dW_last_token": _DW.format("rows(x)[-1:].T @ rows(dy)[-1:]"), "dW_last_matrix": _PART.format("_last_matrix", "")}),
    bug("dW_first", "dW is that of the first batch entry", "Every example used W.", _PART.format("entry", ", 0, 2")),
    bug("dW_mean", "dW is averaged over tokens", _SHARED, _DW.format("rows(x).T @ rows(dy) / count(x)")),
    bug("dW_div_batch", "dW is divided by the batch size", "Does the loss divide by it?", _DW.format("rows(x).T @ rows(dy) / _batch(x)"),
        {"dW_db_div_batch": _DW.format("rows(x).T @ rows(dy) / _batch(x)") + " && " + _DB.format("np.sum(rows(dy), axis=0) / _batch(x)")}),
    bug("dW_transposed", "dW is transposed", "dW_io = Σ x_i dy_o: which index comes first?", _DW.format("(rows(x).T @ rows(dy)).T.copy()")),
    bug("dW_batch", "dW keeps the batch axis", "Gradient shape must equal parameter shape.", _DW.format("np.swapaxes(x, -1, -2) @ dy if x.ndim > 2 else rows(x).T @ rows(dy)"),
        {"dW_each_token": _DW.format("x[..., :, None] * dy[..., None, :]")}),
    bug("db_mean", "db is averaged over tokens", _SHARED, _DB.format("np.sum(rows(dy), axis=0) / count(x)")),
    bug("db_batch", "db keeps the batch axis", "Compare db's shape with b's.", _DB.format("np.sum(dy, axis=-2) if dy.ndim > 2 else np.sum(rows(dy), axis=0)"),
        {"db_each_token": _DB.format("dy.copy()"), "db_first_axis": _DB.format("np.sum(dy, axis=0) if dy.ndim > 1 else dy.copy()")}),
    bug("db_last", "db is that of the last batch entry", "Every token used b.", _SUM.format("entry", ", -1, 2"),
        {"db_last_of_first": _SUM.format("entry", ", -1, 1"), "db_last_token": _DB.format("np.sum(rows(dy)[-1:], axis=0)"), "db_last_matrix": _SUM.format("_last_matrix", "")}),
    bug("db_first", "db is that of the first batch entry", "Every token used b.", _SUM.format("entry", ", 0, 2"), {"db_first_token": _DB.format("np.sum(rows(dy)[:1], axis=0)")}),
    bug("db_of_x", "db sums x instead of dy where the sizes agree", "y = x W + b: compute ∂y/∂b.", _DB.format("np.sum(rows(x if W.shape[0] == W.shape[1] else dy), axis=0)")),
    bug("db_ones", "db counts tokens and forgets dy", "Every term of a gradient has dy in it once.", _DB.format("np.sum(np.ones_like(rows(dy)), axis=0)")),
    bug("dx_noT", "dx multiplies by W untransposed", "dx_i sums over outputs o: along which axis of W?", _DX.format("dy @ (W if W.shape[0] == W.shape[1] else W.T)")),
    bug("dx_sign", "dx has the wrong sign", "Move x a little: which way does the loss move?", _DX.format("-dy @ W.T")),
    bug("backward_inplace", "the backward writes into dy", "Call backward twice.", "return dx, -> in_place(np.multiply, dy, 2); return dx,"),
])  # fmt: skip
