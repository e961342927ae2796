"""Multi-head attention, and its known bugs, some of them those of attention."""

import math

import numpy as np

from . import attention as wrong_attention
from .attention import attention, attention_backward
from .bug import bug, entry, matrices, planted


def multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask=None):
    q, k, v, mask, scale = _parts(x, W_q, W_k, W_v, heads, mask)
    out, _ = attention(q, k, v, mask, scale=scale)
    joined = _merge(out)
    y = joined @ W_o
    return y


def multi_head_attention_backward(dy, x, W_q, W_k, W_v, W_o, heads, mask=None):
    q, k, v, mask, scale = _parts(x, W_q, W_k, W_v, heads, mask)
    out, weights = attention(q, k, v, mask, scale=scale)
    dout = _unmerge(dy @ W_o.T, out.shape[-3])
    dq, dk, dv = (_unsplit(g) for g in attention_backward(dout, q, k, v, weights, scale=scale)[:3])
    dx = dq @ W_q.T + dk @ W_k.T + dv @ W_v.T
    dW_q, dW_k, dW_v, dW_o = _product(x, dq), _product(x, dk), _product(x, dv), _product(_merge(out), dy)
    return dx, dW_q, dW_k, dW_v, dW_o


def _parts(x, W_q, W_k, W_v, heads, mask):
    q, k, v = (_split(x @ W, heads) for W in (W_q, W_k, W_v))
    return q, k, v, mask, None


def _split(x, heads):
    *lead, n, D = x.shape
    return np.swapaxes(x.reshape(*lead, n, heads, D // heads), -2, -3)


def _unsplit(dx):
    """The transpose of `_split`, for its gradient."""
    *lead, heads, n, d = dx.shape
    return np.swapaxes(dx, -2, -3).reshape(*lead, n, heads * d)


def _merge(out):
    *lead, heads, n, d = out.shape
    return np.swapaxes(out, -2, -3).reshape(*lead, n, heads * d)


def _unmerge(dout, heads):
    *lead, n, D = dout.shape
    return np.swapaxes(dout.reshape(*lead, n, heads, D // heads), -2, -3)


def _product(left, right):
    each = np.swapaxes(left, -1, -2) @ right
    total = np.sum(matrices(each), axis=0)
    return total


_INSIDE = ("no_scale", "scale_d", "scale_mult", "mask_inverted", "mask_after_softmax", "mask_ignored", "fill_-1e9", "fill_min", "nan_row",
           "empty_uniform", "mult_mask_logits", "add_-1e9", "off_by_one_mask", "off_by_one_peek", "softmax_axis", "no_rowmax", "no_rowmax_unguarded", "global_max",
           "softmax_flat", "backward_no_scale", "rowsum_missing", "softmax_diag", "swap_qk")  # fmt: skip
_KNOWN = {known.name: known for known in wrong_attention.BUGS}
_SLICE, _FED = "Silence one head and watch which slice moves.", "x fed three projections."
_MAPS, _PARTS, _OUT, _MASK = "for W in (W_q, W_k, W_v)) -> for W in ({}))", "return q, k, v, mask, None -> {}", "joined = _merge(out) -> joined = _merge({})", "mask if mask is None else {}"
_DX, _END, _Y = "dq @ W_q.T + dk @ W_k.T + dv @ W_v.T -> {}", "return dx, dW_q, -> {}; return dx, dW_q,", "y = joined @ W_o -> y = {}"

BUGS, make = planted(__name__, [
    bug("split_no_T", "x is reshaped to (heads, n, d) without moving axes", "After your reshape, which axis counts tokens?",
        "np.swapaxes(x.reshape(*lead, n, heads, D // heads), -2, -3) -> x.reshape(*lead, heads, n, D // heads) && np.swapaxes(dx, -2, -3) -> dx"),
    bug("split_interleaved", "head i owns columns i, i + h, i + 2h, ...", "Which columns of W_q belong to the first head?",
        "np.swapaxes(x.reshape(*lead, n, heads, D // heads), -2, -3) -> np.moveaxis(x.reshape(*lead, n, D // heads, heads), -1, -3) && np.swapaxes(dx, -2, -3) -> np.moveaxis(dx, -3, -1)"),
    bug("scale_dmodel", "scores are divided by √D, not by √(D / heads)", "How long is one head's key?", _PARTS.format("return q, k, v, mask, 1 / math.sqrt(x.shape[-1])")),
    bug("heads_avg", "heads are averaged, not joined", _SLICE, _OUT.format("np.broadcast_to(np.mean(out, axis=-3, keepdims=True), out.shape)")),
    bug("heads_summed", "heads are summed, not joined", _SLICE, _OUT.format("np.broadcast_to(np.sum(out, axis=-3, keepdims=True), out.shape)")),
    bug("heads_reversed", "heads are joined in reverse order", _SLICE,
        "np.swapaxes(out, -2, -3) -> np.swapaxes(out[..., ::-1, :, :], -2, -3) && np.swapaxes(dout.reshape(*lead, n, heads, D // heads), -2, -3) -> np.swapaxes(dout.reshape(*lead, n, heads, D // heads), -2, -3)[..., ::-1, :, :]"),
    bug("kv_swapped", "W_k makes the values and W_v the keys", "With one token the output is x W_v W_o.", _MAPS.format("W_q, W_v, W_k")),
    bug("qk_swapped", "W_k makes the queries and W_q the keys", "Which token looks, and which is looked at?", _MAPS.format("W_k, W_q, W_v")),
    bug("same_head", "all heads use the first head's queries and keys", "Are all heads identical?", _PARTS.format("q, k = (np.broadcast_to(part[..., :1, :, :], part.shape) for part in (q, k)); return q, k, v, mask, None")),
    bug("one_head", "the number of heads is ignored", "Do heads=1 and heads=2 give the same?", "_split(x @ W, heads) -> _split(x @ W, 1)"),
    bug("merge_no_T", "heads are joined by a reshape without moving axes", "Permute tokens: does the output permute?",
        "np.swapaxes(out, -2, -3) -> out && np.swapaxes(dout.reshape(*lead, n, heads, D // heads), -2, -3) -> dout.reshape(*lead, heads, n, D // heads)"),
    bug("no_Wo", "the output is not projected", "With W_o = 0, what should come out, and what does?", _Y.format("joined")),
    bug("Wo_first", "W_o is applied to x first", "What does W_o multiply?", _Y.format("joined") + " && scale = _parts(x, W_q, W_k, W_v, heads, mask)\n    out, _ -> scale = _parts(x @ W_o, W_q, W_k, W_v, heads, mask)\n    out, _"),
    bug("Wo_transposed", "W_o is used transposed", "Tokens are rows: y = z W_o.", _Y.format("joined @ W_o.T")),
    bug("W_transposed", "all projections are used transposed", "Tokens are rows: q = x W_q.", _MAPS.format("W_q.T, W_k.T, W_v.T")),
    bug("mask_queries", "the mask is transposed", "mask[i, j] = may query i look at key j.", _PARTS.format(f"return q, k, v, {_MASK.format('np.broadcast_to(mask, (x.shape[-2],) * 2).T')}, None")),
    bug("mask_first_head", "the mask holds for the first head only", "Does every head keep to the mask?", _PARTS.format(f"return q, k, v, {_MASK.format('np.where((np.arange(heads) == 0)[:, None, None], mask, True)')}, None")),
    bug("residual", "x is added to the output", "Set W_o = 0: is anything left?", "return y -> return y + x"),
    *((_KNOWN[name], {name: ""}) for name in _INSIDE if name in _KNOWN),
    bug("dx_only_v", "dx comes through the values alone", _FED, _DX.format("dv @ W_v.T")),
    bug("dx_only_q", "dx comes through the queries alone", _FED, _DX.format("dq @ W_q.T")),
    bug("dx_no_q", "dx lacks the path through the queries", _FED, _DX.format("dk @ W_k.T + dv @ W_v.T")),
    bug("dx_no_k", "dx lacks the path through the keys", _FED, _DX.format("dq @ W_q.T + dv @ W_v.T")),
    bug("dW_last_batch", "each dW is that of the last batch entry", "Every example used W.", "np.sum(matrices(each), axis=0) -> np.sum(matrices(entry(each, -1, 2)), axis=0)",
        {"dW_last_matrix": "np.sum(matrices(each), axis=0) -> np.sum(matrices(each)[-1:], axis=0)"}),
    bug("dW_mean", "the gradients of the matrices are averaged over the batch", "A shared parameter sums its gradients.", "return total -> return total / total.dtype.type(max(each.size // max(total.size, 1), 1))"),
    bug("dWo_missing_heads", "dW_o is that of the first head only", "Every head's output met its rows of W_o.", _END.format("dW_o[x.shape[-1] // heads :] = 0")),
    bug("dWq_dWk_swapped", "dW_q and dW_k are exchanged", "Which matrix made the queries?", "return dx, dW_q, dW_k, -> return dx, dW_k, dW_q,"),
    bug("dWv_no_Wo", "dW_v forgets that W_o stands between", "Which way does the gradient come?",
        _END.format("dW_v = _product(x, _unsplit(attention_backward(_unmerge(dy, out.shape[-3]), q, k, v, weights, scale=scale)[2]))")),
    bug("key_bias", "one vector is added to all keys", "Nobody can see it: softmax forgets constants.", convention=True),
], (wrong_attention, {name: name for name in (*_INSIDE, "key_bias")}))  # fmt: skip
