"""Layer normalisation, wrong in every way that is known."""

from types import SimpleNamespace

import numpy as np

from .bug import Bug, in_place

BUGS = [
    Bug("axis", "statistics are taken over the tokens, not over a token's features", "Does one token change with its neighbour?"),
    Bug("all_axes", "statistics are taken over everything", "Does one token change with its neighbour?"),
    Bug("ddof1", "the variance is divided by d - 1", "Is the mean of x_hat² exactly 1?"),
    Bug("naive_var", "the variance is E[x²] - mean²", "Add 10,000 to the input in float32.", noisy=True),
    Bug("eps_outside", "eps is added to the standard deviation", "Compare on inputs of size 1e-3."),
    Bug("eps_squared", "eps² is added to the variance", "Compare on inputs of size 1e-3."),
    Bug("no_eps", "eps is missing", "Feed a constant row."),
    Bug("eps_large", "eps is always 1e-2", "Output variance below 1? Look at eps."),
    Bug("eps_1e-3", "eps is always 1e-3", "Is the argument eps used?"),
    Bug("eps_fixed", "eps is always 1e-5", "Is the argument eps used?"),
    Bug("eps_1e-6", "eps is always 1e-6", "Is the argument eps used?"),
    Bug("eps_1e-8", "eps is always 1e-8", "Is the argument eps used?"),
    Bug("eps_1e-12", "eps is always 1e-12", "Is the argument eps used?"),
    Bug("eps_maximum", "the variance is raised to eps where it is smaller, instead of eps being added", "Feed a row of variance 1e-3."),
    Bug("gamma_plus1", "the gain is 1 + γ", "γ = 1 should mean no scaling."),
    Bug("gamma_ignored", "γ is not used", "Double γ: does the output?"),
    Bug("beta_ignored", "β is not added", "Compute the output of a constant token."),
    Bug("beta_subtracted", "β is subtracted", "Compute the output of a constant token."),
    Bug("beta_before_gamma", "β is added before the gain", "y = x_hat γ + β: which comes first?"),
    Bug("gamma_beta_swapped", "γ and β are exchanged", "Compute the output of a constant token."),
    Bug("no_mean_subtraction", "it scales without subtracting the mean: RMSNorm", "Is the mean of the output 0?"),
    Bug("mean_kept_in_output", "the variance is of the centred values, but the mean is not subtracted", "Is the mean of the output 0?"),
    Bug("var_uncentred", "values are centred, but scaled by the mean square of the uncentred ones", "Is the mean of x_hat² 1?"),
    Bug("std_absolute", "the scale is the mean absolute deviation", "Is the mean of x_hat² 1?"),
    Bug("variance_not_root", "it divides by the variance, not by its root", "Scale x by 4: does the output change?"),
    Bug("norm_not_rms", "it divides by the norm, not by the root mean square", "Is the mean of x_hat² 1?"),
    Bug("median", "the median is subtracted, not the mean", "Is the mean of the output 0?"),
    Bug("rstd_is_std", "rstd is returned as the standard deviation", "Does your rstd grow or shrink as a token grows?"),
    Bug("x_hat_is_y", "the y with gain and shift is returned as x_hat", "What does backward need: before or after γ?"),
    Bug("changes_input", "it writes into x", "Print x before and after."),
    Bug("double_out", "the result is always float64", "Print y.dtype for float32 inputs."),
    Bug("gamma_missing", "γ is missing in dx", "What does dy pass first on its way back?"),
    Bug("gamma_outside", "γ multiplies dx after the projection", "Try γ = (-1, 1, 3): does dx still sum to 0?"),
    Bug("no_mean", "the mean of g is not subtracted in dx", "Shifting x changes nothing, so dx must sum to 0."),
    Bug("no_xhat", "the part along x_hat is not subtracted in dx", "Scaling x changes nothing, so dx·x_hat must be ~0."),
    Bug("only_direct", "dx is only γ dy rstd: mean and variance are taken as constants", "Which three things move with x?"),
    Bug("sum_not_mean", "sums stand where means belong in dx", "By what does a mean differ from a sum?"),
    Bug("xhat_sign", "the part along x_hat is added in dx", "Scaling x changes nothing, so dx·x_hat must be ~0."),
    Bug("r_missing", "rstd is missing in dx", "Double x: dx should halve."),
    Bug("r_inverted", "dx is divided by rstd", "Double x: dx should halve."),
    Bug("mean_of_dy", "the mean of dy is subtracted, not the mean of g = dy γ", "What does dy pass first on its way back?"),
    Bug("xhat_mean_of_dy", "the part along x_hat is taken from dy, not from g = dy γ", "What does dy pass first on its way back?"),
    Bug("dgamma_lastbatch", "dγ is that of the last batch entry", "γ is used by every token of every batch.", also=("dgamma_last_token",)),
    Bug("dbeta_lastbatch", "dβ is that of the last batch entry", "β is used by every token of every batch.", also=("dbeta_last_token",)),
    Bug("dgamma_x", "dγ sums dy, without x_hat", "γ multiplies x_hat."),
    Bug("centred_for_x_hat", "the backward uses x - mean in place of x_hat", "Double x: does the subtracted part double, too?",
        also=("dx_of_centred", "dgamma_of_centred")),
    Bug("dgamma_y", "dγ sums dy · y, with the gain in it", "γ multiplies x_hat."),
    Bug("dgamma_mean", "dγ is averaged over tokens", "A shared parameter sums its gradients."),
    Bug("dbeta_mean", "dβ is averaged over tokens", "A shared parameter sums its gradients."),
    Bug("dgamma_batch", "dγ keeps the leading axes", "Gradient shape must equal parameter shape.",
        also=("dgamma_each_token", "dgamma_first_axis")),
    Bug("dbeta_batch", "dβ keeps the leading axes", "Gradient shape must equal parameter shape.",
        also=("dbeta_each_token", "dbeta_first_axis")),
    Bug("dbeta_gamma", "dβ is multiplied by γ", "β is added after the gain."),
    Bug("dgamma_dbeta_swapped", "dγ and dβ are exchanged", "γ multiplies, β is added."),
    Bug("backward_inplace", "the backward writes into dy", "Call backward twice."),
    Bug("backward_changes_x_hat", "the backward writes into the saved x_hat", "Call backward twice."),
]  # fmt: skip
_FIXED = {"eps_large": 1e-2, "eps_1e-3": 1e-3, "eps_fixed": 1e-5, "eps_1e-6": 1e-6, "eps_1e-8": 1e-8, "eps_1e-12": 1e-12}


def make(bugs=frozenset()):
    """-> layer_norm and layer_norm_backward with these bugs."""

    def layer_norm(x, gamma, beta, eps=1e-5):
        dtype = x.dtype
        axis = None if "all_axes" in bugs else -2 if "axis" in bugs and x.ndim > 1 else -1
        eps = next((value for name, value in _FIXED.items() if name in bugs), 0.0 if "no_eps" in bugs else float(eps))
        how = {"axis": axis, "keepdims": True}
        mean = np.mean(x, **how)
        centred = x - mean
        variance = np.mean(centred * centred, **how)
        variance = variance * dtype.type(x.shape[-1] / max(x.shape[-1] - 1, 1)) if "ddof1" in bugs else variance
        variance = np.mean(x * x, **how) - mean * mean if "naive_var" in bugs else variance
        variance = np.mean(x * x, **how) if {"no_mean_subtraction", "var_uncentred"} & bugs else variance
        variance = variance * dtype.type(x.shape[-1]) if "norm_not_rms" in bugs else variance
        centred = x if {"no_mean_subtraction", "mean_kept_in_output"} & bugs else centred
        centred = x - np.median(x, axis=-1, keepdims=True) if "median" in bugs else centred
        if "eps_outside" in bugs:
            rstd = 1 / (np.sqrt(variance) + dtype.type(eps))
        elif "eps_maximum" in bugs:
            rstd = 1 / np.sqrt(np.maximum(variance, dtype.type(eps)))
        elif "variance_not_root" in bugs:
            rstd = 1 / (variance + dtype.type(eps))
        elif "std_absolute" in bugs:
            rstd = 1 / (np.mean(np.abs(centred), **how) + dtype.type(eps))
        else:
            rstd = 1 / np.sqrt(variance + dtype.type(eps * eps if "eps_squared" in bugs else eps))
        x_hat = centred * rstd
        gain, shift = (beta, gamma) if "gamma_beta_swapped" in bugs else (gamma, beta)
        gain = gain + 1 if "gamma_plus1" in bugs else gain
        gain = np.ones_like(gain) if "gamma_ignored" in bugs else gain
        shift = np.zeros_like(shift) if "beta_ignored" in bugs else shift
        shift = -shift if "beta_subtracted" in bugs else shift
        y = (x_hat + shift) * gain if "beta_before_gamma" in bugs else x_hat * gain + shift
        in_place(np.subtract, x, mean, "changes_input" in bugs)
        y = y.astype(float) if "double_out" in bugs else y
        rstd = np.broadcast_to(rstd, (*x.shape[:-1], 1)).copy() if rstd.shape[-1] == 1 else rstd
        return y, y if "x_hat_is_y" in bugs else x_hat, 1 / rstd if "rstd_is_std" in bugs else rstd

    def layer_norm_backward(dy, x_hat, rstd, gamma):
        g = dy if {"gamma_missing", "gamma_outside"} & bugs else dy * gamma
        saved, centred = x_hat, x_hat / rstd
        x_hat = centred if {"centred_for_x_hat", "dx_of_centred"} & bugs else x_hat
        reduce = np.sum if "sum_not_mean" in bugs else np.mean
        mean = reduce(dy if "mean_of_dy" in bugs else g, axis=-1, keepdims=True)
        along = reduce((dy if "xhat_mean_of_dy" in bugs else g) * x_hat, axis=-1, keepdims=True)
        along = -along if "xhat_sign" in bugs else along
        mean = 0 * mean if {"no_mean", "only_direct"} & bugs else mean
        along = 0 * along if {"no_xhat", "only_direct"} & bugs else along
        dx = g - mean - x_hat * along
        dx = dx * gamma if "gamma_outside" in bugs else dx
        x_hat = centred if {"centred_for_x_hat", "dgamma_of_centred"} & bugs else saved
        if "r_missing" not in bugs:
            dx = dx / rstd if "r_inverted" in bugs else dx * rstd
        tokens = dy.reshape(-1, dy.shape[-1])
        hats = x_hat.reshape(-1, dy.shape[-1])
        last = slice(None)
        if dy.ndim > 1 and len(dy):
            last = slice(len(tokens) - len(tokens) // len(dy), None)
        only_gamma = last if "dgamma_lastbatch" in bugs else slice(-1, None) if "dgamma_last_token" in bugs else slice(None)
        only_beta = last if "dbeta_lastbatch" in bugs else slice(-1, None) if "dbeta_last_token" in bugs else slice(None)
        per_token = tokens if "dgamma_x" in bugs else tokens * hats * (gamma if "dgamma_y" in bugs else 1)
        dgamma = np.sum(per_token[only_gamma], axis=0)
        dbeta = np.sum(tokens[only_beta] * (gamma if "dbeta_gamma" in bugs else 1), axis=0)
        count = dy.dtype.type(max(len(tokens), 1))
        dgamma = dgamma / count if "dgamma_mean" in bugs else dgamma
        dbeta = dbeta / count if "dbeta_mean" in bugs else dbeta
        dgamma = np.sum(dy * x_hat, axis=-2) if "dgamma_batch" in bugs and dy.ndim > 2 else dgamma
        dbeta = np.sum(dy, axis=-2) if "dbeta_batch" in bugs and dy.ndim > 2 else dbeta
        dgamma = dy * x_hat if "dgamma_each_token" in bugs else dgamma
        dbeta = dy.copy() if "dbeta_each_token" in bugs else dbeta
        dgamma = np.sum(dy * x_hat, axis=0) if "dgamma_first_axis" in bugs and dy.ndim > 1 else dgamma
        dbeta = np.sum(dy, axis=0) if "dbeta_first_axis" in bugs and dy.ndim > 1 else dbeta
        dgamma, dbeta = (dbeta, dgamma) if "dgamma_dbeta_swapped" in bugs else (dgamma, dbeta)
        in_place(np.multiply, dy, gamma, "backward_inplace" in bugs)
        in_place(np.multiply, saved, 0.5, "backward_changes_x_hat" in bugs)
        return dx, dgamma, dbeta

    return SimpleNamespace(layer_norm=layer_norm, layer_norm_backward=layer_norm_backward)
