"""Exercises of chapter 20, images."""

from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.property import largest, rounding
from ..graders import Function, Number
from ..plain import Changes, changed, plain_spec
from ..prose import Prose

GRID, SIDE, WIDTH = 56, 7, 96                # of window_saving: Swin's first stage, at 224 x 224 pixels


# my_patch_gradients
def _patch_gradients(dy: Any, x: Any, W: Any) -> Any:
    """-> dx, dW of y = patches(x) W."""
    dx = 1.0 * ops.patchify_backward(dy @ W.reshape(-1, W.shape[-1]).T, x, len(W))
    dW = (ops.patchify(x, len(W)).T @ dy).reshape(W.shape)
    return dx, dW


def _patches_case(draw: CaseDrawer) -> dict[str, Any]:
    P, u, v, C, D = (draw.choose(range(1, 4)) for _ in range(5))
    return {"dy": draw.array(u * v, D), "x": draw.array(u * P, v * P, C), "W": draw.array(P, P, C, D)}


PATCHES = plain_spec(
    "patch_gradients", "the gradients of y = patches(x) @ W, a token a patch", _patches_case, _patch_gradients,
    "dx", "dW", atol=lambda case: 30 * rounding(case["x"].dtype, case["x"].size, largest(*case.values(), 1) ** 2),
)  # fmt: skip


def _columns_first(x: Any, P: int) -> Any:
    """The patches column by column."""
    h, w, C = x.shape
    return x.reshape(h // P, P, w // P, P, C).transpose(2, 0, 1, 3, 4).reshape(-1, P * P * C)


def _put_back(dp: Any, x: Any, P: int, axes: str) -> Any:
    """The image from patches with axes in this order. (u, v) is the patch, (y, x) the pixel in it, c the channel."""
    h, w, C = x.shape
    sizes = {"u": h // P, "v": w // P, "y": P, "x": P, "c": C}
    parts = dp.reshape([sizes[axis] for axis in axes])
    return parts.transpose([axes.index(axis) for axis in "uyvxc"]).reshape(x.shape)


def _spread(dp: Any, x: Any, P: int) -> Any:
    """Every pixel of a patch gets the mean of its gradients."""
    mean = dp.reshape(len(dp), P * P, -1).mean(axis=1, keepdims=True)
    return ops.patchify_backward(np.broadcast_to(mean, (len(dp), P * P, mean.shape[-1])).reshape(dp.shape), x, P)


# my_attention_distance
def _places(n: int, columns: int) -> tuple[Any, Any]:
    """The distance from patch i to patch j in rows (downwards) and in columns (to the right): (n, n) each."""
    y, x = np.divmod(np.arange(n), columns)
    return y - y[:, None], x - x[:, None]


def _attention_distance(p: Any, columns: int) -> Any:
    """The mean distance of each head."""
    n = p.shape[-1]
    down, right = _places(n, columns)
    return (p * np.hypot(down, right)).sum(axis=-1).mean(axis=-1)


def _grid_case(draw: CaseDrawer) -> dict[str, Any]:
    rows, columns, heads = (draw.choose(range(1, 5)) for _ in range(3))
    n = rows * columns
    return {"p": ops.softmax(draw.array(heads, n, n).astype(float)), "columns": columns}


DISTANCE = plain_spec(
    "head_distance", "the mean over queries of the mean distance, weighted by p", _grid_case, _attention_distance,
    "distance", atol=lambda case: rounding(case["p"].dtype, case["p"].shape[-1], 10))  # fmt: skip


def _of_the_largest(p: Any, d: Any) -> Any:
    at = p.argmax(axis=-1)[..., None]
    return np.take_along_axis(np.broadcast_to(d, p.shape), at, axis=-1).mean(axis=(-1, -2))


def _without_itself(p: Any, d: Any) -> Any:
    others = p * (1 - np.eye(p.shape[-1]))
    return (others * d).sum(axis=-1).mean(axis=-1) / np.maximum(others.sum(axis=-1).mean(axis=-1), 1e-9)


WRONG_DISTANCE = Changes(_attention_distance,
    patch_numbers_subtracted=lambda p, columns: (
        (p * abs(np.subtract.outer(*[np.arange(p.shape[-1])] * 2))).sum(axis=-1).mean(axis=-1)
    ),
    to_the_mean_place=changed(_attention_distance, "(p * np.hypot(down, right)).sum(axis=-1) -> "
                              "np.hypot((p * down).sum(axis=-1), (p * right).sum(axis=-1))"),
)


# repaired_windows
def _windows(height: int, width: int, window: int, shift: int) -> Any:
    """The (n, n) mask of pairs in one window."""
    y, x = (place - shift for place in np.divmod(np.arange(height * width), width))
    row, column = y // window, x // window
    return (row[:, None] == row) & (column[:, None] == column)


def _windows_case(draw: CaseDrawer) -> dict[str, Any]:
    window, u, v = draw.choose((2, 3, 4, 1)), draw.choose((2, 3, 1)), draw.choose((2, 3, 1))
    return {"height": u * window, "width": v * window, "window": window, "shift": draw.choose(range(window))}


WINDOWS = plain_spec(
    "repaired_windows", "patches share a window of the shifted grid, which ends at the borders", _windows_case,
    _windows, "mask", atol=0)  # fmt: skip


WRONG_WINDOWS = Changes(_windows,
    other_way=lambda height, width, window, shift: _windows(height, width, window, -shift),
    rows_and_columns_swapped=lambda height, width, window, shift: _windows(width, height, window, shift),
    and_the_grid_that_stood=lambda height, width, window, shift: (
        _windows(height, width, window, shift) & _windows(height, width, window, 0)
    ),
    either=lambda height, width, window, shift: (
        _windows(height, width, window, shift) | _windows(height, width, window, 0)
    ),
    without_borders=changed(_windows, "== column) -> == column) & (y >= 0) & (x >= 0)"),
    zeros_and_infinities=lambda height, width, window, shift: (
        np.where(_windows(height, width, window, shift), 0.0, -np.inf)
    ),
)


EXERCISES = Prose(20).exercises(
    my_patch_gradients=Function(PATCHES, tempting=Changes(_patch_gradients)),
    my_attention_distance=Function(DISTANCE, tempting=WRONG_DISTANCE),
    # a token's multiply-adds with all keys over those with a window's: four projections and two products
    window_saving=Number(lambda: (4 * WIDTH + 2 * GRID**2) / (4 * WIDTH + 2 * SIDE**2), tolerance=0.03),
    repaired_windows=Function(WINDOWS, tempting=WRONG_WINDOWS),
)
