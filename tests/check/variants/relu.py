"""The ReLU written three times, differently, and the bugs that can be planted in each."""

import math
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")
_ALL = STYLES

PLANTED = {
    "leaky": ("loops",),
    "abs": ("loops",),
    "clip_6": ("loops",),
    "mask_from_dy": ("loops",),
    "mask_from_abs": ("loops",),
    "inplace": ("loops",),
    "ones": ("loops",),
    "softplus": ("loops",),
    "truncated_test": ("loops",),
    "writes_x": ("einsum", "inplace"),
    "view_if_positive": ("einsum", "inplace"),
    "fortran_order": ("loops",),
    "widened": ("loops",),
    "leaky_backward": ("loops",),
    "row_mask": ("loops",),
    "mask_of_first": ("loops",),
    "remembers_mask": ("einsum", "inplace"),
    "upper_bound_in_backward": ("loops",),
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
        y = np.asarray(np.einsum("...,...->...", x, gate.astype(x.dtype)))
        if bug == "writes_x" and x.flags.writeable:
            x[...] = y
        return np.array(y, dtype=x.dtype)

    def relu_backward(dy, x):
        gate = step(x)
        if bug == "remembers_mask" and getattr(latest.get("gate"), "shape", None) == x.shape:
            gate = latest["gate"]
        dx = np.array(np.einsum("...,...->...", dy, gate.astype(dy.dtype)))
        return dx

    return (relu, relu_backward)


def _inplace(bug):
    """A copy whose negative entries are overwritten."""
    latest = {}

    def relu(x):
        if bug == "view_if_positive" and (not np.any(x < 0)):
            return x.view()
        y = np.array(x, order="C")
        negative = np.less(y, 0)
        if bug == "remembers_mask":
            latest["dead"] = np.less_equal(x, 0)
        y[negative] = 0
        if bug == "writes_x" and x.flags.writeable:
            x[negative] = 0
        return y

    def relu_backward(dy, x):
        dx = np.array(dy, order="C")
        dead = np.less_equal(x, 0)
        if bug == "remembers_mask" and getattr(latest.get("dead"), "shape", None) == x.shape:
            dead = latest["dead"]
        dx[dead] = 0
        return dx

    return (relu, relu_backward)
