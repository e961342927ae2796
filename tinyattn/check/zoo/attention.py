"""Attention, and its known bugs, some of them those of softmax."""

import math

import numpy as np

from . import softmax as wrong_softmax
from .bug import bug, in_place, planted
from .softmax import softmax, softmax_backward


def attention(q, k, v, mask=None, bias=None, keep=None, rate=0.0, scale=None):
    c = _scale(q, k, v, scale)
    s = (q @ np.swapaxes(k, -1, -2)) * c
    s = s if bias is None else s + bias
    weights = softmax(s, mask)
    used = _dropped(weights, keep, rate)
    out = used @ v
    return out, weights


def attention_backward(dout, q, k, v, weights, bias=None, keep=None, rate=0.0, scale=None):
    c = _scale(q, k, v, scale)
    kept = _dropped(weights, keep, rate)
    dv = np.swapaxes(kept, -1, -2) @ dout
    dp = dout @ np.swapaxes(v, -1, -2)
    dp = _dropped(dp, keep, rate)
    ds = softmax_backward(dp, weights)
    dbias = None if bias is None else _summed(ds, bias.shape, np.sum)
    dq = ds @ k * c
    dk = np.swapaxes(ds, -1, -2) @ q * c
    return dq, dk, dv, dbias


def _scale(q, k, v, scale):
    d = max(q.shape[-1], 1)
    return 1 / math.sqrt(d) if scale is None else float(scale)


def _dropped(x, keep, rate):
    return x if keep is None else x * keep / (1 - rate)


def _summed(g, shape, add):
    g = add(g, axis=tuple(range(g.ndim - len(shape))))
    axes = tuple(i for i, size in enumerate(shape) if size == 1 and g.shape[i] != 1)
    return add(g, axis=axes, keepdims=True) if axes else g


def _changed(change, mask, s):
    """The mask of all scores, changed by a function of it and of a column that is False."""
    if mask is None:
        return None
    mask = np.broadcast_to(mask, (*mask.shape[:-2], *s.shape[-2:]))
    return change(mask, np.zeros((*mask.shape[:-1], 1), bool))


def _of_length_1(x):
    return x / np.maximum(np.sqrt(np.sum(x * x, axis=-1, keepdims=True)), x.dtype.type(1e-12))


def _of_sum_1(x):
    total = np.sum(x, axis=-1, keepdims=True)
    return x / np.where(total == 0, 1, total)


_IN_SOFTMAX = {
    "mask_inverted": "mask_inverted", "mask_after_softmax": "mask_after", "fill_-1e9": "fill_-1e9", "fill_-1e4": "fill_-1e4",
    "fill_-100": "fill_-100", "fill_-30": "fill_-30", "fill_min": "fill_min", "add_-1e9": "add_-1e9", "fill_zeroed": "fill_zeroed",
    "mult_mask_logits": "mult_mask", "fill_0": "fill_0", "nan_row": "nan_row", "empty_uniform": "empty_uniform",
    "mask_ignored": "mask_ignored", "softmax_axis": "axis", "no_rowmax": "no_max", "no_rowmax_unguarded": "no_max_unguarded", "softmax_flat_array": "flat_array", "global_max": "global_max", "softmax_flat": "flat",
    "no_normalise": "no_normalise", "softmax_diag": "backward_diag", "rowsum_missing": "backward_no_sum",
    "rowsum_axis": "backward_sum_axis", "rowsum_of_dp": "backward_of_p",
}  # fmt: skip
_ALSO = {"no_rowmax": {"no_rowmax_unguarded": ""}, "softmax_flat": {"softmax_flat_array": ""}}
_KNOWN = {known.name: known for known in wrong_softmax.BUGS}
_ROOT, _NONE, _MASK = "1 / math.sqrt(d) if -> {} if", "1 / math.sqrt(d) if scale is None else float(scale) -> {}", "softmax(s, mask) -> softmax(s, _changed(lambda m, shut: {}, mask, s))"
_AVERAGE, _EITHER, _WHICH = "Average over many masks: do you get the undropped output?", "Both dq and dk pass the same constant.", "Which of the three is averaged?"
_S, _BIAS, _OUT, _END, _ENDS = "s = (q @ -> {}; s = (q @", "else s + bias -> else s {}", "out = used @ v -> {}", "return out, -> {}; return out,", "return dq, -> {}; return dq,"
_KEEP, _DP, _DBIAS = "x * keep / (1 - rate) -> {}", "_dropped(dp, keep, rate) -> {}", "_summed(ds, bias.shape, np.sum) -> {}"
_SQUARE = "ds.shape[-1] == ds.shape[-2]"

BUGS, make = planted(__name__, [
    bug("no_scale", "scores are not divided by √d", "Compute the variance of one score by hand for d = 64.", _ROOT.format("1.0")),
    bug("scale_d", "scores are divided by d, not by √d", "Variance is a square: which power of d undoes it?", _ROOT.format("1 / d")),
    bug("scale_mult", "scores are multiplied by √d", "Did you divide or multiply? Print the largest weight.", _ROOT.format("math.sqrt(d)")),
    bug("scale_of_v", "scores are divided by the root of the values' dimension", "Which vectors does the dot product run over?", "d = max(q.shape[-1], 1) -> d = max(v.shape[-1], 1)"),
    bug("scale_of_keys", "scores are divided by the root of the number of keys", "Does a score's variance depend on the number of keys?", "d = max(q.shape[-1], 1) -> d = max(k.shape[-2], 1)"),
    bug("scale_ignored", "the argument scale is not used", "Give scale=0 by name: are the weights uniform?", _NONE.format("1 / math.sqrt(d)")),
    bug("scale_np64", "a NumPy float64 scalar widens float32", "Print out.dtype: a NumPy scalar is a strong type.",
        _NONE.format("1 / np.sqrt(np.float64(d)) if scale is None else np.float64(scale)"), {"scale_np64_default": _ROOT.format("1 / np.sqrt(np.float64(d))")}),
    *(bug(name, _KNOWN[there].says, _KNOWN[there].hint, also=_ALSO.get(name), permitted=_KNOWN[there].permitted) for name, there in _IN_SOFTMAX.items() if there in _KNOWN),
    bug("off_by_one_mask", "the mask is shifted: a token cannot see itself", "Move v_i and watch out_i.", _MASK.format("np.concatenate([m[..., 1:], shut], axis=-1)")),
    bug("off_by_one_peek", "the mask lets a token see its successor", "Change the last token; which outputs moved?", _MASK.format("m | np.concatenate([shut, m[..., :-1]], axis=-1)")),
    bug("mask_transposed", "the mask is transposed", "mask[i, j] = may query i look at key j.", _MASK.format("np.swapaxes(m, -1, -2) if m.shape[-1] == m.shape[-2] else m")),
    bug("mask_first_row", "the mask's first row is used for all queries", "One row of permissions for all queries?", _MASK.format("m[..., :1, :]")),
    bug("bias_before_scale", "the bias is scaled with the scores", "The bias is added after scaling.", _BIAS.format("+ bias * s.dtype.type(c)")),
    bug("bias_ignored", "the bias is not used", "Add 5 to one entry of the bias: what happens to its weight?", _BIAS.format("")),
    bug("bias_subtracted", "the bias is subtracted", "Add 5 to one entry of the bias: does its weight grow?", _BIAS.format("- bias")),
    bug("bias_after_softmax", "the bias is added to the weights, after softmax", "Do the weights still sum to 1?", _BIAS.format("") + " && softmax(s, mask) -> softmax(s, mask) + (0 if bias is None else bias)"),
    bug("drop_renorm", "after dropout the weights are rescaled to sum 1", _AVERAGE, _KEEP.format("_of_sum_1(x * keep)")),
    bug("drop_no_rescale", "kept weights are not divided by 1 - rate", _AVERAGE, _KEEP.format("x * keep")),
    bug("drop_on_scores", "dropout is applied to the scores, before softmax", "A score of 0 is not a weight of 0.", "weights = softmax -> s, keep = _dropped(s, keep, rate), None; weights = softmax"),
    bug("drop_inverted", "keep is read the wrong way round", "Which truth value means kept?", _KEEP.format("x * ~keep / (1 - rate)")),
    bug("drop_ignored", "dropout is not applied", "Drop everything: is anything left?", _KEEP.format("x")),
    bug("drop_on_output", "all weights are divided by 1 - rate, and none is dropped", "What does keep=False do to its weight?", _KEEP.format("x / (1 - rate)")),
    bug("weights_after_dropout", "the weights returned are those after dropout", "Softmax's backward wants softmax's output.", "return out, weights -> return out, used"),
    bug("values_as_keys", "the values are weighted by themselves", _WHICH, "weights = softmax -> s = (q @ np.swapaxes(v, -1, -2)) * c if q.shape[-1] == v.shape[-1] else s; weights = softmax"),
    bug("keys_as_values", "the output mixes keys, not values", _WHICH, _OUT.format("out = used @ (k if k.shape == v.shape else v)")),
    bug("cosine", "queries and keys are normalised first", "Does doubling a query sharpen its weights?", _S.format("q, k = _of_length_1(q), _of_length_1(k)")),
    bug("changes_input", "it writes into the queries", "Print q before and after.", _END.format("in_place(np.multiply, q, c)")),
    bug("dv_undropped", "dv uses the weights before dropout", "Which weights actually multiplied V?", "kept = _dropped(weights, keep, rate) -> kept = weights"),
    bug("dv_noT", "dv multiplies by the weights untransposed", "out_i = Σ_j P_ij v_j: who contributes to dv_j?",
        "np.swapaxes(kept, -1, -2) -> (kept if kept.shape[-1] == kept.shape[-2] else np.swapaxes(kept, -1, -2))"),
    bug("drop_mask_missing", "the gradient of dropped weights is let through", "A dropped weight cannot receive gradient.", _DP.format("dp if keep is None else dp / (1 - rate)"), {"drop_backward_missing": _DP.format("dp")}),
    bug("drop_scale_missing", "the gradient is not divided by 1 - rate", "out was multiplied by 1 / (1 - rate): and its gradient?", _DP.format("dp if keep is None else dp * keep")),
    bug("rowsum_from_pd", "the row sum uses the dropped weights", "Softmax saw P; dropout came after.",
        "ds = softmax_backward(dp, weights) -> ds = weights * (dp - np.sum(dp * _dropped(weights, keep, rate), axis=-1, keepdims=True))"),
    bug("backward_no_scale", "neither dq nor dk is multiplied by the scale", "The constant multiplies forward, so also backward.", "ds @ k * c -> ds @ k && @ q * c -> @ q"),
    bug("no_scale_dk", "dk is not multiplied by the scale", _EITHER, "@ q * c -> @ q"),
    bug("no_scale_dq", "dq is not multiplied by the scale", _EITHER, "ds @ k * c -> ds @ k"),
    bug("backward_scale_twice", "the scale is applied twice in dq and dk", "How often did the constant multiply the scores?", "ds @ k * c -> ds @ k * (c * c) && @ q * c -> @ q * (c * c)"),
    bug("dk_noT", "dk multiplies by ds untransposed", "dk_j sums over queries i: along which axis of ds?", f"np.swapaxes(ds, -1, -2) -> (ds if {_SQUARE} else np.swapaxes(ds, -1, -2))"),
    bug("swap_qk", "dq and dk are exchanged", "Which of the two has a row for each query? With n = m no shape tells.", "return dq, dk, -> return dk, dq,"),
    bug("dk_is_dq", "dk is computed from the keys", "s_ij = q_i · k_j: what multiplies k_j?", f"@ q * c -> @ (k if {_SQUARE} else q) * c"),
    bug("dbias_batch", "dbias is not summed over what was broadcast", "Gradient shape must equal parameter shape.", _DBIAS.format("ds")),
    bug("dbias_scaled", "dbias is multiplied by the scale", "The bias was added after scaling.", _DBIAS.format("_summed(ds, bias.shape, np.sum) * ds.dtype.type(c)")),
    bug("dbias_missing", "dbias is zero", "Move one entry of the bias: does the loss move?", _DBIAS.format("_summed(ds, bias.shape, np.sum) * 0")),
    bug("dbias_mean", "dbias is averaged over what was broadcast", "A shared parameter sums its gradients.", _DBIAS.format("_summed(ds, bias.shape, np.mean)")),
    bug("dv_missing_batch", "every entry of the batch gets the dv of the first", "Is the batch axis lost somewhere?",
        _ENDS.format("dv = np.broadcast_to(dv[:1], dv.shape).copy() if dv.ndim > 2 and len(dv) else dv")),
    bug("backward_changes_input", "the backward writes into dout", "Call backward twice.", _ENDS.format("in_place(np.multiply, dout, 0.5)")),
    bug("key_bias", "one vector is added to all keys", "Nobody can see it: softmax forgets constants.", _S.format("k = k + k.dtype.type(0.5)"), convention=True),
], (wrong_softmax, _IN_SOFTMAX))  # fmt: skip
