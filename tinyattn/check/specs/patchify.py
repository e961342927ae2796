"""Patches of images."""

from typing import Any

import numpy as np

from .. import oracles
from ..common import tolerance
from ..families import linear_in
from ..property import close
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("patchify")
linear_in(states, "x", hint="Is anything added?")


def case(draw: CaseDrawer) -> dict[str, Any]:
    patch, u, v, C = (draw.choose(range(1, 4)) for _ in range(4))
    return {"x": draw.array(*draw.lead, u * patch, v * patch, C), "patch": patch}


@states("rounding", "a linear map of patches is a convolution at every patch-th row and column",
        hint="In which order are a patch's numbers: rows, columns, channels?")
def strided_convolution(op: Subject, x: np.ndarray, patch: int) -> None:
    C = x.shape[-1]
    W = np.cos(np.arange(patch * patch * C * 2, dtype=x.dtype)).reshape(patch, patch, C, 2)
    strided = oracles.conv2d(x, W, padding="valid")[..., ::patch, ::patch, :]
    y = op(x, patch) @ W.reshape(-1, 2)
    close(y, strided.reshape(y.shape), 4 * tolerance(SPEC, {"x": x, "patch": patch}), "y W")


@states("exact", "patches of one pixel are the pixels, row by row", hint="Which axis moves first?")
def pixels(op: Subject, x: np.ndarray, patch: int) -> None:
    close(op(x, 1), x.reshape(*x.shape[:-3], -1, x.shape[-1]), 0, "y")


@states("exact", "the backward undoes the forward", "gradients", hint="Every number of x is read once.")
def inverse(op: Subject, x: np.ndarray, patch: int) -> None:
    close(op.gradients({"x": x, "patch": patch}, op(x, patch))["x"], x, 0, "dx")


SPEC = states.spec(
    "y_{t, (a P + b) C + c} = x_{u P + a, v P + b, c}, P = patch, t = u (w / P) + v",
    "patchify(x, patch) -> y: x (..., h, w, C), y (..., h w / patch², patch² C); patches row by row, in each "
    "the pixels row by row, for each pixel its channels",
    case=case,
    wrt=("x",),
)
