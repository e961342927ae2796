"""Maxima over windows of time."""

from typing import Any

import numpy as np

from ..families import batch_apart
from ..property import close, demand
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("max_pool1d")
batch_apart(states)


def case(draw: CaseDrawer) -> dict[str, Any]:
    """Numbers that differ by 0.1 at least: between equal ones the maximum has no derivative."""
    width = draw.choose(range(1, 5))
    shape = (*draw.lead, draw.tokens() + width - 1, draw.size())
    x = draw.rng.permutation(int(np.prod(shape))).reshape(shape) * 0.1 - 1
    return {"x": np.asarray(x, draw.dtype), "width": width}


@states("exact", "with a window of one token, y is x", hint="How many tokens does a window of width 1 hold?")
def alone(op: Subject, x: np.ndarray, width: int) -> None:
    close(op(x, 1), x, 0, "y")


@states("exact", "each output is the largest number of its window", hint="Where does a window begin and end?")
def largest_of_window(op: Subject, x: np.ndarray, width: int) -> None:
    y = op(x, width)
    windows = np.stack([x[..., j : j + y.shape[-2], :] for j in range(width)])
    demand(np.all(y >= windows) and np.all(np.any(y == windows, axis=0)), "an output is not its window's maximum")


@states("exact", "of equal numbers the first receives the whole gradient", "gradients", hint="> or >=?")
def ties(op: Subject, x: np.ndarray, width: int) -> None:
    n = x.shape[-2] - width + 1
    dy = np.ones((*x.shape[:-2], n, x.shape[-1]), x.dtype)
    expected = np.zeros_like(x)
    expected[..., :n, :] = 1
    close(op.gradients({"x": np.zeros_like(x), "width": width}, dy)["x"], expected, 0, "dx")


SPEC = states.spec(
    "y_t = max x_{t + j} over 0 <= j < width, each feature alone",
    "max_pool1d(x, width) -> y first: x (..., n, d), y (..., n - width + 1, d); of equal numbers the first is the "
    "maximum",
    case=case,
    wrt=("x",),
)
