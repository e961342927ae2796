"""Convolutions, pooling and patches."""

from typing import Any

import numpy as np

from .. import oracles
from ..common import tolerance
from ..families import batch_apart, causal, linear_in
from ..property import close, demand, waves
from ..spec import Form
from .builder import CaseDrawer, SpecBuilder, Subject

conv1d = SpecBuilder("conv1d")
linear_in(conv1d, "x", hint="Is anything added?")
linear_in(conv1d, "W")
batch_apart(conv1d)
causal(conv1d, "x", of=lambda case: case | {"padding": "causal"}, hint="On which side do the zeros go?")


def conv1d_case(draw: CaseDrawer) -> dict[str, Any]:
    K, dilation, i = (draw.choose(range(1, most + 1)) for most in (4, 3, 4))
    padding = draw.choose(("same", "causal", "valid"))
    n = draw.tokens() + ((K - 1) * dilation if padding == "valid" else 0)
    x, W = draw.array(*draw.lead, n, i), draw.array(K, i, draw.size_like(i))
    return {"x": x, "W": W, "dilation": dilation, "padding": padding}


conv1d.law("shift", "rounding", "shifting tokens shifts outputs, away from the ends", lambda op, c: (
            (np.roll(op(**c(x=x)), 2, axis=-2), op(**c(x=np.roll(x, 2, axis=-2))))
            for x in [np.pad(c.x, [(0, 0)] * (c.x.ndim - 2) + [(12, 12), (0, 0)])]
        ), what="y of a sequence two tokens later", hint="Do all tokens share one kernel?")


@conv1d("exact", "a token reaches the outputs under the kernel, dilation apart, and no others", gravity="leak",
        hint="How far apart are two neighbours in the kernel, and where does it begin?")
def reach(op: Subject, **case: Any) -> None:
    K, gaps = len(case["W"]), (len(case["W"]) - 1) * case["dilation"]
    before = {"valid": 0, "same": gaps // 2, "causal": gaps}[case["padding"]]
    W = np.ones_like(case["W"])
    for s in range(case["x"].shape[-2]):
        x = np.zeros_like(case["x"])
        x[..., s, :] = 1
        y = op(**case | {"x": x, "W": W})
        expected = {s - j * case["dilation"] + before for j in range(K)} & set(range(y.shape[-2]))
        reached = set(np.nonzero(y)[-2].tolist())
        demand(reached == (expected if x.any() else set()), f"token {s} reaches outputs {reached}, expected {expected}")


CONV1D = conv1d.spec(
    "y_t = Σ_j x_{t + j δ - p} W_j, δ = dilation, p = 0, (K - 1) δ // 2 or (K - 1) δ: padding valid, same or causal",
    "conv1d(x, W, dilation=1, padding='same') -> y: x (..., n, i), W (K, i, o), y (..., n, o), "
    "with 'valid' (..., n - (K - 1) dilation, o); beyond both ends x is 0",
    case=conv1d_case, wrt=("x", "W"), forms=(Form("padding='causal'", lambda case: case["padding"] == "causal"),),
)


conv2d = SpecBuilder("conv2d")
linear_in(conv2d, "x", hint="Is anything added?")
linear_in(conv2d, "W")


def conv2d_case(draw: CaseDrawer) -> dict[str, Any]:
    K, L, dilation, h, w, i, o = (draw.choose(range(1, most + 1)) for most in (3, 3, 2, 4, 4, 3, 3))
    padding = draw.choose(("same", "valid"))
    h, w = (n + ((k - 1) * dilation if padding == "valid" else 0) for n, k in ((h, K), (w, L)))
    x, W = draw.array(*draw.lead, h, w, i), draw.array(K, L, i, o)
    return {"x": x, "W": W, "dilation": dilation, "padding": padding}


conv2d.law("shift", "rounding", "shifting the grid shifts the outputs, away from the edges", lambda op, c: (
            (np.roll(op(**c(x=x)), (2, 1), axis=(-3, -2)), op(**c(x=np.roll(x, (2, 1), axis=(-3, -2)))))
            for x in [np.pad(c.x, [(0, 0)] * (c.x.ndim - 3) + [(6, 6), (6, 6), (0, 0)])]
        ), what="y of a grid that was moved", hint="Do all tokens share a kernel?")


@conv2d("rounding", "a kernel of one row is conv1d of each row, and one of one column conv1d of each column",
        hint="Which axis of the kernel goes along which axis of the grid?")
def rows_and_columns(op: Subject, **case: Any) -> None:
    x, W = case["x"], case["W"][:, :1]
    across = op(**case | {"W": W.swapaxes(0, 1).copy(), "x": x.swapaxes(-3, -2).copy()})
    down = op(**case | {"W": W}).swapaxes(-3, -2)
    close(down, across, tolerance(CONV2D, case), "y of the transposed grid and kernel")
    expected = oracles.conv1d(x.swapaxes(-3, -2).astype(float), W[:, 0], case["dilation"], case["padding"])
    close(across, expected, tolerance(CONV2D, case), "y by columns")


CONV2D = conv2d.spec(
    "y_st = Σ_jl x_{s + j δ - p, t + l δ - r} W_jl, δ = dilation, p and r = 0 or (K - 1) δ // 2 and (L - 1) δ // 2: "
    "padding valid or same",
    "conv2d(x, W, dilation=1, padding='same') -> y: x (..., h, w, i), W (K, L, i, o), y (..., h, w, o), "
    "with 'valid' (..., h - (K - 1) dilation, w - (L - 1) dilation, o); beyond the edges x is 0",
    case=conv2d_case, wrt=("x", "W"),
)


depthwise_conv1d = SpecBuilder("depthwise_conv1d")
linear_in(depthwise_conv1d, "x", hint="Is anything added?")
linear_in(depthwise_conv1d, "W")
batch_apart(depthwise_conv1d)


def depthwise_conv1d_case(draw: CaseDrawer) -> dict[str, Any]:
    K, d = draw.choose(range(1, 5)), draw.size()
    return {"x": draw.array(*draw.lead, draw.tokens() + K - 1, d), "W": draw.array(K, d)}


depthwise_conv1d.law("channels_apart", "rounding", "a channel alone has the same outputs as among others",
        lambda op, c: (
            (op(c.x[..., i : i + 1].copy(), c.W[:, i : i + 1].copy()), y[..., i : i + 1], None, f"channel {i} of y")
            for y in [op(**c)] for i in range(c.W.shape[1])
        ), hint="Is the product with the kernel entry by entry?", gravity="leak")
depthwise_conv1d.law("one_place", "exact", "a kernel with a single 1 shifts the tokens", lambda op, c: (
            (op(c.x, c.W.dtype.type(1) * (j == places)), c.x[..., j : c.x.shape[-2] - len(c.W) + 1 + j, :], 0,
             f"with a 1 at place {j}, y")
            for places in [np.indices(c.W.shape)[0]] for j in range(len(c.W))
        ), hint="Is the kernel flipped?")

DEPTHWISE_CONV1D = depthwise_conv1d.spec(
    "y_t = Σ_j x_{t + j} ⊙ W_j",
    "depthwise_conv1d(x, W) -> y: x (..., n, d), W (K, d), y (..., n - K + 1, d)",
    case=depthwise_conv1d_case, wrt=("x", "W"),
)


max_pool1d = SpecBuilder("max_pool1d")
batch_apart(max_pool1d)


def max_pool1d_case(draw: CaseDrawer) -> dict[str, Any]:
    """Numbers that differ by 0.1 at least: between equal ones the maximum has no derivative."""
    width = draw.choose(range(1, 5))
    shape = (*draw.lead, draw.tokens() + width - 1, draw.size())
    x = draw.rng.permutation(int(np.prod(shape))).reshape(shape) * 0.1 - 1
    return {"x": np.asarray(x, draw.dtype), "width": width}


max_pool1d.law("alone", "exact", "with a window of one token, y is x", lambda op, c: (op(c.x, 1), c.x),
        hint="How many tokens does a window of width 1 hold?")
max_pool1d.law("largest_of_window", "exact", "each output is the largest number of its window", lambda op, c: (
            np.array_equal(y := op(**c), np.max([c.x[..., j : j + y.shape[-2], :] for j in range(c.width)], axis=0)),
            "an output is not its window's maximum",
        ), hint="Where does a window begin and end?")


@max_pool1d("exact", "of equal numbers the first receives the whole gradient", "gradients", hint="> or >=?")
def ties(op: Subject, x: np.ndarray, width: int) -> None:
    n = x.shape[-2] - width + 1
    dy = np.ones((*x.shape[:-2], n, x.shape[-1]), x.dtype)
    expected = np.zeros_like(x)
    expected[..., :n, :] = 1
    close(op.gradients({"x": np.zeros_like(x), "width": width}, dy)["x"], expected, 0, "dx")


MAX_POOL1D = max_pool1d.spec(
    "y_t = max x_{t + j} over 0 <= j < width, each feature alone",
    "max_pool1d(x, width) -> y first: x (..., n, d), y (..., n - width + 1, d); of equal numbers the first is the "
    "maximum",
    case=max_pool1d_case, wrt=("x",),
)


patchify = SpecBuilder("patchify")
linear_in(patchify, "x", hint="Is anything added?")


def patchify_case(draw: CaseDrawer) -> dict[str, Any]:
    patch, u, v, C = (draw.choose(range(1, 4)) for _ in range(4))
    return {"x": draw.array(*draw.lead, u * patch, v * patch, C), "patch": patch}


@patchify("rounding", "a linear map of patches is a convolution at every patch-th row and column",
        hint="In which order are a patch's numbers: rows, columns, channels?")
def strided_convolution(op: Subject, x: np.ndarray, patch: int) -> None:
    C = x.shape[-1]
    W = waves(x, patch, patch, C, 2)
    strided = oracles.conv2d(x, W, padding="valid")[..., ::patch, ::patch, :]
    y = op(x, patch) @ W.reshape(-1, 2)
    close(y, strided.reshape(y.shape), 4 * tolerance(PATCHIFY, {"x": x, "patch": patch}), "y W")


patchify.law("pixels", "exact", "patches of one pixel are the pixels, row by row",
        lambda op, c: (op(c.x, 1), c.x.reshape(*c.x.shape[:-3], -1, c.x.shape[-1])), hint="Which axis moves first?")
patchify.law("inverse", "exact", "the backward undoes the forward", lambda op, c: (op.gradients(c, op(**c))["x"], c.x),
        "gradients", what="dx", hint="Every number of x is read once.")

PATCHIFY = patchify.spec(
    "y_{t, (a P + b) C + c} = x_{u P + a, v P + b, c}, P = patch, t = u (w / P) + v",
    "patchify(x, patch) -> y: x (..., h, w, C), y (..., h w / patch², patch² C); patches row by row, in each "
    "the pixels row by row, for each pixel its channels",
    case=patchify_case, wrt=("x",),
)
