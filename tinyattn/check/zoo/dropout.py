"""Dropout, wrong in every way that is known."""

from types import SimpleNamespace

import numpy as np

from .bug import Bug, in_place

BUGS = [
    Bug("active_in_eval", "it scales by 1 / (1 - rate) without a mask", "Predict without a mask: is it x?"),
    Bug("eval_scale_too", "it multiplies by 1 - rate without a mask", "Inverted dropout already scaled at training."),
    Bug("eval_zero", "it returns zeros without a mask", "Predict without a mask: is it x?"),
    Bug("p_is_keep", "kept entries are divided by the rate", "Does the rate count dropped or kept entries?"),
    Bug("no_rescale", "kept entries are not divided by 1 - rate", "Compare the mean before and after."),
    Bug("rescale_times", "kept entries are multiplied by 1 - rate", "Compare the mean before and after."),
    Bug("rescale_wrong_sign", "kept entries are divided by 1 + rate", "Compare the mean before and after."),
    Bug("rescale_root", "kept entries are divided by √(1 - rate)", "The mean, or the variance: which is kept?"),
    Bug("rescale_by_count", "kept entries are divided by the kept fraction of this mask", "One mask, one factor: whose?"),
    Bug("scale_everything", "all entries are scaled and none is dropped", "Is anything left where keep is False?"),
    Bug("keep_inverted", "keep is read the wrong way round", "Which truth value means kept?"),
    Bug("fresh_mask_forward", "it draws another mask", "Is the argument keep used?", noisy=True),
    Bug("changes_input", "it writes into x", "Print x before and after."),
    Bug("double_out", "the result is always float64", "Print y.dtype for float32 inputs."),
    Bug("keep_mask_p_is_keep", "keep_mask keeps the rate, and drops the rest", "What fraction is False for a rate of 0.3?"),
    Bug("shared_batch", "keep_mask draws one mask for the batch", "Compare two examples.", also=("shared_first_axis",)),
    Bug("shared_columns", "keep_mask draws one value a row", "Compare two entries of one row."),
    Bug("fixed_seed", "keep_mask ignores its generator", "Compare the masks of two steps."),
    Bug("mask_not_boolean", "keep_mask returns numbers", "Print the mask's dtype."),
    Bug("exact_count", "keep_mask drops exactly the rate of every row", "Entries are independent: can a row have none dropped?"),
    Bug("backward_no_rescale", "the gradient is not divided by 1 - rate", "y = x · keep / (1 - rate): compute dy/dx."),
    Bug("backward_rescale_twice", "the gradient is divided by 1 - rate twice", "y = x · keep / (1 - rate): compute dy/dx."),
    Bug("backward_fresh_mask", "the backward draws another mask", "Gradient flows through kept entries.", noisy=True),
    Bug("backward_no_mask", "the gradient passes everywhere, scaled", "A dropped entry cannot receive gradient."),
    Bug("backward_identity", "the gradient passes unchanged", "y = x · keep / (1 - rate): compute dy/dx."),
    Bug("backward_inverted", "the gradient passes through what was dropped", "Which truth value means kept?"),
    Bug("backward_eval", "the gradient is scaled without a mask", "y = x: compute dy/dx."),
    Bug("backward_inplace", "the backward writes into dy", "Call backward twice."),
]  # fmt: skip


def make(bugs=frozenset()):
    """-> dropout, dropout_backward and keep_mask with these bugs."""

    def dropout(x, keep, rate):
        one = x.dtype.type(1)
        if keep is None:
            if "active_in_eval" in bugs:
                return x / x.dtype.type(1 - rate)
            if "eval_zero" in bugs:
                return 0 * x
            return x * x.dtype.type(1 - rate) if "eval_scale_too" in bugs else x.copy()
        factor = x.dtype.type(1 / (1 - rate))
        if "p_is_keep" in bugs:
            factor = x.dtype.type(1 / rate) if rate else one
        factor = one if "no_rescale" in bugs else factor
        factor = x.dtype.type(1 - rate) if "rescale_times" in bugs else factor
        factor = x.dtype.type(1 / (1 + rate)) if "rescale_wrong_sign" in bugs else factor
        factor = x.dtype.type((1 - rate) ** -0.5) if "rescale_root" in bugs else factor
        factor = x.dtype.type(1 / np.mean(keep)) if "rescale_by_count" in bugs and np.any(keep) else factor
        keep = ~keep if "keep_inverted" in bugs else keep
        keep = np.random.default_rng().random(x.shape) >= rate if "fresh_mask_forward" in bugs else keep
        keep = np.ones_like(keep) if "scale_everything" in bugs else keep
        y = x * keep * factor
        in_place(np.multiply, x, factor, "changes_input" in bugs)
        return y.astype(float) if "double_out" in bugs else y

    def dropout_backward(dy, keep, rate):
        if keep is None:
            return dy / dy.dtype.type(1 - rate) if "backward_eval" in bugs else dy.copy()
        factor = dy.dtype.type(1 / (1 - rate))
        if "backward_identity" in bugs:
            return dy.copy()
        factor = dy.dtype.type(1) if "backward_no_rescale" in bugs else factor
        factor = factor * factor if "backward_rescale_twice" in bugs else factor
        keep = np.random.default_rng().random(dy.shape) >= rate if "backward_fresh_mask" in bugs else keep
        keep = ~keep if "backward_inverted" in bugs else keep
        dx = dy * factor if "backward_no_mask" in bugs else dy * keep * factor
        in_place(np.multiply, dy, keep, "backward_inplace" in bugs)
        return dx

    def keep_mask(rng, shape, rate):
        rng = np.random.default_rng(0) if "fixed_seed" in bugs else rng
        if "keep_mask_p_is_keep" in bugs:
            return rng.random(shape) < rate
        if "shared_batch" in bugs:
            return np.broadcast_to(rng.random(shape[-1:]) >= rate, shape).copy()
        if "shared_first_axis" in bugs:
            return np.broadcast_to(rng.random(shape[1:]) >= rate, shape).copy()
        if "shared_columns" in bugs:
            return np.broadcast_to(rng.random((*shape[:-1], 1)) >= rate, shape).copy()
        if "exact_count" in bugs:
            order = np.argsort(rng.random(shape), axis=-1)
            return order >= round(rate * shape[-1])
        keep = rng.random(shape) >= rate
        return keep.astype(np.float32) if "mask_not_boolean" in bugs else keep

    return SimpleNamespace(dropout=dropout, dropout_backward=dropout_backward, keep_mask=keep_mask)
