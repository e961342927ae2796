"""Softmax, and its known bugs."""

import numpy as np

from .bug import bug, in_place, planted


def softmax(s, mask=None):
    axis = -1
    allowed = np.broadcast_to(True if mask is None else mask, s.shape)
    logits = np.where(allowed, s, -np.inf)
    top = np.max(logits, axis=axis, keepdims=True, initial=-np.inf)
    top = np.where(top == -np.inf, 0, top)
    p = np.exp(logits - top)
    total = np.sum(p, axis=axis, keepdims=True)
    p = p / np.where(total == 0, 1, total)
    return p.astype(s.dtype)


def softmax_backward(dp, p):
    inner = dp * p
    row = np.sum(inner, axis=-1, keepdims=True)
    return p * (dp - row)


_FILL = "np.where(allowed, s, -np.inf) -> np.where(allowed, s, s.dtype.type({}))"
_LAST = "return p.astype -> {}; return p.astype"
_SUM = "np.sum(inner, axis=-1, keepdims=True) -> {}"

BUGS, make = planted(__name__, [
    bug("axis", "it normalises over the second last axis", "For each row the weights should sum to 1: along which axis?", "axis = -1 -> axis = -2 if s.ndim > 1 else -1"),
    bug("flat", "it normalises over the whole matrix", "Each row is a distribution.", "axis = -1 -> axis = (-2, -1) if s.ndim > 1 else -1",
        {"flat_array": "axis = -1 -> axis = tuple(range(s.ndim))"}),
    bug("no_max", "the row's maximum is not subtracted: exp overflows", "Try logits of 1000.", "logits - top -> logits",
        {"no_max_unguarded": "logits - top -> logits && np.where(total == 0, 1, total) -> total"}),
    bug("global_max", "one maximum for all rows: lower rows underflow", "One row is 900 lower than another: compute exp.", "np.max(logits, axis=axis, keepdims=True, -> np.max(logits,"),
    bug("mask_inverted", "the mask is read the wrong way round", "Which truth value means 'may look'?", "is None else mask -> is None else ~mask", permitted=True),
    bug("mask_after", "the mask is applied after normalising", "Sum a row of weights after your mask.", "np.where(allowed, s, -np.inf) -> s && " + _LAST.format("p = p * allowed")),
    bug("fill_-1e9", "masked logits are finite, not -inf", "Compute softmax of equal numbers, however negative.", _FILL.format("-1e9"), permitted=True),
    bug("fill_-1e4", "masked logits are set to -10,000, not to -inf", "How big must a real logit be to compete with -1e4?", _FILL.format("-1e4"), permitted=True),
    bug("fill_-100", "masked logits are set to -100, not to -inf", "How big must a real logit be to compete with -100?", _FILL.format("-100.0")),
    bug("fill_-30", "masked logits are set to -30, not to -inf", "How big must a real logit be to compete with -30?", _FILL.format("-30.0")),
    bug("fill_min", "masked logits are set to the smallest float: an empty row is uniform", "Compute softmax of equal numbers, however negative.",
        _FILL.format("np.finfo(s.dtype).min"), permitted=True),
    bug("add_-1e9", "-1e9 is added to masked logits", "Softmax forgets constants: what remains of -1e9 on a whole row?",
        "np.where(allowed, s, -np.inf) -> s + np.where(allowed, 0, s.dtype.type(-1e9))", permitted=True),
    bug("fill_zeroed", "masked logits are filled with -1e9 and then zeroed: the fill can still be the largest of the row",
        "Which maximum is subtracted if all allowed logits lie below the fill?", _FILL.format("-1e9") + " && " + _LAST.format("p = p * allowed")),
    bug("mult_mask", "logits are multiplied by the mask", "A logit of 0 is not probability 0.", "np.where(allowed, s, -np.inf) -> s * allowed"),
    bug("fill_0", "masked logits are set to 0", "A logit of 0 is not probability 0.", _FILL.format("0.0")),
    bug("fill_tiny", "masked logits are set to a tiny number", "A logit of 1e-9 is a logit of 0, and not probability 0.", _FILL.format("1e-9")),
    bug("nan_row", "a row with nothing allowed gives NaN", "-inf minus -inf is what?",
        "np.where(top == -np.inf, 0, top) -> top && np.where(total == 0, 1, total) -> total", permitted=True),
    bug("empty_uniform", "a row with nothing allowed is uniform", "May a query with nothing allowed look everywhere?",
        _LAST.format("p = np.where(np.any(allowed, axis=-1, keepdims=True), p, 1 / max(s.shape[-1], 1))"), permitted=True),
    bug("mask_ignored", "the mask is not used", "Forbid an entry: what happens to its weight?", "np.broadcast_to(True if mask is None else mask, s.shape) -> np.ones(s.shape, bool)"),
    bug("no_normalise", "the exponentials are not divided by their sum", "Sum a row of your weights.", "p / np.where(total == 0, 1, total) -> p"),
    bug("eps_in_sum", "a small number is added to the denominator", "Do the weights sum to 1, to 15 digits?", "np.sum(p, axis=axis, keepdims=True) -> np.sum(p, axis=axis, keepdims=True) + 1e-6"),
    bug("log_softmax", "it returns the logarithm of the weights", "Can a weight be negative?", _LAST.format("p = np.log(np.where(p > 0, p, 1))")),
    bug("base_2", "it takes powers of 2 instead of e", "softmax([0, 1])[1] is 0.731...", "np.exp(logits - top) -> 2.0 ** (logits - top)"),
    bug("changes_input", "it writes into its input", "Print your logits before and after.", _LAST.format("in_place(np.subtract, s, np.max(s, axis=-1, keepdims=True, initial=0))")),
    bug("double_out", "the result is always float64", "Print p.dtype for float32 logits.", "astype(s.dtype) -> astype(float)"),
    bug("backward_diag", "the gradient is p (1 - p) dp", "p (1 - p) is only the diagonal of the Jacobian.", "p * (dp - row) -> inner * (1 - p)"),
    bug("backward_no_sum", "the row sum of dp · p is not subtracted", "Logits of a row compete: do your rows of ds sum to 0?", "(dp - row) -> dp"),
    bug("backward_sum_axis", "the sum of dp · p runs over the wrong axis", "The normaliser was per row.", _SUM.format("np.sum(inner, axis=-2 if p.ndim > 1 else -1, keepdims=True)")),
    bug("backward_of_p", "sum(dp) is subtracted instead of sum(dp · p)", "By which weight does each dp enter its row's sum?", _SUM.format("np.sum(dp, axis=-1, keepdims=True)")),
    bug("backward_sum_flat", "one sum over the whole matrix is subtracted", "The normaliser was per row.", _SUM.format("np.sum(inner, axis=(-2, -1) if p.ndim > 1 else -1, keepdims=True)")),
    bug("backward_mean", "the mean of dp · p is subtracted instead of the sum", "Write out the quotient rule for one row.",
        _SUM.format("np.sum(inner, axis=-1, keepdims=True) / max(p.shape[-1], 1)")),
    bug("backward_div_batch", "the gradient is divided by the length of the first axis", "Stack the same logits twice: should each copy's gradient change?",
        "inner = dp * p -> dp = dp / dp.dtype.type(max(len(p), 1) if p.ndim > 1 else 1); inner = dp * p",
        {"backward_div_rows": "inner = dp * p -> dp = dp / dp.dtype.type(max(p[..., 0].size, 1)); inner = dp * p"}),
    bug("backward_sign", "the row sum is added, not subtracted", "Do your rows of ds sum to 0?", "dp - row -> dp + row"),
    bug("backward_no_p", "dp minus its row sum is not multiplied by p", "A weight of 0 passes no gradient on: does yours?", "p * (dp - row) -> dp - row"),
    bug("backward_inplace", "the backward writes into dp", "Call backward twice.", "return p * (dp - row) -> ds = p * (dp - row); in_place(np.subtract, dp, row); return ds"),
])  # fmt: skip
