"""Multi-head attention, wrong in every way that is known, with the zoo's attention inside a head."""

from types import SimpleNamespace

import numpy as np

from . import attention as wrong_attention
from .bug import Bug

_INSIDE = ("no_scale", "scale_d", "scale_mult", "mask_inverted", "mask_after_softmax", "mask_ignored", "fill_-1e9", "fill_min", "nan_row",
           "empty_uniform", "mult_mask_logits", "add_-1e9", "off_by_one_mask", "off_by_one_peek", "softmax_axis", "no_rowmax", "no_rowmax_unguarded", "global_max",
           "softmax_flat", "backward_no_scale", "rowsum_missing", "softmax_diag", "swap_qk")  # fmt: skip
_KNOWN = {bug.name: bug for bug in wrong_attention.BUGS}

BUGS = [
    Bug("split_no_T", "x is reshaped to (heads, n, d) without moving axes", "After your reshape, which axis counts tokens?"),
    Bug("split_interleaved", "head i owns columns i, i + h, i + 2h, ...", "Which columns of W_q belong to the first head?"),
    Bug("scale_dmodel", "scores are divided by √D, not by √(D / heads)", "How long is one head's key?"),
    Bug("heads_avg", "heads are averaged, not joined", "Silence one head and watch which slice moves."),
    Bug("heads_summed", "heads are summed, not joined", "Silence one head and watch which slice moves."),
    Bug("heads_reversed", "heads are joined in reverse order", "Silence one head and watch which slice moves."),
    Bug("kv_swapped", "W_k makes the values and W_v the keys", "With one token the output is x W_v W_o."),
    Bug("qk_swapped", "W_k makes the queries and W_q the keys", "Which token looks, and which is looked at?"),
    Bug("same_head", "all heads use the first head's queries and keys", "Are all heads identical?"),
    Bug("one_head", "the number of heads is ignored", "Do heads=1 and heads=2 give the same?"),
    Bug("merge_no_T", "heads are joined by a reshape without moving axes", "Permute tokens: does the output permute?"),
    Bug("no_Wo", "the output is not projected", "With W_o = 0, what should come out, and what does?"),
    Bug("Wo_first", "W_o is applied to x first", "What does W_o multiply?"),
    Bug("Wo_transposed", "W_o is used transposed", "Tokens are rows: y = z W_o."),
    Bug("W_transposed", "all projections are used transposed", "Tokens are rows: q = x W_q."),
    Bug("mask_queries", "the mask is transposed", "mask[i, j] = may query i look at key j."),
    Bug("mask_first_head", "the mask holds for the first head only", "Does every head keep to the mask?"),
    Bug("residual", "x is added to the output", "Set W_o = 0: is anything left?"),
    *(_KNOWN[name] for name in _INSIDE if name in _KNOWN),
    Bug("dx_only_v", "dx comes through the values alone", "x fed three projections."),
    Bug("dx_only_q", "dx comes through the queries alone", "x fed three projections."),
    Bug("dx_no_q", "dx lacks the path through the queries", "x fed three projections."),
    Bug("dx_no_k", "dx lacks the path through the keys", "x fed three projections."),
    Bug("dW_last_batch", "each dW is that of the last batch entry", "Every example used W.", also=("dW_last_matrix",)),
    Bug("dW_mean", "the gradients of the matrices are averaged over the batch", "A shared parameter sums its gradients."),
    Bug("dWo_missing_heads", "dW_o is that of the first head only", "Every head's output met its rows of W_o."),
    Bug("dWq_dWk_swapped", "dW_q and dW_k are exchanged", "Which matrix made the queries?"),
    Bug("dWv_no_Wo", "dW_v forgets that W_o stands between", "Which way does the gradient come?"),
    Bug("key_bias", "one vector is added to all keys", "Nobody can see it: softmax forgets constants.", convention=True),
]  # fmt: skip


def make(bugs=frozenset()):
    """-> multi_head_attention and its backward with these bugs."""
    inner = wrong_attention.make(frozenset(bugs) & {*_INSIDE, "key_bias"})

    def split(x, heads):
        *lead, n, D = x.shape
        if "one_head" in bugs:
            return x[..., None, :, :]
        if "split_no_T" in bugs:
            return x.reshape(*lead, heads, n, D // heads)
        if "split_interleaved" in bugs:
            return np.moveaxis(x.reshape(*lead, n, D // heads, heads), -1, -3)
        return np.swapaxes(x.reshape(*lead, n, heads, D // heads), -2, -3)

    def merge(x):
        *lead, heads, n, d = x.shape
        if "merge_no_T" in bugs:
            return x.reshape(*lead, n, heads * d)
        x = x[..., ::-1, :, :] if "heads_reversed" in bugs else x
        return np.swapaxes(x, -2, -3).reshape(*lead, n, heads * d)

    def unsplit(x):
        """The transpose of `split`, for its gradient."""
        *lead, heads, n, d = x.shape
        if "split_no_T" in bugs and "one_head" not in bugs:
            return x.reshape(*lead, n, heads * d)
        if "split_interleaved" in bugs and "one_head" not in bugs:
            return np.moveaxis(x, -3, -1).reshape(*lead, n, heads * d)
        return np.swapaxes(x, -2, -3).reshape(*lead, n, heads * d)

    def unmerge(x, heads):
        *lead, n, D = x.shape
        if "merge_no_T" in bugs:
            return x.reshape(*lead, heads, n, D // heads)
        x = np.swapaxes(x.reshape(*lead, n, heads, D // heads), -2, -3)
        return x[..., ::-1, :, :] if "heads_reversed" in bugs else x

    def parts(x, W_q, W_k, W_v, heads, mask):
        W_q, W_k, W_v = (W_q.T, W_k.T, W_v.T) if "W_transposed" in bugs else (W_q, W_k, W_v)
        W_k, W_v = (W_v, W_k) if "kv_swapped" in bugs else (W_k, W_v)
        W_q, W_k = (W_k, W_q) if "qk_swapped" in bugs else (W_q, W_k)
        q, k, v = (split(x @ W, heads) for W in (W_q, W_k, W_v))
        if "same_head" in bugs:
            q, k = (np.broadcast_to(part[..., :1, :, :], part.shape) for part in (q, k))
        if mask is not None and "mask_queries" in bugs:
            n = x.shape[-2]
            mask = np.broadcast_to(mask, (n, n)).T
        if mask is not None and "mask_first_head" in bugs and "one_head" not in bugs:
            first = (np.arange(heads) == 0)[:, None, None]
            mask = np.where(first, mask, True)
        scale = (1 / np.sqrt(x.shape[-1])).item() if "scale_dmodel" in bugs else None
        return q, k, v, mask, scale

    def multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask=None):
        fed = x @ W_o if "Wo_first" in bugs else x
        q, k, v, mask, scale = parts(fed, W_q, W_k, W_v, heads, mask)
        out, _ = inner.attention(q, k, v, mask, scale=scale)
        if {"heads_avg", "heads_summed"} & bugs:
            joined = (np.mean if "heads_avg" in bugs else np.sum)(out, axis=-3, keepdims=True)
            out = np.broadcast_to(joined, out.shape)
        y = merge(out)
        y = y @ (W_o.T if "Wo_transposed" in bugs else W_o) if not {"no_Wo", "Wo_first"} & bugs else y
        return y + x if "residual" in bugs else y

    def multi_head_attention_backward(dy, x, W_q, W_k, W_v, W_o, heads, mask=None):
        q, k, v, mask, scale = parts(x, W_q, W_k, W_v, heads, mask)
        out, weights = inner.attention(q, k, v, mask, scale=scale)
        count = 1 if "one_head" in bugs else heads
        dout = unmerge(dy @ W_o.T, count)
        dq, dk, dv, _ = inner.attention_backward(dout, q, k, v, weights, scale=scale)
        dq, dk, dv = unsplit(dq), unsplit(dk), unsplit(dv)
        paths = [dq @ W_q.T, dk @ W_k.T, dv @ W_v.T]
        paths = paths[2:] if "dx_only_v" in bugs else paths
        paths = paths[:1] if "dx_only_q" in bugs else paths
        paths = paths[1:] if "dx_no_q" in bugs else paths
        paths = paths[::2] if "dx_no_k" in bugs else paths
        if "dWv_no_Wo" in bugs:
            dv = unsplit(inner.attention_backward(unmerge(dy, count), q, k, v, weights, scale=scale)[2])

        def outer(left, right):
            product = np.swapaxes(left, -1, -2) @ right
            if product.ndim == 2:
                return product
            if "dW_last_matrix" in bugs and len(product):
                return product.reshape(-1, *product.shape[-2:])[-1].copy()
            if "dW_last_batch" in bugs and len(product):
                return np.sum(product[-1].reshape(-1, *product.shape[-2:]), axis=0)
            total = np.sum(product.reshape(-1, *product.shape[-2:]), axis=0)
            return total / total.dtype.type(max(product.size // max(total.size, 1), 1)) if "dW_mean" in bugs else total

        dW_o = outer(merge(out), dy)
        if "dWo_missing_heads" in bugs:
            dW_o[x.shape[-1] // heads :] = 0
        dW_q, dW_k = outer(x, dq), outer(x, dk)
        dW_q, dW_k = (dW_k, dW_q) if "dWq_dWk_swapped" in bugs else (dW_q, dW_k)
        return sum(paths), dW_q, dW_k, outer(x, dv), dW_o

    return SimpleNamespace(
        multi_head_attention=multi_head_attention, multi_head_attention_backward=multi_head_attention_backward
    )
