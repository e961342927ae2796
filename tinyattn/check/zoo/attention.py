"""Attention, wrong in every way that is known, with the zoo's softmax."""

import math
from types import SimpleNamespace

import numpy as np

from . import softmax as wrong_softmax
from .bug import Bug, in_place

_IN_SOFTMAX = {
    "mask_inverted": "mask_inverted", "mask_after_softmax": "mask_after", "fill_-1e9": "fill_-1e9", "fill_-1e4": "fill_-1e4",
    "fill_-100": "fill_-100", "fill_-30": "fill_-30", "fill_min": "fill_min", "add_-1e9": "add_-1e9", "fill_zeroed": "fill_zeroed",
    "mult_mask_logits": "mult_mask", "fill_0": "fill_0", "nan_row": "nan_row", "empty_uniform": "empty_uniform",
    "mask_ignored": "mask_ignored", "softmax_axis": "axis", "no_rowmax": "no_max", "no_rowmax_unguarded": "no_max_unguarded", "softmax_flat_array": "flat_array", "global_max": "global_max", "softmax_flat": "flat",
    "no_normalise": "no_normalise", "softmax_diag": "backward_diag", "rowsum_missing": "backward_no_sum",
    "rowsum_axis": "backward_sum_axis", "rowsum_of_dp": "backward_of_p",
}  # fmt: skip
_ALSO = {"no_rowmax": ("no_rowmax_unguarded",), "softmax_flat": ("softmax_flat_array",)}
_KNOWN = {bug.name: bug for bug in wrong_softmax.BUGS}

BUGS = [
    Bug("no_scale", "scores are not divided by √d", "Compute the variance of one score by hand for d = 64."),
    Bug("scale_d", "scores are divided by d, not by √d", "Variance is a square: which power of d undoes it?"),
    Bug("scale_mult", "scores are multiplied by √d", "Did you divide or multiply? Print the largest weight."),
    Bug("scale_of_v", "scores are divided by the root of the values' dimension", "Which vectors does the dot product run over?"),
    Bug("scale_of_keys", "scores are divided by the root of the number of keys", "Does a score's variance depend on the number of keys?"),
    Bug("scale_ignored", "the argument scale is not used", "Give scale=0 by name: are the weights uniform?"),
    Bug("scale_np64", "a NumPy float64 scalar widens float32", "Print out.dtype: a NumPy scalar is a strong type.",
        also=("scale_np64_default",)),
    *(Bug(name, _KNOWN[there].says, _KNOWN[there].hint, permitted=_KNOWN[there].permitted, also=_ALSO.get(name, ()))
      for name, there in _IN_SOFTMAX.items() if there in _KNOWN),
    Bug("off_by_one_mask", "the mask is shifted: a token cannot see itself", "Move v_i and watch out_i."),
    Bug("off_by_one_peek", "the mask lets a token see its successor", "Change the last token; which outputs moved?"),
    Bug("mask_transposed", "the mask is transposed", "mask[i, j] = may query i look at key j."),
    Bug("mask_first_row", "the mask's first row is used for all queries", "One row of permissions for all queries?"),
    Bug("bias_before_scale", "the bias is scaled with the scores", "The bias is added after scaling."),
    Bug("bias_ignored", "the bias is not used", "Add 5 to one entry of the bias: what happens to its weight?"),
    Bug("bias_subtracted", "the bias is subtracted", "Add 5 to one entry of the bias: does its weight grow?"),
    Bug("bias_after_softmax", "the bias is added to the weights, after softmax", "Do the weights still sum to 1?"),
    Bug("drop_renorm", "after dropout the weights are rescaled to sum 1", "Average over many masks: do you get the undropped output?"),
    Bug("drop_no_rescale", "kept weights are not divided by 1 - rate", "Average over many masks: do you get the undropped output?"),
    Bug("drop_on_scores", "dropout is applied to the scores, before softmax", "A score of 0 is not a weight of 0."),
    Bug("drop_inverted", "keep is read the wrong way round", "Which truth value means kept?"),
    Bug("drop_ignored", "dropout is not applied", "Drop everything: is anything left?"),
    Bug("drop_on_output", "all weights are divided by 1 - rate, and none is dropped", "What does keep=False do to its weight?"),
    Bug("weights_after_dropout", "the weights returned are those after dropout", "Softmax's backward wants softmax's output."),
    Bug("values_as_keys", "the values are weighted by themselves", "Which of the three is averaged?"),
    Bug("keys_as_values", "the output mixes keys, not values", "Which of the three is averaged?"),
    Bug("cosine", "queries and keys are normalised first", "Does doubling a query sharpen its weights?"),
    Bug("changes_input", "it writes into the queries", "Print q before and after."),
    Bug("dv_undropped", "dv uses the weights before dropout", "Which weights actually multiplied V?"),
    Bug("dv_noT", "dv multiplies by the weights untransposed", "out_i = Σ_j P_ij v_j: who contributes to dv_j?"),
    Bug("drop_mask_missing", "the gradient of dropped weights is let through", "A dropped weight cannot receive gradient.",
        also=("drop_backward_missing",)),
    Bug("drop_scale_missing", "the gradient is not divided by 1 - rate", "out was multiplied by 1 / (1 - rate): and its gradient?"),
    Bug("rowsum_from_pd", "the row sum uses the dropped weights", "Softmax saw P; dropout came after."),
    Bug("backward_no_scale", "neither dq nor dk is multiplied by the scale", "The constant multiplies forward, so also backward."),
    Bug("no_scale_dk", "dk is not multiplied by the scale", "Both dq and dk pass the same constant."),
    Bug("no_scale_dq", "dq is not multiplied by the scale", "Both dq and dk pass the same constant."),
    Bug("backward_scale_twice", "the scale is applied twice in dq and dk", "How often did the constant multiply the scores?"),
    Bug("dk_noT", "dk multiplies by ds untransposed", "dk_j sums over queries i: along which axis of ds?"),
    Bug("swap_qk", "dq and dk are exchanged", "Which of the two has a row for each query? With n = m no shape tells."),
    Bug("dk_is_dq", "dk is computed from the keys", "s_ij = q_i · k_j: what multiplies k_j?"),
    Bug("dbias_batch", "dbias is not summed over what was broadcast", "Gradient shape must equal parameter shape."),
    Bug("dbias_scaled", "dbias is multiplied by the scale", "The bias was added after scaling."),
    Bug("dbias_missing", "dbias is zero", "Move one entry of the bias: does the loss move?"),
    Bug("dbias_mean", "dbias is averaged over what was broadcast", "A shared parameter sums its gradients."),
    Bug("dv_missing_batch", "every entry of the batch gets the dv of the first", "Is the batch axis lost somewhere?"),
    Bug("backward_changes_input", "the backward writes into dout", "Call backward twice."),
    Bug("key_bias", "one vector is added to all keys", "Nobody can see it: softmax forgets constants.", convention=True),
]  # fmt: skip


def make(bugs=frozenset()):
    """-> attention and attention_backward with these bugs."""
    inner = wrong_softmax.make(frozenset(there for name, there in _IN_SOFTMAX.items() if name in bugs))

    def scale_of(q, k, v, scale):
        d = max(q.shape[-1], 1)
        if "scale_np64_default" in bugs and scale is None:
            return 1 / np.sqrt(np.float64(d))
        if "scale_np64" in bugs:
            return 1 / np.sqrt(np.float64(d)) if scale is None else np.float64(scale)
        if scale is not None and "scale_ignored" not in bugs:
            return float(scale)
        if "no_scale" in bugs:
            return 1.0
        d = max(v.shape[-1], 1) if "scale_of_v" in bugs else d
        d = max(k.shape[-2], 1) if "scale_of_keys" in bugs else d
        return 1 / d if "scale_d" in bugs else math.sqrt(d) if "scale_mult" in bugs else 1 / math.sqrt(d)

    def moved(mask, n, m):
        if mask is None or not {"off_by_one_mask", "off_by_one_peek", "mask_transposed", "mask_first_row"} & bugs:
            return mask
        mask = np.broadcast_to(mask, (*mask.shape[:-2], n, m))
        closed = np.zeros((*mask.shape[:-1], 1), bool)
        mask = np.concatenate([mask[..., 1:], closed], axis=-1) if "off_by_one_mask" in bugs else mask
        mask = mask | np.concatenate([closed, mask[..., :-1]], axis=-1) if "off_by_one_peek" in bugs else mask
        mask = np.swapaxes(mask, -1, -2) if "mask_transposed" in bugs and n == m else mask
        mask = mask[..., :1, :] if "mask_first_row" in bugs else mask
        return mask

    def dropped(x, keep, rate):
        if keep is None or "drop_ignored" in bugs:
            return x
        keep = ~keep if "drop_inverted" in bugs else keep
        if "drop_on_output" in bugs:
            return x / (1 - rate)
        x = x * keep
        if "drop_renorm" in bugs:
            total = np.sum(x, axis=-1, keepdims=True)
            return x / np.where(total == 0, 1, total)
        return x if "drop_no_rescale" in bugs else x / (1 - rate)

    def attention(q, k, v, mask=None, bias=None, keep=None, rate=0.0, scale=None):
        c = scale_of(q, k, v, scale)
        given = q
        k = k + k.dtype.type(0.5) if "key_bias" in bugs else k
        if "cosine" in bugs:
            q, k = (x / np.maximum(np.sqrt(np.sum(x * x, axis=-1, keepdims=True)), x.dtype.type(1e-12)) for x in (q, k))
        s = (q @ np.swapaxes(k, -1, -2)) * c
        if bias is not None and not {"bias_ignored", "bias_after_softmax"} & bugs:
            s = s + bias * (s.dtype.type(c) if "bias_before_scale" in bugs else -1 if "bias_subtracted" in bugs else 1)
        if keep is not None and "drop_on_scores" in bugs:
            s = dropped(s, keep, rate)
            keep = None
        weights = inner.softmax(s, moved(mask, *s.shape[-2:]))
        weights = weights + bias if bias is not None and "bias_after_softmax" in bugs else weights
        used = dropped(weights, keep, rate)
        values = v
        values = k if "keys_as_values" in bugs and k.shape == v.shape else values
        if "values_as_keys" in bugs and q.shape[-1] == v.shape[-1]:
            weights = inner.softmax((q @ np.swapaxes(v, -1, -2)) * c, moved(mask, *s.shape[-2:]))
            used = dropped(weights, keep, rate)
        in_place(np.multiply, given, c, "changes_input" in bugs)
        return used @ values, used if "weights_after_dropout" in bugs else weights

    def attention_backward(dout, q, k, v, weights, bias=None, keep=None, rate=0.0, scale=None):
        c = scale_of(q, k, v, scale)
        used = weights if "dv_undropped" in bugs else dropped(weights, keep, rate)
        turned = used if "dv_noT" in bugs and used.shape[-1] == used.shape[-2] else np.swapaxes(used, -1, -2)
        dv = turned @ dout
        dv = np.broadcast_to(dv[:1], dv.shape).copy() if "dv_missing_batch" in bugs and dv.ndim > 2 and len(dv) else dv
        dp = dout @ np.swapaxes(v, -1, -2)
        if keep is not None:
            if "drop_mask_missing" in bugs:
                dp = dp / (1 - rate)
            elif "drop_backward_missing" in bugs:
                dp = dp.copy()
            elif "drop_scale_missing" in bugs:
                dp = dp * keep
            else:
                dp = dropped(dp, keep, rate)
        ds = inner.softmax_backward(dp, weights)
        if "rowsum_from_pd" in bugs and keep is not None:
            ds = weights * (dp - np.sum(dp * dropped(weights, keep, rate), axis=-1, keepdims=True))
        dbias = None
        if bias is not None:
            dbias = _summed(ds, bias.shape, np.mean if "dbias_mean" in bugs else np.sum) if "dbias_batch" not in bugs else ds
            dbias = dbias * (dbias.dtype.type(c) if "dbias_scaled" in bugs else 0 if "dbias_missing" in bugs else 1)
        twice = c * c if "backward_scale_twice" in bugs else c
        dq = ds @ k * (1.0 if {"backward_no_scale", "no_scale_dq"} & bugs else twice)
        square = ds.shape[-1] == ds.shape[-2]
        left = ds if "dk_noT" in bugs and square else np.swapaxes(ds, -1, -2)
        dk = left @ (k if "dk_is_dq" in bugs and square else q) * (
            1.0 if {"backward_no_scale", "no_scale_dk"} & bugs else twice
        )
        dq, dk = (dk, dq) if "swap_qk" in bugs else (dq, dk)
        in_place(np.multiply, dout, 0.5, "backward_changes_input" in bugs)
        return dq, dk, dv, dbias

    return SimpleNamespace(attention=attention, attention_backward=attention_backward)


def _summed(g, shape, add):
    g = add(g, axis=tuple(range(g.ndim - len(shape))))
    axes = tuple(i for i, size in enumerate(shape) if size == 1 and g.shape[i] != 1)
    return add(g, axis=axes, keepdims=True) if axes else g
