"""The ReLU written three times, differently, and the bugs that can be planted in each."""

import math
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")
_ALL = STYLES

PLANTED = {
    "leaky": _ALL,
    "abs": _ALL,
    "clip_6": _ALL,
    "mask_from_dy": _ALL,
    "mask_from_abs": _ALL,
    "inplace": _ALL,
    "ones": _ALL,
    "softplus": _ALL,
    "truncated_test": _ALL,
    "writes_x": ("einsum", "inplace"),
    "view_if_positive": ("einsum", "inplace"),
    "fortran_order": ("loops", "inplace"),
    "widened": ("loops", "einsum"),
    "leaky_backward": _ALL,
    "row_mask": _ALL,
    "mask_of_first": _ALL,
    "remembers_mask": ("einsum", "inplace"),
    "upper_bound_in_backward": _ALL,
}

INVENTED = {
    "softplus": "log(1 + exp(x)), the smooth cousin",
    "truncated_test": "x is compared with 0 after cutting off its fraction: 0 < x < 1 gives 0",
    "writes_x": "the forward clears the negative entries of the caller's x, where that can be written to",
    "view_if_positive": "where nothing is negative x itself is returned",
    "fortran_order": "entries are read in memory order, which is wrong for Fortran-ordered x only",
    "widened": "float32 inputs give float64 results",
    "leaky_backward": "the gradient is 0.01 dy where x is negative",
    "row_mask": "dy passes along the whole last axis if any entry of x there is positive",
    "mask_of_first": "the mask of the first batch entry serves all: wrong for a first axis longer than 1",
    "remembers_mask": "the backward uses the mask of the latest forward, not x, where shapes agree",
    "upper_bound_in_backward": "the gradient is 0 where x exceeds 6",
}


def make(style, bug=None):
    """-> a namespace with relu and relu_backward; with `bug`, wrong in exactly that one way."""
    if style not in STYLES or (bug is not None and style not in PLANTED[bug]):
        raise ValueError(f"no {bug} in style {style}")
    forward, backward = {"loops": _loops, "einsum": _einsum, "inplace": _inplace}[style](bug)
    return SimpleNamespace(relu=forward, relu_backward=backward)


def _loops(bug):
    """One number at a time."""

    def value(v):
        if bug == "leaky":
            return v if v > 0 else 0.01 * v
        if bug == "abs":
            return abs(v)
        if bug == "clip_6":
            return min(max(v, 0.0), 6.0)
        if bug == "softplus":
            return max(v, 0.0) + math.log1p(math.exp(-abs(v)))
        if bug == "truncated_test":
            return v if math.trunc(v) > 0 else 0.0
        return v if v > 0 else 0.0

    def relu(x):
        order = "A" if bug == "fortran_order" else "C"
        y = [value(v) for v in x.reshape(-1, order=order).tolist()]
        return np.array(y, np.float64 if bug == "widened" else x.dtype).reshape(x.shape)

    def passes(u, v):
        """Does the gradient u pass at x = v?"""
        if bug == "mask_from_dy":
            return u > 0
        if bug == "mask_from_abs":
            return abs(v) > 0
        if bug == "upper_bound_in_backward":
            return 0 < v < 6
        return v > 0

    def relu_backward(dy, x):
        if bug == "ones":
            return dy.copy()
        dx = np.empty(x.shape, x.dtype)
        for k in np.ndindex(*x.shape):
            u, v = dy[k].item(), x[k].item()
            if bug == "row_mask" and k:
                v = max(x[k[:-1]].tolist())
            if bug == "mask_of_first" and k:
                v = x[(0, *k[1:])].item()
            dx[k] = u if passes(u, v) else 0.0
            if bug == "leaky_backward" and v < 0:
                dx[k] = 0.01 * u
            if bug == "leaky" and v < 0:
                dx[k] = 0.01 * u
            if bug == "inplace" and dy.flags.writeable:
                dy[k] = dx[k]
        return dx

    return relu, relu_backward


def _einsum(bug):
    """A step function that multiplies: the ReLU's own derivative."""
    latest = {}

    def step(x):
        return np.asarray(np.heaviside(x, x.dtype.type(0)))

    def relu(x):
        if bug == "view_if_positive" and np.all(x >= 0):
            return x
        gate = step(x)
        if bug == "remembers_mask":
            latest["gate"] = gate
        if bug == "leaky":
            gate = gate + 0.01 * (1 - gate)
        if bug == "abs":
            gate = 2 * gate - 1
        if bug == "truncated_test":
            gate = step(np.asarray(np.trunc(x)))
        y = np.asarray(np.einsum("...,...->...", x, gate.astype(x.dtype)))
        if bug == "clip_6":
            y = np.asarray(np.minimum(y, 6))
        if bug == "softplus":
            y = y + np.log1p(np.exp(-np.abs(x)))
        if bug == "writes_x" and x.flags.writeable:
            x[...] = y
        if bug == "widened":
            return np.asarray(y * np.float64(1))
        return np.array(y, dtype=x.dtype)

    def relu_backward(dy, x):
        if bug == "ones":
            return dy
        gate = step(x)
        if bug == "mask_from_dy":
            gate = step(dy)
        if bug == "mask_from_abs":
            gate = step(np.asarray(np.abs(x)))
        if bug == "abs":
            gate = np.asarray(np.sign(x))
        if bug == "upper_bound_in_backward":
            gate = np.asarray(gate * step(6 - x))
        if bug == "leaky_backward":
            gate = np.asarray(gate + 0.01 * step(-x))
        if bug == "row_mask" and x.ndim and x.size:
            gate = np.broadcast_to(gate.max(axis=-1, keepdims=True), x.shape)
        if bug == "mask_of_first" and x.ndim and x.size:
            gate = np.broadcast_to(gate[:1], x.shape)
        if bug == "remembers_mask" and getattr(latest.get("gate"), "shape", None) == x.shape:
            gate = latest["gate"]
        if bug == "softplus":
            small = np.exp(-np.abs(x))
            gate = np.asarray(np.where(x > 0, 1, small) / (1 + small))
        dx = np.array(np.einsum("...,...->...", dy, gate.astype(dy.dtype)))
        if bug == "inplace" and dy.flags.writeable:
            dy[...] = dx
            return dy
        return dx

    return relu, relu_backward


def _inplace(bug):
    """A copy whose negative entries are overwritten."""
    latest = {}

    def relu(x):
        if bug == "view_if_positive" and not np.any(x < 0):
            return x.view()
        y = np.array(x, order="C")
        if bug == "fortran_order" and x.flags.f_contiguous:
            y.reshape(-1)[...] = x.ravel(order="K")
        negative = np.less(np.trunc(y), 1) if bug == "truncated_test" else np.less(y, 0)
        if bug == "remembers_mask":
            latest["dead"] = np.less_equal(x, 0)
        if bug == "leaky":
            y[negative] *= 0.01
        elif bug == "abs":
            np.negative(y, out=y, where=negative)
        elif bug == "softplus":
            np.logaddexp(y, y.dtype.type(0), out=y)
        else:
            y[negative] = 0
        if bug == "clip_6":
            np.minimum(y, 6, out=y)
        if bug == "writes_x" and x.flags.writeable:
            x[negative] = 0
        return y

    def relu_backward(dy, x):
        if bug == "ones":
            return dy.view()
        if bug == "inplace":
            dy *= x > 0
            return dy
        dx = np.array(dy, order="C")
        dead = np.less_equal(dy if bug == "mask_from_dy" else x, 0)
        if bug == "mask_from_abs":
            dead = np.equal(x, 0)
        if bug == "upper_bound_in_backward":
            dead = dead | np.greater(x, 6)
        if bug == "row_mask" and x.ndim:
            dead = np.broadcast_to(np.logical_and.reduce(dead, axis=-1, keepdims=True), x.shape)
        if bug == "mask_of_first" and x.ndim:
            dead = np.broadcast_to(dead[:1], x.shape) if x.size else dead
        if bug == "remembers_mask" and getattr(latest.get("dead"), "shape", None) == x.shape:
            dead = latest["dead"]
        if bug == "leaky_backward":
            dx[dead] *= 0.01
        else:
            dx[dead] = 0
        return dx

    return relu, relu_backward
