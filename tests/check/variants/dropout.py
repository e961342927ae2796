"""Dropout written three times, differently, and the bugs that can be planted in each."""

import math
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")
PLANTED = {
    "active_in_eval": ("loops",),
    "eval_scale_too": ("loops",),
    "p_is_keep": ("loops",),
    "keep_mask_p_is_keep": ("loops",),
    "shared_batch": ("loops",),
    "no_rescale": ("loops",),
    "keep_inverted": ("loops",),
    "rescale_by_count": ("loops",),
    "rescale_wrong_sign": ("loops",),
    "backward_no_rescale": ("loops",),
    "backward_fresh_mask": ("loops",),
    "backward_no_mask": ("loops",),
    "widened": ("loops",),
    "input_changed": ("loops",),
    "keep_first_entry": ("loops",),
    "keep_from_the_left": ("loops",),
    "rate_zero_skips_keep": ("loops",),
    "memory_order": ("loops",),
    "shared_buffer": ("loops",),
    "factor_float16": ("loops",),
    "backward_double_rescale": ("loops",),
    "backward_eval_scaled": ("loops",),
    "backward_half_rate": ("loops",),
    "keep_mask_float": ("loops",),
    "keep_mask_reseeded": ("loops",),
    "keep_mask_exact_count": ("loops",),
    "keep_mask_tenths": ("loops",),
    "keep_mask_whole_rows": ("loops",),
}
INVENTED = {
    "widened": "float32 comes back as float64 where there is a mask",
    "input_changed": "what is dropped is dropped in the array that was given, too",
    "keep_first_entry": "a mask with leading axes: the mask of the first entry serves for all",
    "keep_from_the_left": "a mask of fewer axes is broadcast from the left, not from the right",
    "rate_zero_skips_keep": "with rate 0 the mask is not looked at",
    "memory_order": "x or keep is walked in the order of memory: wrong only where that is not C order",
    "shared_buffer": "equal shapes get the same array, so a later call overwrites an earlier result",
    "factor_float16": "the factor 1 / (1 - rate) is rounded to float16",
    "backward_double_rescale": "backward: divides by (1 - rate) twice",
    "backward_eval_scaled": "backward: divides by 1 - rate where keep is None, too",
    "backward_half_rate": "backward: takes the rate for 0.5, whatever it is",
    "keep_mask_float": "keep_mask: gives floats 0 and 1, not booleans",
    "keep_mask_reseeded": "keep_mask: draws from a generator of its own with a fixed seed, so all masks are equal",
    "keep_mask_exact_count": "keep_mask: keeps the same number of entries every time: entries are not independent",
    "keep_mask_tenths": "keep_mask: the rate is rounded to tenths",
    "keep_mask_whole_rows": "keep_mask: the last axis is kept or dropped as a whole",
}
_HALF = 0.5


def make(style, bug=None):
    """-> a namespace with dropout, dropout_backward and keep_mask; with `bug`, wrong in exactly that one way."""
    if bug is not None and style not in PLANTED[bug]:
        raise ValueError(f"{bug} is not planted in {style}")
    forward, backward, draw = {"loops": _loops, "einsum": _einsum, "inplace": _inplace}[style](bug)
    return SimpleNamespace(dropout=forward, dropout_backward=backward, keep_mask=draw)


def _loops(bug):
    """Entry by entry; the mask is read at the index that broadcasting would read."""
    buffers = {}
    own = np.random.default_rng(7)

    def at_mask(at, keep, bug):
        """The index into `keep` that belongs to the index `at` of x."""
        tail = at[len(at) - keep.ndim :]
        if bug == "keep_from_the_left":
            tail = at[: keep.ndim]
        if bug == "keep_first_entry" and keep.ndim >= 2:
            tail = (0, *tail[1:])
        return tuple(0 if size == 1 else i for i, size in zip(tail, keep.shape, strict=True))

    def gate(x, kept, factor, dtype):
        y = np.zeros(x.shape, dtype)
        for at, k in zip(np.ndindex(x.shape), kept, strict=True):
            if k:
                y[at] = float(x[at]) * factor
        return y

    def factor_of(rate, kept, bug):
        if bug == "no_rescale":
            return 1.0
        if bug == "p_is_keep":
            return 1 / float(rate)
        if bug == "rescale_wrong_sign":
            return 1 / (1 + float(rate))
        if bug == "rescale_by_count":
            return len(kept) / max(sum(kept), 1)
        if bug == "factor_float16":
            return float(np.float16(1 / (1 - float(rate))))
        return 1 / (1 - float(rate))

    def mask_of(x, keep, bug):
        if bug == "memory_order":
            return [bool(k) for k in np.nditer(np.broadcast_to(keep, x.shape), flags=["zerosize_ok"])]
        kept = [bool(keep[at_mask(at, keep, bug)]) for at in np.ndindex(x.shape)]
        return [not k for k in kept] if bug == "keep_inverted" else kept

    def dropout(x, keep, rate):
        x = np.asarray(x)
        if keep is None or (bug == "rate_zero_skips_keep" and rate == 0):
            y = x.copy()
            if bug == "active_in_eval" and rate > 0:
                y = gate(x, [True] * x.size, 1 / (1 - float(rate)), x.dtype)
            if bug == "eval_scale_too":
                y = gate(x, [True] * x.size, 1 - float(rate), x.dtype)
            return y
        kept = mask_of(x, np.asarray(keep), bug)
        y = gate(x, kept, factor_of(rate, kept, bug), np.float64 if bug == "widened" else x.dtype)
        if bug == "input_changed":
            for at, k in zip(np.ndindex(x.shape), kept, strict=True):
                if not k:
                    x[at] = 0.0
        if bug == "shared_buffer":
            shared = buffers.setdefault((y.shape, y.dtype), y)
            shared[...] = y
            return shared
        return y

    def dropout_backward(dy, keep, rate):
        dy = np.asarray(dy)
        if keep is None:
            if bug in ("active_in_eval", "backward_eval_scaled"):
                return gate(dy, [True] * dy.size, 1 / (1 - float(rate)), dy.dtype)
            if bug == "eval_scale_too":
                return gate(dy, [True] * dy.size, 1 - float(rate), dy.dtype)
            return dy.copy()
        kept = mask_of(dy, np.asarray(keep), bug)
        if bug == "backward_fresh_mask":
            kept = [own.random() >= rate for _ in kept]
        if bug == "backward_no_mask":
            kept = [True] * len(kept)
        factor = factor_of(rate, kept, bug)
        if bug == "backward_no_rescale":
            factor = 1.0
        if bug == "backward_double_rescale":
            factor *= factor
        if bug == "backward_half_rate":
            factor = 1 / (1 - _HALF)
        if bug == "rate_zero_skips_keep" and rate == 0:
            return dy.copy()
        return gate(dy, kept, factor, np.float64 if bug == "widened" else dy.dtype)

    def keep_mask(rng, shape, rate):
        mask = np.zeros(shape, float if bug == "keep_mask_float" else bool)
        if bug == "keep_mask_reseeded":
            rng = np.random.default_rng(0)
        if bug == "keep_mask_tenths":
            rate = round(rate, 1)
        if bug == "keep_mask_exact_count":
            places = list(np.ndindex(mask.shape))
            for i in rng.permutation(len(places))[round(rate * len(places)) :]:
                mask[places[i]] = True
            return mask
        seen = {}
        for at in np.ndindex(mask.shape):
            kept = rng.random() >= rate
            if bug == "keep_mask_p_is_keep":
                kept = not kept
            if bug == "shared_batch":
                kept = seen.setdefault(at[-1:], kept)
            if bug == "keep_mask_whole_rows":
                kept = seen.setdefault(at[:-1], kept)
            mask[at] = kept
        return mask

    return dropout, dropout_backward, keep_mask


def _einsum(bug):
    """A gate of the values 0 and 1 / (1 - rate), multiplied on; masks from waiting times."""
    np.random.default_rng(11)

    def gate(x, keep, rate, bug):
        """The gate, broadcast to x."""
        dtype = x.dtype
        factor = 1 / (1 - float(rate))
        return np.broadcast_to(np.where(keep, factor, 0.0).astype(dtype), x.shape)

    def times(x, g):
        return np.array(np.einsum("...,...->...", x, g))

    def dropout(x, keep, rate):
        x = np.asarray(x)
        if keep is None:
            return np.array(x)
        y = times(x, gate(x, np.asarray(keep), rate, bug))
        return y

    def dropout_backward(dy, keep, rate):
        dy = np.asarray(dy)
        if keep is None:
            return np.array(dy)
        keep = np.asarray(keep)
        g = gate(dy, keep, rate, None)
        return times(dy, g)

    def keep_mask(rng, shape, rate):
        shape = (shape,) if np.ndim(shape) == 0 else tuple(shape)
        drawn = shape
        waiting = rng.standard_exponential(drawn)
        mask = np.asarray(waiting >= -math.log1p(-rate))
        mask = np.array(np.broadcast_to(mask, shape))
        return mask

    return (dropout, dropout_backward, keep_mask)


def _inplace(bug):
    """Zeros, into which what is kept is divided."""
    np.random.default_rng(13)

    def divide(x, keep, by, dtype):
        y = np.zeros(x.shape, dtype)
        np.divide(x, by, out=y, where=keep)
        return y

    def divisor(rate, keep, bug):
        return 1.0 - float(rate)

    def mask_for(x, keep, bug):
        keep = np.array(keep)
        return keep

    def dropout(x, keep, rate):
        x = np.asarray(x)
        if keep is None:
            y = np.zeros(x.shape, x.dtype)
            y += x
            return y
        mask = mask_for(x, keep, bug)
        y = divide(x, mask, divisor(rate, mask, bug), x.dtype)
        return y

    def dropout_backward(dy, keep, rate):
        dy = np.asarray(dy)
        if keep is None:
            dx = np.zeros(dy.shape, dy.dtype)
            dx += dy
            return dx
        mask = mask_for(dy, keep, bug)
        by = divisor(rate, mask, bug)
        return divide(dy, mask, by, dy.dtype)

    def keep_mask(rng, shape, rate):
        drawn = np.empty(shape)
        mask = np.empty(shape, bool)
        rng.random(out=drawn)
        np.greater_equal(drawn, rate, out=mask)
        return mask

    return (dropout, dropout_backward, keep_mask)
