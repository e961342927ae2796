"""Softmax over the last axis written three times, differently, and the bugs that can be planted in each."""

import math
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")

PLANTED = {
    "axis": ("loops",),
    "no_max": ("loops",),
    "global_max": ("loops",),
    "flat": ("loops",),
    "mask_inverted": ("loops",),
    "mask_after": ("loops",),
    "fill_-1e9": ("loops",),
    "add_-1e9": ("loops",),
    "fill_-30": ("loops",),
    "mult_mask": ("loops",),
    "nan_row": ("loops",),
    "no_normalise": ("loops",),
    "backward_diag": ("loops",),
    "backward_no_sum": ("loops",),
    "backward_sum_axis": ("loops",),
    "backward_of_p": ("loops",),
    "backward_inplace": ("loops",),
    "mask_first_row": ("loops",),
    "mask_if_same_shape": ("loops",),
    "mask_as_padding": ("einsum", "inplace"),
    "max_of_masked": ("loops",),
    "max_from_zero": ("loops",),
    "abs_max": ("loops",),
    "shift_floor": ("loops",),
    "eps_in_total": ("loops",),
    "float32_inside": ("einsum", "inplace"),
    "wide_result": ("loops",),
    "fortran_order": ("loops",),
    "empty_only_whole": ("loops",),
    "single_column": ("loops",),
    "zero_columns": ("loops",),
    "shared_buffer": ("einsum", "inplace"),
    "writes_s": ("einsum", "inplace"),
    "last_tile_lost": ("einsum",),
    "tile_not_rescaled": ("einsum",),
    "backward_mean": ("loops",),
    "backward_lead_first": ("loops",),
    "backward_last_p": ("einsum", "inplace"),
    "backward_skips_zero": ("loops",),
}

INVENTED = {
    "mask_first_row": "the mask of each matrix's first row is used for all of its rows",
    "mask_if_same_shape": "a mask that would have to be broadcast is ignored",
    "mask_as_padding": "for s of three axes a mask (B, m) or (n, m) with n == B is read as one row per batch entry",
    "max_of_masked": "the row's maximum is taken over the forbidden entries too, so the allowed ones may underflow",
    "max_from_zero": "the running maximum starts at 0, so rows of very negative logits vanish",
    "abs_max": "the largest absolute value is subtracted, so rows of very negative logits vanish",
    "shift_floor": "differences to the maximum are clipped at -20, so small weights are too large",
    "eps_in_total": "1e-9 is added to the normaliser",
    "float32_inside": "float64 input is computed in float32 and cast back",
    "wide_result": "float32 input gives a float64 result",
    "fortran_order": "entries are read in memory order, wrong for Fortran-ordered input",
    "empty_only_whole": "only a mask that allows nothing anywhere gives zeros; a single empty row is uniform",
    "single_column": "rows of one entry get weight 1 even where the mask forbids it",
    "zero_columns": "rows of size 0 raise, as the maximum of nothing does not exist",
    "shared_buffer": "calls of equal shape and dtype return the same memory",
    "writes_s": "the input s is changed (einsum: where masked; inplace: whenever s is float64)",
    "last_tile_lost": "the streamed sum leaves out a last, incomplete tile of columns (m not a multiple of 3)",
    "tile_not_rescaled": "the streamed sum is not rescaled when a later tile (of 3 columns) raises the maximum",
    "backward_mean": "the plain mean of dp is subtracted in place of its mean under p",
    "backward_lead_first": "with leading axes, the row sums of the first leading entry are used for all",
    "backward_last_p": "the backward uses the last forward's p where the shape fits, not the p it is given",
    "backward_skips_zero": "the row sum stops at the first weight that is 0, as if only a tail could be masked",
}


def make(style, bug=None):
    """-> a namespace with softmax and softmax_backward; with `bug`, wrong in exactly that one way."""
    if bug is not None and style not in PLANTED[bug]:
        raise ValueError(f"{bug} is not planted in {style}")
    forward, backward = {"loops": _loops, "einsum": _einsum, "inplace": _inplace}[style](bug)
    return SimpleNamespace(softmax=forward, softmax_backward=backward)


def _allowed(mask, shape, bug):
    """The mask as a boolean array of the full shape."""
    if mask is None:
        return np.ones(shape, bool)
    mask = np.asarray(mask)
    if bug == "mask_if_same_shape" and mask.shape != shape:
        return np.ones(shape, bool)
    if bug == "mask_as_padding" and len(shape) == 3 and mask.ndim == 2 and mask.shape[0] == shape[0]:
        mask = mask[:, None, :]
    if bug == "mask_inverted":
        mask = ~mask
    full = np.broadcast_to(mask, shape)
    if bug == "mask_first_row" and len(shape) > 1:
        full = np.broadcast_to(full[..., :1, :], shape)
    return full


def _loops(bug):
    """Rows as lists of Python floats, one after the other, with math.exp."""

    def weigh(row, see, top):
        if bug == "fill_-1e9":
            row, see = [x if a else -1e9 for x, a in zip(row, see, strict=True)], [True] * len(row)
        if bug == "fill_-30":
            row, see = [x if a else -30.0 for x, a in zip(row, see, strict=True)], [True] * len(row)
        if bug == "add_-1e9":
            row, see = [x + (1 - a) * -1e9 for x, a in zip(row, see, strict=True)], [True] * len(row)
        if bug == "mult_mask":
            row, see = [x * a for x, a in zip(row, see, strict=True)], [True] * len(row)
        if bug == "single_column" and len(row) == 1:
            return [1.0]
        hidden = [False] * len(row)
        if bug == "mask_after":
            hidden, see = [not a for a in see], [True] * len(row)
        see = [a and x > -math.inf for x, a in zip(row, see, strict=True)]
        seen = [x for x, a in zip(row, see, strict=True) if a]
        if not seen and (row or bug != "zero_columns"):
            return [math.nan if bug == "nan_row" else 0.0] * len(row)
        if top is None:
            top = max(row if bug == "max_of_masked" else seen)
        if bug == "max_from_zero":
            top = max(top, 0.0)
        if bug == "abs_max":
            top = max(abs(x) for x in seen)
        if bug == "no_max":
            top = 0.0
        floor = -20.0 if bug == "shift_floor" else -math.inf
        powers = [math.exp(max(x - top, floor)) if a else 0.0 for x, a in zip(row, see, strict=True)]
        total = math.fsum(powers) or 1.0
        if bug == "eps_in_total":
            total += 1e-9
        if bug == "no_normalise":
            total = 1.0
        return [0.0 if gone else power / total for power, gone in zip(powers, hidden, strict=True)]

    def softmax(s, mask=None):
        see = _allowed(mask, s.shape, bug)
        if bug == "empty_only_whole" and mask is not None and see.any():
            nothing = ~see.any(axis=-1, keepdims=True)
            s, see = np.where(nothing, 0, s), see | nothing
        if bug == "fortran_order":
            s = s.ravel(order="K").reshape(s.shape)
        if bug == "axis" and s.ndim > 1:
            s, see = s.swapaxes(-1, -2), see.swapaxes(-1, -2)
        p = np.empty(s.shape, np.float64 if bug == "wide_result" else s.dtype)
        if bug == "flat":
            p[...] = np.reshape(weigh(s.ravel().tolist(), see.ravel().tolist(), None), s.shape)
            return p
        top = None
        if bug == "global_max":
            top = max(s[see].tolist(), default=0.0)
        for at in np.ndindex(*s.shape[:-1]):
            p[at] = weigh(s[at].tolist(), see[at].tolist(), top)
        return p.swapaxes(-1, -2) if bug == "axis" and p.ndim > 1 else p

    def softmax_backward(dp, p):
        if bug == "axis" and p.ndim > 1:
            dp, p = dp.swapaxes(-1, -2), p.swapaxes(-1, -2)
        ds = dp if bug == "backward_inplace" else np.empty(dp.shape, dp.dtype)
        products = (dp.astype(np.float64) * p) if bug in ("flat", "backward_sum_axis") else None
        for at in np.ndindex(*dp.shape[:-1]):
            up, weights = dp[at].tolist(), p[at].tolist()
            source = (up, weights)
            if bug == "backward_lead_first" and len(at) > 1:
                first = (0,) * (len(at) - 1) + at[-1:]
                source = (dp[first].tolist(), p[first].tolist())
            terms = [a * b for a, b in zip(*source, strict=True)]
            if bug == "backward_of_p":
                terms = up
            if bug == "backward_mean":
                terms = [a / len(up) for a in up]
            if bug == "backward_skips_zero" and 0.0 in weights:
                terms = terms[: weights.index(0.0)]
            mean = math.fsum(terms)
            if bug == "flat":
                mean = float(products.sum())
            if bug in ("backward_no_sum", "no_normalise"):
                mean = 0.0
            row = [w * (a - mean) for a, w in zip(up, weights, strict=True)]
            if bug == "backward_sum_axis" and len(at) > 0:
                means = products[at[:-1]].sum(axis=0).tolist()
                row = [w * (a - b) for a, w, b in zip(up, weights, means, strict=True)]
            if bug == "backward_diag":
                row = [w * (1 - w) * a for a, w in zip(up, weights, strict=True)]
            ds[at] = row
        return ds.swapaxes(-1, -2) if bug == "axis" and ds.ndim > 1 else ds

    return softmax, softmax_backward


def _einsum(bug):
    """A streamed forward, three columns at a time with a running maximum and sum; full Jacobians in the backward."""
    tile = 3
    kept = {}

    def stream(s, see):
        """The row's maximum over the allowed entries and the sum of exp(s - maximum), in one pass."""
        lead, columns = (s.shape[:-1], s.shape[-1])
        top = np.full(lead, -np.inf, s.dtype)
        total = np.zeros(lead, s.dtype)
        if bug == "last_tile_lost" and columns > tile:
            columns -= columns % tile
        for start in range(0, columns, tile):
            part = np.where(see[..., start : start + tile], s[..., start : start + tile], -np.inf)
            higher = np.maximum(top, np.max(part, axis=-1))
            safe = np.where(higher == -np.inf, 0, higher)
            if bug != "tile_not_rescaled":
                total = total * np.exp(np.minimum(top - safe, 0))
            total = total + np.einsum("...j->...", np.exp(part - safe[..., None]))
            top = higher
        return (np.where(top == -np.inf, 0, top), total)

    def weigh(s, see):
        top, total = stream(s, see)
        total = np.where(total == 0, 1, total)
        return np.exp(np.where(see, s, -np.inf) - top[..., None]) / total[..., None]

    def softmax(s, mask=None):
        see = _allowed(mask, s.shape, bug)
        dtype, hidden = (s.dtype, None)
        if bug == "float32_inside":
            s = s.astype(np.float32)
        if bug == "writes_s" and mask is not None:
            np.copyto(s, -np.inf, where=~see)
        flip = False
        if flip:
            s, see = (s.swapaxes(-1, -2), see.swapaxes(-1, -2))
        shape = s.shape
        with np.errstate(over="ignore"):
            p = weigh(s, see).reshape(shape)
        if flip:
            p = p.swapaxes(-1, -2)
        if hidden is not None:
            p = np.where(hidden, 0, p)
        p = p.astype(dtype, copy=False)
        if bug == "shared_buffer":
            buffer = kept.setdefault((p.shape, p.dtype), np.empty_like(p))
            buffer[...] = p
            return buffer
        if bug == "backward_last_p":
            kept["p"] = p.copy()
        return p

    def softmax_backward(dp, p):
        if bug == "backward_last_p" and "p" in kept and (kept["p"].shape == p.shape):
            p = kept["p"]
        eye = np.eye(p.shape[-1], dtype=p.dtype)
        jacobian = np.einsum("...i,ij->...ij", p, eye)
        jacobian = jacobian - np.einsum("...i,...j->...ij", p, p)
        return np.einsum("...i,...ij->...j", dp, jacobian)

    return (softmax, softmax_backward)


def _inplace(bug):
    """One float64 work array, changed in place from logits to log-weights to weights, then cast back."""
    kept = {}

    def softmax(s, mask=None):
        see = _allowed(mask, s.shape, bug)
        if s.shape[-1] == 0:
            return np.zeros(s.shape, s.dtype)
        inside = np.float32 if bug == "float32_inside" else np.float64
        order = "C"
        work = s.ravel(order=order).reshape(s.shape).astype(inside)
        if bug == "writes_s" and s.dtype == inside:
            work = s
        forbidden = ~see | (work == -np.inf)
        filled = {"fill_-1e9": -1000000000.0, "fill_-30": -30.0, "mult_mask": 0.0}
        if bug in filled:
            np.copyto(work, filled[bug], where=forbidden)
            forbidden[...] = False
        forbidden.copy()
        axis = -1
        np.copyto(work, -np.inf, where=forbidden)
        top = np.max(work, axis=axis, keepdims=True, initial=-np.inf)
        top[top == -np.inf] = 0.0
        with np.errstate(over="ignore"):
            np.subtract(work, top, out=work)
        total = np.sum(np.exp(work), axis=axis, keepdims=True)
        total[total == 0] = 1.0
        np.log(total, out=total)
        np.subtract(work, total, out=work)
        np.exp(work, out=work)
        if bug == "backward_last_p":
            kept["p"] = work.copy()
        if bug == "shared_buffer":
            buffer = kept.setdefault((s.shape, s.dtype), np.empty(s.shape, s.dtype))
            np.copyto(buffer, work, casting="same_kind")
            return buffer
        return work.astype(s.dtype, copy=bug == "writes_s")

    def softmax_backward(dp, p):
        ds = dp.astype(np.float64)
        if bug == "backward_last_p" and "p" in kept and (kept["p"].shape == p.shape):
            p = kept["p"]
        weighted = np.multiply(ds, p)
        axis = -1
        mean = np.sum(weighted, axis=axis, keepdims=True)
        ds -= mean
        ds *= p
        return ds.astype(dp.dtype, copy=False)

    return (softmax, softmax_backward)
