"""Dropout, and its known bugs."""

import numpy as np

from .bug import bug, in_place, planted


def dropout(x, keep, rate):
    if keep is None:
        return x.copy()
    factor = x.dtype.type(1 / (1 - rate))
    y = x * keep * factor
    return y


def dropout_backward(dy, keep, rate):
    if keep is None:
        return dy.copy()
    scale = dy.dtype.type(1 / (1 - rate))
    dx = dy * keep * scale
    return dx


def keep_mask(rng, shape, rate):
    kept = rng.random(shape) >= rate
    return kept


_MEAN, _Y, _COPY = "Compare the mean before and after.", "y = x * keep * factor -> y = x * {} * factor", "return x.copy() -> return {}"
_FACTOR, _DYDX = "x.dtype.type(1 / (1 - rate)) -> x.dtype.type({})", "y = x · keep / (1 - rate): compute dy/dx."
_DX, _KEPT = "dx = dy * keep * scale -> dx = {}", "rng.random(shape) >= rate -> {}"

BUGS, make = planted(__name__, [
    bug("active_in_eval", "it scales by 1 / (1 - rate) without a mask", "Predict without a mask: is it x?", _COPY.format("x / x.dtype.type(1 - rate)")),
    bug("eval_scale_too", "it multiplies by 1 - rate without a mask", "Inverted dropout already scaled at training.", _COPY.format("x * x.dtype.type(1 - rate)")),
    bug("eval_zero", "it returns zeros without a mask", "Predict without a mask: is it x?", _COPY.format("0 * x")),
    bug("p_is_keep", "kept entries are divided by the rate", "Does the rate count dropped or kept entries?", _FACTOR.format("1 / rate if rate else 1")),
    bug("no_rescale", "kept entries are not divided by 1 - rate", _MEAN, _FACTOR.format("1")),
    bug("rescale_times", "kept entries are multiplied by 1 - rate", _MEAN, _FACTOR.format("1 - rate")),
    bug("rescale_wrong_sign", "kept entries are divided by 1 + rate", _MEAN, _FACTOR.format("1 / (1 + rate)")),
    bug("rescale_root", "kept entries are divided by √(1 - rate)", "The mean, or the variance: which is kept?", _FACTOR.format("(1 - rate) ** -0.5")),
    bug("rescale_by_count", "kept entries are divided by the kept fraction of this mask", "One mask, one factor: whose?", _FACTOR.format("1 / np.mean(keep) if np.any(keep) else 1 / (1 - rate)")),
    bug("scale_everything", "all entries are scaled and none is dropped", "Is anything left where keep is False?", _Y.format("np.ones_like(keep)")),
    bug("keep_inverted", "keep is read the wrong way round", "Which truth value means kept?", _Y.format("~keep")),
    bug("fresh_mask_forward", "it draws another mask", "Is the argument keep used?", _Y.format("(np.random.default_rng().random(x.shape) >= rate)"), noisy=True),
    bug("changes_input", "it writes into x", "Print x before and after.", "return y -> in_place(np.multiply, x, factor); return y"),
    bug("double_out", "the result is always float64", "Print y.dtype for float32 inputs.", "return y -> return y.astype(float)"),
    bug("keep_mask_p_is_keep", "keep_mask keeps the rate, and drops the rest", "What fraction is False for a rate of 0.3?", _KEPT.format("rng.random(shape) < rate")),
    bug("shared_batch", "keep_mask draws one mask for the batch", "Compare two examples.", _KEPT.format("np.broadcast_to(rng.random(shape[-1:]) >= rate, shape).copy()"),
        {"shared_first_axis": _KEPT.format("np.broadcast_to(rng.random(shape[1:]) >= rate, shape).copy()")}),
    bug("shared_columns", "keep_mask draws one value a row", "Compare two entries of one row.", _KEPT.format("np.broadcast_to(rng.random((*shape[:-1], 1)) >= rate, shape).copy()")),
    bug("fixed_seed", "keep_mask ignores its generator", "Compare the masks of two steps.", "kept = -> rng = np.random.default_rng(0); kept ="),
    bug("mask_not_boolean", "keep_mask returns numbers", "Print the mask's dtype.", "return kept -> return kept.astype(np.float32)"),
    bug("exact_count", "keep_mask drops exactly the rate of every row", "Entries are independent: can a row have none dropped?",
        _KEPT.format("np.argsort(rng.random(shape), axis=-1) >= round(rate * shape[-1])")),
    bug("backward_no_rescale", "the gradient is not divided by 1 - rate", _DYDX, _DX.format("dy * keep")),
    bug("backward_rescale_twice", "the gradient is divided by 1 - rate twice", _DYDX, _DX.format("dy * keep * (scale * scale)")),
    bug("backward_fresh_mask", "the backward draws another mask", "Gradient flows through kept entries.", _DX.format("dy * (np.random.default_rng().random(dy.shape) >= rate) * scale"), noisy=True),
    bug("backward_no_mask", "the gradient passes everywhere, scaled", "A dropped entry cannot receive gradient.", _DX.format("dy * scale")),
    bug("backward_identity", "the gradient passes unchanged", _DYDX, _DX.format("dy.copy()")),
    bug("backward_inverted", "the gradient passes through what was dropped", "Which truth value means kept?", _DX.format("dy * ~keep * scale")),
    bug("backward_eval", "the gradient is scaled without a mask", "y = x: compute dy/dx.", "return dy.copy() -> return dy / dy.dtype.type(1 - rate)"),
    bug("backward_inplace", "the backward writes into dy", "Call backward twice.", "return dx -> in_place(np.multiply, dy, keep); return dx"),
])  # fmt: skip
