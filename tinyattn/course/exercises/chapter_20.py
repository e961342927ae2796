"""Exercises of chapter 20, images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.property import largest, rounding
from ..graders import Function, Number
from ..plain import adjustable, plain_spec
from ..prose import Prose

PROSE = Prose(20)
GRID, SIDE, WIDTH = 56, 7, 96                # of window_saving: Swin's first stage, at 224 x 224 pixels


# my_patch_gradients
@adjustable
def _patch_gradients(
    dy: Any, x: Any, W: Any, *,
    rows_of: Any = ops.patchify, back: Any = ops.patchify_backward,
    dW_of: Any = lambda rows, dy, W: (rows.T @ dy).reshape(W.shape), flat: Any = lambda W: W.reshape(-1, W.shape[-1]),
    of_dx: float = 1.0, exchanged: bool = False,
) -> Any:  # fmt: skip
    """-> dx, dW of y = patches(x) W."""
    dx = of_dx * back(dy @ flat(W).T, x, len(W))
    dW = dW_of(rows_of(x, len(W)), dy, W)
    return (dW, dx) if exchanged else (dx, dW)


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
    """The image of patches whose axes have this order: (u, v) is the patch, (y, x) the pixel in it, c the channel."""
    h, w, C = x.shape
    sizes = {"u": h // P, "v": w // P, "y": P, "x": P, "c": C}
    parts = dp.reshape([sizes[axis] for axis in axes])
    return parts.transpose([axes.index(axis) for axis in "uyvxc"]).reshape(x.shape)


def _spread(dp: Any, x: Any, P: int) -> Any:
    """Every pixel of a patch gets the mean of its gradients."""
    mean = dp.reshape(len(dp), P * P, -1).mean(axis=1, keepdims=True)
    return ops.patchify_backward(np.broadcast_to(mean, (len(dp), P * P, mean.shape[-1])).reshape(dp.shape), x, P)


WRONG_PATCHES = dict(
    reshape_alone=_patch_gradients.but(back=lambda dp, x, P: dp.reshape(x.shape)),
    turned_inside=_patch_gradients.but(back=lambda dp, x, P: _put_back(dp, x, P, "uvxyc")),
    turned_patches=_patch_gradients.but(back=lambda dp, x, P: _put_back(dp, x, P, "vuyxc")),
    channels_first_back=_patch_gradients.but(back=lambda dp, x, P: _put_back(dp, x, P, "uvcyx")),
    spread=_patch_gradients.but(back=_spread),
    dw_of_rows_of_the_image=_patch_gradients.but(rows_of=lambda x, P: x.reshape(-1, P * P * x.shape[-1])),
    columns_first=_patch_gradients.but(rows_of=_columns_first),
    channels_first=_patch_gradients.but(flat=lambda W: W.transpose(2, 0, 1, 3).reshape(-1, W.shape[-1])),
    dw_flat=_patch_gradients.but(dW_of=lambda rows, dy, W: rows.T @ dy),
    dw_of_the_transpose=_patch_gradients.but(dW_of=lambda rows, dy, W: (dy.T @ rows).reshape(W.shape)),
    dw_mean=_patch_gradients.but(dW_of=lambda rows, dy, W: (rows.T @ dy).reshape(W.shape) / len(dy)),
    dw_of_the_first=_patch_gradients.but(dW_of=lambda rows, dy, W: (rows[:1].T @ dy[:1]).reshape(W.shape)),
    dw_of_the_last=_patch_gradients.but(dW_of=lambda rows, dy, W: (rows[-1:].T @ dy[-1:]).reshape(W.shape)),
    dw_zero=_patch_gradients.but(dW_of=lambda rows, dy, W: np.zeros_like(W)),
    dx_zero=_patch_gradients.but(of_dx=0.0),
    sign_of_dx=_patch_gradients.but(of_dx=-1.0),
    exchanged=_patch_gradients.but(exchanged=True),
)


# my_attention_distance
def _places(n: int, columns: int) -> tuple[Any, Any]:
    """Rows down and columns to the right, from patch i to patch j: (n, n) each."""
    y, x = np.divmod(np.arange(n), columns)
    return y - y[:, None], x - x[:, None]


@adjustable
def _attention_distance(
    p: Any, columns: int, *, far: Any = np.hypot, side: Any = lambda n, columns: columns,
    mean: Any = lambda p, d: (p * d).sum(axis=-1).mean(axis=-1),
) -> Any:  # fmt: skip
    """The mean distance of each head; far(rows down, columns to the right) is the distance of two patches."""
    n = p.shape[-1]
    return mean(p, far(*_places(n, side(n, columns))))


def _grid_case(draw: CaseDrawer) -> dict[str, Any]:
    rows, columns, heads = (draw.choose(range(1, 5)) for _ in range(3))
    n = rows * columns
    return {"p": ops.softmax(draw.array(heads, n, n).astype(float)), "columns": columns}


DISTANCE = plain_spec(
    "head_distance", "the mean over queries of the mean distance, weighted by p", _grid_case, _attention_distance,
    "distance", atol=lambda case: rounding(case["p"].dtype, case["p"].shape[-1], 10))  # fmt: skip


def _to_the_mean_place(p: Any, columns: int) -> Any:
    """The distance from a query to the mean of the places that it looks at."""
    dy, dx = _places(p.shape[-1], columns)
    return np.hypot((p * dy).sum(axis=-1), (p * dx).sum(axis=-1)).mean(axis=-1)


def _of_the_largest(p: Any, d: Any) -> Any:
    at = p.argmax(axis=-1)[..., None]
    return np.take_along_axis(np.broadcast_to(d, p.shape), at, axis=-1).mean(axis=(-1, -2))


def _without_itself(p: Any, d: Any) -> Any:
    others = p * (1 - np.eye(p.shape[-1]))
    return (others * d).sum(axis=-1).mean(axis=-1) / np.maximum(others.sum(axis=-1).mean(axis=-1), 1e-9)


WRONG_DISTANCE = dict(
    city_blocks=_attention_distance.but(far=lambda dy, dx: abs(dy) + abs(dx)),
    larger_of_the_two=_attention_distance.but(far=lambda dy, dx: np.maximum(abs(dy), abs(dx))),
    root_missing=_attention_distance.but(far=lambda dy, dx: dy**2 + dx**2),
    patch_numbers_subtracted=lambda p, columns: (
        (p * abs(np.subtract.outer(*[np.arange(p.shape[-1])] * 2))).sum(axis=-1).mean(axis=-1)
    ),
    rows_for_columns=_attention_distance.but(side=lambda n, c: max(1, n // c)),
    square_grid=_attention_distance.but(side=lambda n, c: math.isqrt(n)),
    queries_summed=_attention_distance.but(mean=lambda p, d: (p * d).sum(axis=(-1, -2))),
    mean_over_keys=_attention_distance.but(mean=lambda p, d: (p * d).mean(axis=(-1, -2))),
    divided_too_often=_attention_distance.but(mean=lambda p, d: (p * d).mean(axis=-1).sum(axis=-1) / p.shape[-1] ** 2),
    weights_ignored=_attention_distance.but(mean=lambda p, d: np.full(len(p), d.mean())),
    mean_over_heads=_attention_distance.but(mean=lambda p, d: (p * d).sum(axis=-1).mean()),
    every_query=_attention_distance.but(mean=lambda p, d: (p * d).sum(axis=-1)),
    largest_weight_alone=_attention_distance.but(mean=_of_the_largest),
    root_mean_square=_attention_distance.but(mean=lambda p, d: np.sqrt((p * d**2).sum(axis=-1).mean(axis=-1))),
    without_itself=_attention_distance.but(mean=_without_itself),
    to_the_mean_place=_to_the_mean_place,
)


# window_saving
def _window_saving() -> float:
    """A token's multiply-adds, with all keys and with a window's: four projections D × D, two products with keys."""
    full, window = (4 * WIDTH * WIDTH + 2 * keys * WIDTH for keys in (GRID**2, SIDE**2))
    return full / window


# repaired_windows
@adjustable
def _windows(
    height: int, width: int, window: int, shift: int, *, shifted: Any = lambda place, s: place - s,
    cells: Any = lambda y, x, H, W, w: (y // w, x // w), both: Any = lambda rows, columns: rows & columns,
) -> Any:  # fmt: skip
    """The (n, n) mask of pairs in one window; `both` joins pairs in one row and in one column of windows."""
    y, x = (shifted(place, shift) for place in np.divmod(np.arange(height * width), width))
    return both(*(c[:, None] == c for c in cells(y, x, height, width, window)))


def _windows_case(draw: CaseDrawer) -> dict[str, Any]:
    window, u, v = draw.choose((2, 3, 4, 1)), draw.choose((2, 3, 1)), draw.choose((2, 3, 1))
    return {"height": u * window, "width": v * window, "window": window, "shift": draw.choose(range(window))}


WINDOWS = plain_spec(
    "repaired_windows", "patches share a window of the shifted grid, which ends at the borders", _windows_case,
    _windows, "mask", atol=0)  # fmt: skip


def _without_borders(height: int, width: int, window: int, shift: int) -> Any:
    """Patches above and left of the shifted grid look at nothing."""
    y, x = np.divmod(np.arange(height * width), width)
    return _windows(height, width, window, shift) & ((y >= shift) & (x >= shift))


WRONG_WINDOWS = dict(
    rolled=_windows.but(cells=lambda y, x, H, W, w: (y % H // w, x % W // w)),
    left_and_right_share=_windows.but(cells=lambda y, x, H, W, w: (y // w, x % W // w)),
    top_and_bottom_share=_windows.but(cells=lambda y, x, H, W, w: (y % H // w, x // w)),
    other_way=lambda height, width, window, shift: _windows(height, width, window, -shift),
    rounded_towards_zero=_windows.but(cells=lambda y, x, H, W, w: (np.trunc(y / w), np.trunc(x / w))),
    not_shifted=_windows.but(shifted=lambda place, s: place),
    either_row_or_column=_windows.but(both=lambda rows, columns: rows | columns),
    rows_alone=_windows.but(cells=lambda y, x, H, W, w: (y // w, y // w)),
    columns_alone=_windows.but(cells=lambda y, x, H, W, w: (x // w, x // w)),
    mask_turned=_windows.but(both=lambda rows, columns: ~(rows & columns)),
    rows_and_columns_swapped=lambda height, width, window, shift: _windows(width, height, window, shift),
    and_the_grid_that_stood=lambda height, width, window, shift: (
        _windows(height, width, window, shift) & _windows(height, width, window, 0)
    ),
    either=lambda height, width, window, shift: (
        _windows(height, width, window, shift) | _windows(height, width, window, 0)
    ),
    without_borders=_without_borders,
    places_in_the_window=_windows.but(cells=lambda y, x, H, W, w: (y % w, x % w)),
    zeros_and_infinities=lambda height, width, window, shift: (
        np.where(_windows(height, width, window, shift), 0.0, -np.inf)
    ),
)


EXERCISES = PROSE.exercises(
    my_patch_gradients=Function(PATCHES, tempting=WRONG_PATCHES),
    my_attention_distance=Function(DISTANCE, tempting=WRONG_DISTANCE),
    window_saving=Number(_window_saving, tolerance=0.03),
    repaired_windows=Function(WINDOWS, tempting=WRONG_WINDOWS),
)
