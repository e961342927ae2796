"""Dropout written three times, differently, and the bugs that can be planted in each."""

import math
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")
PLANTED = {
    "active_in_eval": ("loops", "einsum", "inplace"),
    "eval_scale_too": ("loops", "einsum", "inplace"),
    "p_is_keep": ("loops", "einsum", "inplace"),
    "keep_mask_p_is_keep": ("loops", "einsum", "inplace"),
    "shared_batch": ("loops", "einsum", "inplace"),
    "no_rescale": ("loops", "einsum", "inplace"),
    "keep_inverted": ("loops", "einsum", "inplace"),
    "rescale_by_count": ("loops", "einsum", "inplace"),
    "rescale_wrong_sign": ("loops", "einsum", "inplace"),
    "backward_no_rescale": ("loops", "einsum", "inplace"),
    "backward_fresh_mask": ("loops", "einsum", "inplace"),
    "backward_no_mask": ("loops", "einsum", "inplace"),
    "widened": ("loops", "einsum", "inplace"),
    "input_changed": ("loops", "einsum", "inplace"),
    "keep_first_entry": ("loops", "einsum", "inplace"),
    "keep_from_the_left": ("loops", "einsum", "inplace"),
    "rate_zero_skips_keep": ("loops", "einsum", "inplace"),
    "memory_order": ("loops", "einsum", "inplace"),
    "shared_buffer": ("loops", "einsum", "inplace"),
    "factor_float16": ("loops", "einsum", "inplace"),
    "backward_double_rescale": ("loops", "einsum", "inplace"),
    "backward_eval_scaled": ("loops", "einsum", "inplace"),
    "backward_half_rate": ("loops", "einsum", "inplace"),
    "keep_mask_float": ("loops", "einsum", "inplace"),
    "keep_mask_reseeded": ("loops", "einsum", "inplace"),
    "keep_mask_exact_count": ("loops", "einsum", "inplace"),
    "keep_mask_tenths": ("loops", "einsum", "inplace"),
    "keep_mask_whole_rows": ("loops", "einsum", "inplace"),
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
    buffers = {}
    own = np.random.default_rng(11)

    def gate(x, keep, rate, bug):
        """The gate, broadcast to x."""
        dtype = x.dtype
        if bug == "keep_from_the_left" and keep.ndim < x.ndim:
            keep = keep.reshape(keep.shape + (1,) * (x.ndim - keep.ndim))
        if bug == "keep_first_entry" and keep.ndim >= 2:
            keep = keep[:1]
        if bug == "keep_inverted":
            keep = np.logical_not(keep)
        if bug == "memory_order":
            keep = np.broadcast_to(keep, x.shape).ravel(order="K").reshape(x.shape)
        factor = 1 / (1 - float(rate))
        if bug == "no_rescale":
            factor = 1.0
        if bug == "p_is_keep":
            factor = 1 / float(rate)
        if bug == "rescale_wrong_sign":
            factor = 1 / (1 + float(rate))
        if bug == "rescale_by_count":
            factor = 1 / np.mean(keep).item()
        if bug == "factor_float16":
            factor = float(np.float16(factor))
        if bug == "widened":
            dtype = np.float64
        return np.broadcast_to(np.where(keep, factor, 0.0).astype(dtype), x.shape)

    def times(x, g):
        return np.array(np.einsum("...,...->...", x, g))

    def dropout(x, keep, rate):
        x = np.asarray(x)
        if bug == "rate_zero_skips_keep" and rate == 0:
            keep = None
        if keep is None:
            if bug == "active_in_eval":
                return times(x, gate(x, own.random(x.shape) >= rate, rate, None))
            if bug == "eval_scale_too":
                return times(x, np.full(x.shape, 1 - float(rate), x.dtype))
            return np.array(x)
        y = times(x, gate(x, np.asarray(keep), rate, bug))
        if bug == "input_changed":
            x *= np.asarray(keep)
        if bug == "shared_buffer":
            shared = buffers.setdefault((y.shape, y.dtype), y)
            shared[...] = y
            return shared
        return y

    def dropout_backward(dy, keep, rate):
        dy = np.asarray(dy)
        if keep is None:
            if bug == "backward_eval_scaled":
                return times(dy, np.full(dy.shape, 1 / (1 - float(rate)), dy.dtype))
            return np.array(dy)
        keep = np.asarray(keep)
        if bug == "backward_half_rate":
            rate = _HALF
        if bug == "backward_no_rescale":
            rate = 0.0
        if bug == "backward_no_mask":
            keep = np.ones((), bool)
        if bug == "backward_fresh_mask":
            keep = own.random(dy.shape) >= rate
        g = gate(dy, keep, rate, bug if bug in ("keep_inverted", "no_rescale", "widened") else None)
        if bug == "backward_double_rescale":
            g = g * g
        return times(dy, g)

    def keep_mask(rng, shape, rate):
        shape = (shape,) if np.ndim(shape) == 0 else tuple(shape)
        if bug == "keep_mask_reseeded":
            rng = np.random.default_rng(1)
        if bug == "keep_mask_tenths":
            rate = np.round(rate, 1)
        if bug == "keep_mask_exact_count":
            order = rng.permutation(math.prod(shape))
            return (order >= rate * order.size).reshape(shape)
        drawn = shape
        if bug == "shared_batch":
            drawn = shape[1:] if len(shape) > 1 else shape
        if bug == "keep_mask_whole_rows":
            drawn = (*shape[:-1], 1) if shape else shape
        waiting = rng.standard_exponential(drawn)  # longer than -log(1 - rate) with probability 1 - rate
        mask = np.asarray(waiting >= -math.log1p(-rate))
        if bug == "keep_mask_p_is_keep":
            mask = np.asarray(waiting < -math.log1p(-rate))
        mask = np.array(np.broadcast_to(mask, shape))
        return mask.astype(float) if bug == "keep_mask_float" else mask

    return dropout, dropout_backward, keep_mask


def _inplace(bug):
    """Zeros, into which what is kept is divided."""
    buffers = {}
    own = np.random.default_rng(13)

    def divide(x, keep, by, dtype):
        y = np.zeros(x.shape, dtype)
        np.divide(x, by, out=y, where=keep)
        return y

    def divisor(rate, keep, bug):
        if bug == "no_rescale":
            return 1.0
        if bug == "p_is_keep":
            return float(rate)
        if bug == "rescale_wrong_sign":
            return 1.0 + float(rate)
        if bug == "rescale_by_count":
            return max(np.count_nonzero(keep), 1) / max(keep.size, 1)
        if bug == "factor_float16":
            return float(np.float16(1.0 - float(rate)))
        return 1.0 - float(rate)

    def mask_for(x, keep, bug):
        keep = np.array(keep)
        if bug == "keep_from_the_left":
            keep = keep.reshape(keep.shape + (1,) * (x.ndim - keep.ndim))
        if bug == "keep_first_entry" and keep.ndim >= 2:
            keep[1:] = keep[:1]
        if bug == "keep_inverted":
            np.logical_not(keep, out=keep)
        return keep

    def dropout(x, keep, rate):
        x = np.asarray(x)
        if keep is None or (bug == "rate_zero_skips_keep" and rate == 0):
            y = np.zeros(x.shape, x.dtype)
            y += x
            if bug == "active_in_eval":
                y /= 1.0 - float(rate)
            if bug == "eval_scale_too":
                y *= 1.0 - float(rate)
            return y
        if bug == "memory_order":
            flat = np.broadcast_to(keep, x.shape).ravel(order="C")
            return divide(x.ravel(order="K"), flat, 1.0 - float(rate), x.dtype).reshape(x.shape)
        mask = mask_for(x, keep, bug)
        if bug == "input_changed":
            np.multiply(x, mask, out=x)
        y = divide(x, mask, divisor(rate, mask, bug), np.float64 if bug == "widened" else x.dtype)
        if bug == "shared_buffer":
            shared = buffers.setdefault((y.shape, y.dtype), y)
            np.copyto(shared, y)
            return shared
        return y

    def dropout_backward(dy, keep, rate):
        dy = np.asarray(dy)
        if keep is None:
            dx = np.zeros(dy.shape, dy.dtype)
            dx += dy
            if bug == "backward_eval_scaled":
                dx /= 1.0 - float(rate)
            return dx
        mask = mask_for(dy, keep, bug)
        if bug == "backward_no_mask":
            mask.fill(True)
        if bug == "backward_fresh_mask":
            mask = own.random(dy.shape) >= rate
        by = divisor(rate, mask, bug)
        if bug == "backward_no_rescale":
            by = 1.0
        if bug == "backward_double_rescale":
            by *= by
        if bug == "backward_half_rate":
            by = 1.0 - _HALF
        return divide(dy, mask, by, dy.dtype)

    def keep_mask(rng, shape, rate):
        drawn = np.empty(shape)
        mask = np.empty(shape, bool)
        if bug == "keep_mask_reseeded":
            rng = np.random.Generator(np.random.PCG64(2))
        if bug == "keep_mask_tenths":
            rate = int(rate * 10) / 10
        rng.random(out=drawn)
        if bug == "shared_batch" and mask.ndim > 1:
            drawn[1:] = drawn[:1]
        if bug == "keep_mask_whole_rows" and mask.ndim:
            drawn[..., 1:] = drawn[..., :1]
        if bug == "keep_mask_exact_count":
            dropped = np.argsort(drawn, axis=None)[: round(rate * drawn.size)]
            mask.fill(True)
            mask.flat[dropped] = False
            return mask
        np.greater_equal(drawn, rate, out=mask)
        if bug == "keep_mask_p_is_keep":
            np.less(drawn, rate, out=mask)
        return mask.astype(np.float32) if bug == "keep_mask_float" else mask

    return dropout, dropout_backward, keep_mask
