"""Softmax, wrong in every way that is known."""

from types import SimpleNamespace

import numpy as np

from .bug import Bug, in_place

BUGS = [
    Bug("axis", "it normalises over the second last axis", "For each row the weights should sum to 1: along which axis?"),
    Bug("flat", "it normalises over the whole matrix", "Each row is a distribution.", also=("flat_array",)),
    Bug("no_max", "the row's maximum is not subtracted: exp overflows", "Try logits of 1000.", also=("no_max_unguarded",)),
    Bug("global_max", "one maximum for all rows: lower rows underflow", "One row is 900 lower than another: compute exp."),
    Bug("mask_inverted", "the mask is read the wrong way round", "Which truth value means 'may look'?", permitted=True),
    Bug("mask_after", "the mask is applied after normalising", "Sum a row of weights after your mask."),
    Bug("fill_-1e9", "masked logits are finite, not -inf", "Compute softmax of equal numbers, however negative.", permitted=True),
    Bug("fill_-1e4", "masked logits are set to -10,000, not to -inf", "How big must a real logit be to compete with -1e4?", permitted=True),
    Bug("fill_-100", "masked logits are set to -100, not to -inf", "How big must a real logit be to compete with -100?"),
    Bug("fill_-30", "masked logits are set to -30, not to -inf", "How big must a real logit be to compete with -30?"),
    Bug("fill_min", "masked logits are set to the smallest float: an empty row is uniform",
        "Compute softmax of equal numbers, however negative.", permitted=True),
    Bug("add_-1e9", "-1e9 is added to masked logits", "Softmax forgets constants: what remains of -1e9 on a whole row?", permitted=True),
    Bug("fill_zeroed", "masked logits are filled with -1e9 and then zeroed: the fill can still be the largest of the row",
        "Which maximum is subtracted if all allowed logits lie below the fill?"),
    Bug("mult_mask", "logits are multiplied by the mask", "A logit of 0 is not probability 0."),
    Bug("fill_0", "masked logits are set to 0", "A logit of 0 is not probability 0."),
    Bug("fill_tiny", "masked logits are set to a tiny number", "A logit of 1e-9 is a logit of 0, and not probability 0."),
    Bug("nan_row", "a row with nothing allowed gives NaN", "-inf minus -inf is what?", permitted=True),
    Bug("empty_uniform", "a row with nothing allowed is uniform", "May a query with nothing allowed look everywhere?", permitted=True),
    Bug("mask_ignored", "the mask is not used", "Forbid an entry: what happens to its weight?"),
    Bug("no_normalise", "the exponentials are not divided by their sum", "Sum a row of your weights."),
    Bug("eps_in_sum", "a small number is added to the denominator", "Do the weights sum to 1, to 15 digits?"),
    Bug("log_softmax", "it returns the logarithm of the weights", "Can a weight be negative?"),
    Bug("base_2", "it takes powers of 2 instead of e", "softmax([0, 1])[1] is 0.731..."),
    Bug("changes_input", "it writes into its input", "Print your logits before and after."),
    Bug("double_out", "the result is always float64", "Print p.dtype for float32 logits."),
    Bug("backward_diag", "the gradient is p (1 - p) dp", "p (1 - p) is only the diagonal of the Jacobian."),
    Bug("backward_no_sum", "the row sum of dp · p is not subtracted", "Logits of a row compete: do your rows of ds sum to 0?"),
    Bug("backward_sum_axis", "the sum of dp · p runs over the wrong axis", "The normaliser was per row."),
    Bug("backward_of_p", "sum(dp) is subtracted instead of sum(dp · p)", "By which weight does each dp enter its row's sum?"),
    Bug("backward_sum_flat", "one sum over the whole matrix is subtracted", "The normaliser was per row."),
    Bug("backward_mean", "the mean of dp · p is subtracted instead of the sum", "Write out the quotient rule for one row."),
    Bug("backward_div_batch", "the gradient is divided by the length of the first axis",
        "Stack the same logits twice: should each copy's gradient change?", also=("backward_div_rows",)),
    Bug("backward_sign", "the row sum is added, not subtracted", "Do your rows of ds sum to 0?"),
    Bug("backward_no_p", "dp minus its row sum is not multiplied by p", "A weight of 0 passes no gradient on: does yours?"),
    Bug("backward_inplace", "the backward writes into dp", "Call backward twice."),
]  # fmt: skip


def make(bugs=frozenset()):
    """-> softmax and softmax_backward with these bugs."""
    fills = {"fill_-1e9": -1e9, "fill_-1e4": -1e4, "fill_-100": -100.0, "fill_-30": -30.0, "fill_0": 0.0, "fill_tiny": 1e-9,
             "fill_zeroed": -1e9}  # fmt: skip

    def softmax(s, mask=None):
        dtype = s.dtype
        given = s
        allowed = np.broadcast_to(True if mask is None else mask, s.shape)
        allowed = ~allowed if "mask_inverted" in bugs and mask is not None else allowed
        allowed = np.ones(s.shape, bool) if "mask_ignored" in bugs else allowed
        if "mask_after" in bugs:
            late, allowed = allowed, np.ones(s.shape, bool)
        fill = next((value for name, value in fills.items() if name in bugs), None)
        if "mult_mask" in bugs:
            s = s * allowed
        elif "add_-1e9" in bugs:
            s = s + np.where(allowed, 0, dtype.type(-1e9))
        elif "fill_min" in bugs:
            s = np.where(allowed, s, np.finfo(dtype).min)
        elif fill is not None:
            s = np.where(allowed, s, dtype.type(fill))
        else:
            s = np.where(allowed, s, -np.inf)
        axis = -2 if "axis" in bugs and s.ndim > 1 else -1
        if "flat" in bugs and s.ndim > 1:
            axis = (-2, -1)
        axis = tuple(range(s.ndim)) if "flat_array" in bugs else axis
        top = np.max(s, axis=axis, keepdims=True, initial=-np.inf)
        top = np.max(s, initial=-np.inf) if "global_max" in bugs else top
        top = np.where(top == -np.inf, 0, top) if "nan_row" not in bugs else top
        top = np.zeros_like(top) if {"no_max", "no_max_unguarded"} & bugs else top
        p = (2.0 if "base_2" in bugs else np.e) ** (s - top) if "base_2" in bugs else np.exp(s - top)
        total = np.sum(p, axis=axis, keepdims=True)
        total = total + 1e-6 if "eps_in_sum" in bugs else total
        if "no_normalise" not in bugs:
            empty = np.zeros_like(total, bool) if {"nan_row", "no_max_unguarded"} & bugs else total == 0
            p = p / np.where(empty, 1, total)
        if "empty_uniform" in bugs:
            p = np.where(np.any(allowed, axis=-1, keepdims=True), p, 1 / max(s.shape[-1], 1))
        p = p * late if "mask_after" in bugs else p
        p = p * allowed if "fill_zeroed" in bugs else p
        p = np.log(np.where(p > 0, p, 1)) if "log_softmax" in bugs else p
        in_place(np.subtract, given, np.max(given, axis=-1, keepdims=True, initial=0), "changes_input" in bugs)
        return p.astype(float if "double_out" in bugs else dtype)

    def softmax_backward(dp, p):
        dp = dp / dp.dtype.type(max(len(p), 1)) if "backward_div_batch" in bugs and p.ndim > 1 else dp
        dp = dp / dp.dtype.type(max(p[..., 0].size, 1)) if "backward_div_rows" in bugs else dp
        inner = dp * p
        axis = -2 if "backward_sum_axis" in bugs and p.ndim > 1 else -1
        if "backward_sum_flat" in bugs and p.ndim > 1:
            axis = (-2, -1)
        total = np.sum(dp if "backward_of_p" in bugs else inner, axis=axis, keepdims=True)
        total = total / max(p.shape[-1], 1) if "backward_mean" in bugs else total
        total = np.zeros_like(total) if "backward_no_sum" in bugs else total
        total = -total if "backward_sign" in bugs else total
        if "backward_diag" in bugs:
            return inner * (1 - p)
        if "backward_no_p" in bugs:
            return dp - total
        if "backward_inplace" in bugs and dp.flags.writeable:
            dp -= total
            return dp * p
        return p * (dp - total)

    return SimpleNamespace(softmax=softmax, softmax_backward=softmax_backward)
