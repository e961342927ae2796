"""Layer normalisation, and its known bugs."""

import numpy as np

from .bug import bug, count, in_place, planted, rows


def layer_norm(x, gamma, beta, eps=1e-5):
    axis, d = -1, x.shape[-1]
    mean = np.mean(x, axis=axis, keepdims=True)
    centred = x - mean
    variance = np.mean(centred * centred, axis=axis, keepdims=True)
    rstd = 1 / np.sqrt(variance + x.dtype.type(eps))
    x_hat = centred * rstd
    scaled = x_hat * gamma
    y = scaled + beta
    rstd = np.broadcast_to(rstd, (*x.shape[:-1], 1)).copy() if rstd.shape[-1] == 1 else rstd
    return y, x_hat, rstd


def layer_norm_backward(dy, x_hat, rstd, gamma):
    g = dy * gamma
    mean = np.mean(g, axis=-1, keepdims=True)
    along = np.mean(g * x_hat, axis=-1, keepdims=True)
    dx = g - mean - x_hat * along
    dx = dx * rstd
    each = dy * x_hat
    dgamma = np.sum(rows(each), axis=0)
    dbeta = np.sum(rows(dy), axis=0)
    return dx, dgamma, dbeta


_SHIFTED, _SCALED = "Shifting x changes nothing, so dx must sum to 0.", "Scaling x changes nothing, so dx·x_hat must be ~0."
_NEIGHBOUR, _FIRST, _CONSTANT = "Does one token change with its neighbour?", "What does dy pass first on its way back?", "Compute the output of a constant token."
_USED, _SHARED, _SHAPE = "Is the argument eps used?", "A shared parameter sums its gradients.", "Gradient shape must equal parameter shape."
_EPS, _RSTD, _Y = "x.dtype.type(eps) -> x.dtype.type({})", "1 / np.sqrt(variance + x.dtype.type(eps)) -> 1 / {}", "scaled + beta -> {}"
_DX, _DGAMMA, _DBETA = "g - mean - x_hat * along -> {}", "np.sum(rows(each), axis=0) -> {}", "np.sum(rows(dy), axis=0) -> {}"
_VARIANCE, _OUT, _G, _END = "rstd = 1 / -> variance = variance * x.dtype.type({}); rstd = 1 /", "return y, x_hat, rstd -> return {}", "g = dy * gamma -> {}; g = dy * gamma", "return dx, -> {}; return dx,"

BUGS, make = planted(__name__, [
    bug("axis", "statistics are taken over the tokens, not over a token's features", _NEIGHBOUR, "axis, d = -1 -> axis, d = -2 if x.ndim > 1 else -1"),
    bug("all_axes", "statistics are taken over everything", _NEIGHBOUR, "axis, d = -1 -> axis, d = None"),
    bug("ddof1", "the variance is divided by d - 1", "Is the mean of x_hat² exactly 1?", _VARIANCE.format("d / max(d - 1, 1)")),
    bug("naive_var", "the variance is E[x²] - mean²", "Add 10,000 to the input in float32.",
        "np.mean(centred * centred, axis=axis, keepdims=True) -> np.mean(x * x, axis=axis, keepdims=True) - mean * mean", noisy=True),
    bug("eps_outside", "eps is added to the standard deviation", "Compare on inputs of size 1e-3.", _RSTD.format("(np.sqrt(variance) + x.dtype.type(eps))")),
    bug("eps_squared", "eps² is added to the variance", "Compare on inputs of size 1e-3.", _EPS.format("eps * eps")),
    bug("no_eps", "eps is missing", "Feed a constant row.", _EPS.format("0.0")),
    bug("eps_large", "eps is always 1e-2", "Output variance below 1? Look at eps.", _EPS.format("1e-2")),
    bug("eps_1e-3", "eps is always 1e-3", _USED, _EPS.format("1e-3")),
    bug("eps_fixed", "eps is always 1e-5", _USED, _EPS.format("1e-5")),
    bug("eps_1e-6", "eps is always 1e-6", _USED, _EPS.format("1e-6")),
    bug("eps_1e-8", "eps is always 1e-8", _USED, _EPS.format("1e-8")),
    bug("eps_1e-12", "eps is always 1e-12", _USED, _EPS.format("1e-12")),
    bug("eps_maximum", "the variance is raised to eps where it is smaller, instead of eps being added", "Feed a row of variance 1e-3.", _RSTD.format("np.sqrt(np.maximum(variance, x.dtype.type(eps)))")),
    bug("gamma_plus1", "the gain is 1 + γ", "γ = 1 should mean no scaling.", "scaled = x_hat * gamma -> scaled = x_hat * (gamma + 1)"),
    bug("gamma_ignored", "γ is not used", "Double γ: does the output?", "scaled = x_hat * gamma -> scaled = x_hat"),
    bug("beta_ignored", "β is not added", _CONSTANT, _Y.format("scaled")),
    bug("beta_subtracted", "β is subtracted", _CONSTANT, _Y.format("scaled - beta")),
    bug("beta_before_gamma", "β is added before the gain", "y = x_hat γ + β: which comes first?", _Y.format("(x_hat + beta) * gamma")),
    bug("gamma_beta_swapped", "γ and β are exchanged", _CONSTANT, _Y.format("x_hat * beta + gamma")),
    bug("no_mean_subtraction", "it scales without subtracting the mean: RMSNorm", "Is the mean of the output 0?", "centred = x - mean -> centred = x"),
    bug("mean_kept_in_output", "the variance is of the centred values, but the mean is not subtracted", "Is the mean of the output 0?", "x_hat = centred * rstd -> x_hat = x * rstd"),
    bug("var_uncentred", "values are centred, but scaled by the mean square of the uncentred ones", "Is the mean of x_hat² 1?", "np.mean(centred * centred -> np.mean(x * x"),
    bug("std_absolute", "the scale is the mean absolute deviation", "Is the mean of x_hat² 1?", _RSTD.format("(np.mean(np.abs(centred), axis=axis, keepdims=True) + x.dtype.type(eps))")),
    bug("variance_not_root", "it divides by the variance, not by its root", "Scale x by 4: does the output change?", _RSTD.format("(variance + x.dtype.type(eps))")),
    bug("norm_not_rms", "it divides by the norm, not by the root mean square", "Is the mean of x_hat² 1?", _VARIANCE.format("d")),
    bug("median", "the median is subtracted, not the mean", "Is the mean of the output 0?", "x_hat = centred * rstd -> x_hat = (x - np.median(x, axis=-1, keepdims=True)) * rstd"),
    bug("rstd_is_std", "rstd is returned as the standard deviation", "Does your rstd grow or shrink as a token grows?", _OUT.format("y, x_hat, 1 / rstd")),
    bug("x_hat_is_y", "the y with gain and shift is returned as x_hat", "What does backward need: before or after γ?", _OUT.format("y, y, rstd")),
    bug("changes_input", "it writes into x", "Print x before and after.", "return y, -> in_place(np.subtract, x, mean); return y,"),
    bug("double_out", "the result is always float64", "Print y.dtype for float32 inputs.", _OUT.format("y.astype(float), x_hat, rstd")),
    bug("gamma_missing", "γ is missing in dx", _FIRST, "g = dy * gamma -> g = dy"),
    bug("gamma_outside", "γ multiplies dx after the projection", "Try γ = (-1, 1, 3): does dx still sum to 0?", "g = dy * gamma -> g = dy && " + "dx = dx * rstd -> dx = dx * gamma * rstd"),
    bug("no_mean", "the mean of g is not subtracted in dx", _SHIFTED, _DX.format("g - x_hat * along")),
    bug("no_xhat", "the part along x_hat is not subtracted in dx", _SCALED, _DX.format("g - mean")),
    bug("only_direct", "dx is only γ dy rstd: mean and variance are taken as constants", "Which three things move with x?", _DX.format("g")),
    bug("sum_not_mean", "sums stand where means belong in dx", "By what does a mean differ from a sum?", "np.mean(g, -> np.sum(g, && np.mean(g * x_hat -> np.sum(g * x_hat"),
    bug("xhat_sign", "the part along x_hat is added in dx", _SCALED, _DX.format("g - mean + x_hat * along")),
    bug("r_missing", "rstd is missing in dx", "Double x: dx should halve.", "dx = dx * rstd -> pass"),
    bug("r_inverted", "dx is divided by rstd", "Double x: dx should halve.", "dx = dx * rstd -> dx = dx / rstd"),
    bug("mean_of_dy", "the mean of dy is subtracted, not the mean of g = dy γ", _FIRST, "np.mean(g, -> np.mean(dy,"),
    bug("xhat_mean_of_dy", "the part along x_hat is taken from dy, not from g = dy γ", _FIRST, "np.mean(g * x_hat -> np.mean(dy * x_hat"),
    bug("dgamma_lastbatch", "dγ is that of the last batch entry", "γ is used by every token of every batch.", _DGAMMA.format("np.sum(rows(each[-1:] if dy.ndim > 1 else each), axis=0)"),
        {"dgamma_last_token": _DGAMMA.format("np.sum(rows(each)[-1:], axis=0)")}),
    bug("dbeta_lastbatch", "dβ is that of the last batch entry", "β is used by every token of every batch.", _DBETA.format("np.sum(rows(dy[-1:] if dy.ndim > 1 else dy), axis=0)"),
        {"dbeta_last_token": _DBETA.format("np.sum(rows(dy)[-1:], axis=0)")}),
    bug("dgamma_x", "dγ sums dy, without x_hat", "γ multiplies x_hat.", "each = dy * x_hat -> each = dy"),
    bug("centred_for_x_hat", "the backward uses x - mean in place of x_hat", "Double x: does the subtracted part double, too?", _G.format("x_hat = x_hat / rstd"),
        {"dx_of_centred": _G.format("saved, x_hat = x_hat, x_hat / rstd") + " && each = dy * x_hat -> each = dy * saved", "dgamma_of_centred": "each = dy * x_hat -> each = dy * (x_hat / rstd)"}),
    bug("dgamma_y", "dγ sums dy · y, with the gain in it", "γ multiplies x_hat.", "each = dy * x_hat -> each = dy * x_hat * gamma"),
    bug("dgamma_mean", "dγ is averaged over tokens", _SHARED, _END.format("dgamma = dgamma / count(dy)")),
    bug("dbeta_mean", "dβ is averaged over tokens", _SHARED, _END.format("dbeta = dbeta / count(dy)")),
    bug("dgamma_batch", "dγ keeps the leading axes", _SHAPE, _DGAMMA.format("np.sum(each, axis=-2) if dy.ndim > 2 else np.sum(rows(each), axis=0)"),
        {"dgamma_each_token": _DGAMMA.format("each"), "dgamma_first_axis": _DGAMMA.format("np.sum(each, axis=0) if dy.ndim > 1 else each")}),
    bug("dbeta_batch", "dβ keeps the leading axes", _SHAPE, _DBETA.format("np.sum(dy, axis=-2) if dy.ndim > 2 else np.sum(rows(dy), axis=0)"),
        {"dbeta_each_token": _DBETA.format("dy.copy()"), "dbeta_first_axis": _DBETA.format("np.sum(dy, axis=0) if dy.ndim > 1 else dy.copy()")}),
    bug("dbeta_gamma", "dβ is multiplied by γ", "β is added after the gain.", _DBETA.format("np.sum(rows(dy) * gamma, axis=0)")),
    bug("dgamma_dbeta_swapped", "dγ and dβ are exchanged", "γ multiplies, β is added.", "return dx, dgamma, dbeta -> return dx, dbeta, dgamma"),
    bug("backward_inplace", "the backward writes into dy", "Call backward twice.", _END.format("in_place(np.multiply, dy, gamma)")),
    bug("backward_changes_x_hat", "the backward writes into the saved x_hat", "Call backward twice.", _END.format("in_place(np.multiply, x_hat, 0.5)")),
])  # fmt: skip
