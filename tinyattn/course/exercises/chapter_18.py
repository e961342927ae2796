"""Exercises of chapter 18, images."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.property import Property as Law
from ...check.property import close, largest, rounding, stating
from ...check.spec import Spec
from ...check.subject import Subject
from ..exercise import Exercise
from ..graders import Function, Number

CHAPTER = 18
GRID, SIDE, WIDTH = 56, 7, 96                # of window_saving: Swin's first stage, at 224 x 224 pixels


# --- my_patch_gradients ---------------------------------------------------------------------------------------------


def _patch_gradients(dy: Any, x: Any, W: Any) -> Any:
    flat = W.reshape(-1, W.shape[-1])
    dW = ops.patchify(x, len(W)).T @ dy
    return ops.patchify_backward(dy @ flat.T, x, len(W)), dW.reshape(W.shape)


def _patches_case(draw: CaseDrawer) -> dict[str, Any]:
    P, u, v, C, D = (draw.choose(range(1, 4)) for _ in range(5))
    return {"dy": draw.array(u * v, D), "x": draw.array(u * P, v * P, C), "W": draw.array(P, P, C, D)}


_OF_PATCHES: list[Law] = []
_patches_state = stating("patch_gradients", _OF_PATCHES)


@_patches_state("rounding", "the gradients of y = patches(x) @ W, a token a patch", "oracle",
                hint="Do the example on paper.")  # fmt: skip
def _of_patches(op: Subject, **case: Any) -> None:
    atol = 30 * rounding(case["x"].dtype, case["x"].size, largest(*case.values(), 1) ** 2)
    for name, got, expected in zip(PATCHES.outputs, op.outputs(**case), _patch_gradients(**case), strict=True):
        close(got, expected, atol, name)


PATCHES = Spec(
    name="patch_gradients",
    says="y = patches(x) W, so d patches = dy Wᵀ, which goes back to its places, and dW = patches(x)ᵀ dy",
    function="patch_gradients",
    case=_patches_case,
    ours=lambda: SimpleNamespace(patch_gradients=_patch_gradients),
    properties=_OF_PATCHES,
    outputs=("dx", "dW"),
    common=False,
)


def _tiles(x: Any, P: int) -> Any:
    """(u, P, v, P, C): the image, with each side cut in two axes."""
    h, w, C = x.shape
    return x.reshape(h // P, P, w // P, P, C)


def _gradients_with(
    rows_of: Any = lambda x, P: ops.patchify(x, P), back: Any = lambda dp, x, P: ops.patchify_backward(dp, x, P),
    dW_of: Any = lambda rows, dy, W: (rows.T @ dy).reshape(W.shape), flat: Any = lambda W: W.reshape(-1, W.shape[-1]),
    of_dx: float = 1.0, turned: bool = False,
) -> Any:  # fmt: skip
    """Both gradients, with one line written otherwise."""

    def gradients(dy: Any, x: Any, W: Any) -> Any:
        dx = of_dx * back(dy @ flat(W).T, x, len(W))
        dW = dW_of(rows_of(x, len(W)), dy, W)
        return (dW, dx) if turned else (dx, dW)

    return gradients


def _columns_first(x: Any, P: int) -> Any:
    """The patches from top to bottom, and then the next column of them."""
    return _tiles(x, P).transpose(2, 0, 1, 3, 4).reshape(-1, P * P * x.shape[-1])


def _channels_first(W: Any) -> Any:
    return W.transpose(2, 0, 1, 3).reshape(-1, W.shape[-1])


def _turned_inside(dp: Any, x: Any, P: int) -> Any:
    """Rows and columns of a patch have changed places."""
    h, w, C = x.shape
    return dp.reshape(h // P, w // P, P, P, C).transpose(0, 3, 1, 2, 4).reshape(x.shape)


def _turned_patches(dp: Any, x: Any, P: int) -> Any:
    """The patches go back column by column."""
    h, w, C = x.shape
    return dp.reshape(w // P, h // P, P, P, C).transpose(1, 2, 0, 3, 4).reshape(x.shape)


def _channels_first_back(dp: Any, x: Any, P: int) -> Any:
    h, w, C = x.shape
    return dp.reshape(h // P, w // P, C, P, P).transpose(0, 3, 1, 4, 2).reshape(x.shape)


def _spread(dp: Any, x: Any, P: int) -> Any:
    """Every pixel of a patch gets the mean of its gradients."""
    mean = dp.reshape(len(dp), P * P, -1).mean(axis=1, keepdims=True)
    return ops.patchify_backward(np.broadcast_to(mean, (len(dp), P * P, mean.shape[-1])).reshape(dp.shape), x, P)


_PLACES = "To which pixel does number 1 of the first patch go back: to the one on the right, or to the one below?"
WRONG_PATCHES = (
    (_gradients_with(back=lambda dp, x, P: dp.reshape(x.shape)),
     "The second row of dy Wᵀ is the second patch. Where in the image is its first number?",
     "A reshape alone puts patches one after the other, as if each were a stretch of rows. Swap the axes back first."),
    (_gradients_with(back=_turned_inside), _PLACES, "Rows and columns of a patch have changed places."),
    (_gradients_with(back=_turned_patches), "Is the second patch beside the first, or below it?",
     "The patches go back column by column; they were read row by row."),
    (_gradients_with(back=_channels_first_back), "Which stand side by side in a row of patches: a pixel's channels?",
     "The channels come last: (P, P, C), not (C, P, P)."),
    (_gradients_with(back=_spread), "Has each pixel of a patch a weight of its own?",
     "Every pixel of a patch gets the same. Each went through its own row of W."),
    (_gradients_with(rows_of=lambda x, P: x.reshape(-1, P * P * x.shape[-1])),
     "The second row of patches(x) is the second patch. Which pixels are in yours?",
     "For dW the image was reshaped without swapping axes: rows of it, not patches."),
    (_gradients_with(rows_of=_columns_first), "Is the second patch beside the first, or below it?",
     "For dW patches are read column by column, and dy has them row by row."),
    (_gradients_with(flat=_channels_first), "In which order are W's rows, if patches have (P, P, C)?",
     "W has been turned to (C, P, P). It is (P, P, C) as it stands: reshape is enough."),
    (_gradients_with(dW_of=lambda rows, dy, W: rows.T @ dy), "Which shape has W?", "dW has W's shape, (P, P, C, D)."),
    (_gradients_with(dW_of=lambda rows, dy, W: (dy.T @ rows).reshape(W.shape)), "Which of W's axes is D?",
     "dyᵀ patches has the shape (D, P² C), and a reshape does not turn it: patchesᵀ dy."),
    (_gradients_with(dW_of=lambda rows, dy, W: (rows.T @ dy).reshape(W.shape) / len(dy)),
     "The same W serves all patches. What becomes of their gradients?", "They are added; yours is their mean."),
    (_gradients_with(dW_of=lambda rows, dy, W: (rows[:1].T @ dy[:1]).reshape(W.shape)),
     "The same W serves all patches. What becomes of their gradients?", "Yours is the first patch's alone."),
    (_gradients_with(dW_of=lambda rows, dy, W: (rows[-1:].T @ dy[-1:]).reshape(W.shape)),
     "The same W serves all patches. What becomes of their gradients?", "Yours is the last patch's alone: add up."),
    (_gradients_with(dW_of=lambda rows, dy, W: np.zeros_like(W)), "Does y depend on W?"),
    (_gradients_with(of_dx=0.0), "Does y depend on x?"),
    (_gradients_with(of_dx=-1.0), "If W were 1 and P = 1, y would be x. What is dx?", "The sign."),
    (_gradients_with(turned=True), "In which order are dx and dW asked for?"),
)  # fmt: skip


# --- my_attention_distance ------------------------------------------------------------------------------------------


def _places(n: int, columns: int) -> tuple[Any, Any]:
    """How many rows down, and how many columns to the right, from patch i to patch j: (n, n) both."""
    y, x = np.divmod(np.arange(n), columns)
    return y - y[:, None], x - x[:, None]


def _far(n: int, columns: int) -> Any:
    return np.hypot(*_places(n, columns))


def _attention_distance(p: Any, columns: int) -> Any:
    return (p * _far(p.shape[-1], columns)).sum(axis=-1).mean(axis=-1)


def _grid_case(draw: CaseDrawer) -> dict[str, Any]:
    rows, columns, heads = (draw.choose(range(1, 5)) for _ in range(3))
    n = rows * columns
    return {"p": ops.softmax(draw.array(heads, n, n).astype(float)), "columns": columns}


_OF_DISTANCE: list[Law] = []
_distance_states = stating("head_distance", _OF_DISTANCE)


@_distance_states("rounding", "the mean over queries of the mean distance, weighted by p", "oracle",
                  hint="Do the example on paper.")  # fmt: skip
def _of_heads(op: Subject, p: Any, columns: int) -> None:
    close(op(p=p, columns=columns), _attention_distance(p, columns), rounding(p.dtype, p.shape[-1], 10), "distance")


DISTANCE = Spec(
    name="head_distance",
    says="of each head the mean over i of Σ_j p_ij |place of i - place of j|",
    function="head_distance",
    case=_grid_case,
    ours=lambda: SimpleNamespace(head_distance=_attention_distance),
    properties=_OF_DISTANCE,
    outputs=("distance",),
    common=False,
)


def _distance_with(far: Any = lambda dy, dx: np.hypot(dy, dx), mean: Any = None, side: Any = lambda n, c: c) -> Any:
    """The distance of each head, with one line written otherwise."""

    def distance(p: Any, columns: int) -> Any:
        n = p.shape[-1]
        d = far(*_places(n, side(n, columns)))
        return (p * d).sum(axis=-1).mean(axis=-1) if mean is None else mean(p, d)

    return distance


def _to_the_mean_place(p: Any, columns: int) -> Any:
    """How far from a query the mean of all places that it looks at is."""
    dy, dx = _places(p.shape[-1], columns)
    return np.hypot((p * dy).sum(axis=-1), (p * dx).sum(axis=-1)).mean(axis=-1)


def _without_itself(p: Any, d: Any) -> Any:
    others = p * (1 - np.eye(p.shape[-1]))
    return (others * d).sum(axis=-1).mean(axis=-1) / np.maximum(others.sum(axis=-1).mean(axis=-1), 1e-9)


_BETWEEN = "Patch 0 and the one diagonally below it: how far apart are their centres?"
_AVERAGE = "One query that looks only at its neighbour: 1. And n such queries?"
WRONG_DISTANCE = (
    (_distance_with(far=lambda dy, dx: abs(dy) + abs(dx)), _BETWEEN,
     "Rows and columns are added, as in a city of blocks. The straight line is √2."),
    (_distance_with(far=lambda dy, dx: np.maximum(abs(dy), abs(dx))), _BETWEEN,
     "That is the larger of the two. The straight line is √2."),
    (_distance_with(far=lambda dy, dx: dy**2 + dx**2), _BETWEEN, "The root is missing."),
    (lambda p, columns: (p * abs(np.subtract.outer(*[np.arange(p.shape[-1])] * 2))).sum(axis=-1).mean(axis=-1),
     "With 4 columns, how far apart are patches 3 and 4? And 0 and 4?",
     "Patch numbers are subtracted. Places have a row and a column: np.divmod(i, columns)."),
    (_distance_with(side=lambda n, c: max(1, n // c)), "Which patch stands below patch 0?",
     "Divided by the number of rows; a row has `columns` patches."),
    (_distance_with(side=lambda n, c: math.isqrt(n)), "Is the grid square?",
     "The root of n is the number of columns on a square grid only."),
    (_distance_with(mean=lambda p, d: (p * d).sum(axis=(-1, -2))), _AVERAGE,
     "Queries are summed. Take the mean over them."),
    (_distance_with(mean=lambda p, d: (p * d).mean(axis=(-1, -2))), "Do the weights of a query sum to 1, or to n?",
     "The mean over keys divides by n once more; p has been normalised."),
    (_distance_with(mean=lambda p, d: (p * d).mean(axis=-1).sum(axis=-1) / p.shape[-1] ** 2),
     "By how many n is it divided?", "The mean over queries alone: the weights of each query sum to 1."),
    (_distance_with(mean=lambda p, d: np.full(len(p), d.mean())), "Do two heads have the same distance?",
     "The weights are not used: this is the distance of a head that looks everywhere alike."),
    (_distance_with(mean=lambda p, d: (p * d).sum(axis=-1).mean()), "How many numbers are asked for, with h heads?",
     "The mean was taken over heads, too: one number a head."),
    (_distance_with(mean=lambda p, d: (p * d).sum(axis=-1)), "How many numbers are asked for, with h heads?",
     "These are the distances of all queries. Take their mean."),
    (_distance_with(mean=lambda p, d: np.take_along_axis(
        np.broadcast_to(d, p.shape), p.argmax(axis=-1)[..., None], axis=-1).mean(axis=(-1, -2))),
     "A query gives 0.6 to itself and 0.4 to the far corner. Is that distance 0?",
     "Only the largest weight counts. All keys do, each by its weight."),
    (_distance_with(mean=lambda p, d: np.sqrt((p * d**2).sum(axis=-1).mean(axis=-1))),
     "Half the weight at 0, half at 2: is the mean distance 1, or √2?", "That is the root of the mean square."),
    (_distance_with(mean=_without_itself), "A head that looks at itself alone: which distance has it?",
     "Itself is left out. It counts, with distance 0."),
    (_to_the_mean_place, "Half the weight to the left of the query, half to the right: is that distance 0?",
     "That is how far away the mean place is. Take the distance first, and the mean of distances then."),
)  # fmt: skip


# --- window_saving --------------------------------------------------------------------------------------------------


def _multiply_adds(n: int, keys: int, D: int, maps: int = 4) -> int:
    """Of a layer of attention: projections n × D × D, and two products of each query with its keys."""
    return maps * n * D * D + 2 * n * keys * D


def _window_saving() -> float:
    return _multiply_adds(GRID**2, GRID**2, WIDTH) / _multiply_adds(GRID**2, SIDE**2, WIDTH)


# --- repaired_windows -----------------------------------------------------------------------------------------------


def _as_it_lies(y: Any, x: Any, H: int, W: int, w: int) -> Any:
    return y // w, x // w


def _cells(height: int, width: int, window: int, shift: int, change: Any = _as_it_lies) -> Any:
    """(n, n) booleans: which pairs share a cell's row, and which its column."""
    y, x = np.divmod(np.arange(height * width), width)
    return tuple(c[:, None] == c for c in change(y - shift, x - shift, height, width, window))


def _windows(height: int, width: int, window: int, shift: int) -> Any:
    rows, columns = _cells(height, width, window, shift)
    return rows & columns


def _windows_case(draw: CaseDrawer) -> dict[str, Any]:
    window, u, v = draw.choose((2, 3, 4, 1)), draw.choose((2, 3, 1)), draw.choose((2, 3, 1))
    return {"height": u * window, "width": v * window, "window": window, "shift": draw.choose(range(window))}


_OF_WINDOWS: list[Law] = []
_windows_state = stating("repaired_windows", _OF_WINDOWS)


@_windows_state("exact", "patches share a window of the shifted grid, which ends at the borders", "oracle",
                hint="Draw a row of four patches, windows of 2, shifted by 1.")  # fmt: skip
def _as_on_paper(op: Subject, **case: Any) -> None:
    close(op(**case), _windows(**case), 0, "mask")


WINDOWS = Spec(
    name="repaired_windows",
    says="True where ⌊(y_i - s) / w⌋ = ⌊(y_j - s) / w⌋, and the same of x",
    function="repaired_windows",
    case=_windows_case,
    ours=lambda: SimpleNamespace(repaired_windows=_windows),
    properties=_OF_WINDOWS,
    outputs=("mask",),
    common=False,
)


def _windows_with(change: Any, both: Any = lambda rows, columns: rows & columns, shifts: Any = lambda s, w: s) -> Any:
    """The mask, with the cells made otherwise. `change` is given places less the shift."""
    return lambda height, width, window, shift: both(
        *_cells(height, width, window, shifts(shift, window), change)
    )  # fmt: skip


def _other_way(height: int, width: int, window: int, shift: int) -> Any:
    return _windows(height, width, window, -shift)


def _rolled(y: Any, x: Any, H: int, W: int, w: int) -> Any:
    return y % H // w, x % W // w


def _rows_and_columns_swapped(height: int, width: int, window: int, shift: int) -> Any:
    return _windows(width, height, window, shift)


def _and_the_grid_that_stood(height: int, width: int, window: int, shift: int) -> Any:
    """Windows of both grids at once."""
    return _windows(height, width, window, shift) & _windows(height, width, window, 0)


def _either(height: int, width: int, window: int, shift: int) -> Any:
    return _windows(height, width, window, shift) | _windows(height, width, window, 0)


def _without_borders(height: int, width: int, window: int, shift: int) -> Any:
    """What the shifted grid cuts off at the top and the left looks at nothing."""
    y, x = np.divmod(np.arange(height * width), width)
    return _windows(height, width, window, shift) & ((y >= shift) & (x >= shift))


_WRAPS = "Windows of 2, shifted by 1, on a row of four patches: may patch 0 look at patch 3?"
_ONE_SIDE = "Have you looked at all four borders?"
WRONG_WINDOWS = (
    (_windows_with(_rolled), "What has changed?", "It is as it was: opposite borders still share a window."),
    (_windows_with(lambda y, x, H, W, w: (y // w, x % W // w)), _ONE_SIDE, "Left and right still share a window."),
    (_windows_with(lambda y, x, H, W, w: (y % H // w, x // w)), _ONE_SIDE, "Top and bottom still share a window."),
    (_other_way, "Shifted by 1 down and right: with windows of 3, which patches are cut off at the top?",
     "Your grid moves up and left. It is to move down and right: y - shift, not y + shift."),
    (_windows_with(lambda y, x, H, W, w: (np.trunc(y / w), np.trunc(x / w))),
     "Which window is a patch above the first whole one in? And what is int(-0.5), what -1 // 2?",
     "What is cut off at the top and the left joins the first window. It is a window of its own: // rounds down."),
    (_windows_with(_as_it_lies, shifts=lambda s, w: 0),
     "May patches look across the edge of an unshifted window?", "The shift is not used."),
    (_windows_with(_as_it_lies, both=lambda rows, columns: rows | columns),
     "Is a patch of the same row, but of another column of windows, in the window?", "Both must hold: & and not |."),
    (_windows_with(lambda y, x, H, W, w: (y // w, y // w)), "And the columns?", "Windows have a left edge, too."),
    (_windows_with(lambda y, x, H, W, w: (x // w, x // w)), "And the rows?", "Windows have an upper edge, too."),
    (_windows_with(_as_it_lies, both=lambda rows, columns: ~(rows & columns)),
     "What does True mean?", "True = may look. Yours is the other way round."),
    (_rows_and_columns_swapped, "How many patches has a row: height, or width?",
     "np.divmod(i, width): a row has `width` patches."),
    (_and_the_grid_that_stood, "May two patches of one shifted window look at each other, across an edge that stood?",
     "Pairs must share both a shifted window and one of the grid before. The shifted one alone counts."),
    (_either, "May two patches of one window of the grid before look at each other?",
     "Pairs may share a window of either grid. The shifted one alone counts."),
    (_without_borders, "May a patch in the corner look at itself?",
     "What the grid cuts off at the top and the left is hidden. It makes smaller windows."),
    (_windows_with(lambda y, x, H, W, w: (y % w, x % w)), _WRAPS,
     "The remainder says where in its window a patch stands. Which window it is, // says."),
    (lambda height, width, window, shift: np.where(_windows(height, width, window, shift), 0.0, -np.inf),
     "Which two values has buggy_windows?", "True and False are asked for, not 0 and -∞."),
)  # fmt: skip


EXERCISES = (
    Exercise(
        "my_patch_gradients",
        "derive the backward",
        difficulty=2,
        minutes=12,
        task="my_patch_gradients(dy, x, W) -> dx, dW, the gradients of y = patches(x) W",
        grader=Function(PATCHES, tempting=WRONG_PATCHES),
        hints=(
            "patches(x) is a matrix, and y = patches(x) @ W a linear map: what are its gradients? And which pixel was "
            "each number of patches(x)?",
            "dW = patches(x).T @ dy, in W's shape. dy @ W.T, with W as (P² C, D), has a row for each patch: reshape it "
            "to (u, v, P, P, C), swap axes 1 and 2, and reshape to x's shape.",
        ),
        why="The linear map's gradients are those of chapter 03. Cutting only moves numbers, each to one place, so its "
        "backward moves them back: the same reshape and swap, undone in the other order.",
    ),
    Exercise(
        "my_attention_distance",
        "write the op",
        difficulty=2,
        minutes=8,
        task="my_attention_distance(p, columns) -> of each head the mean distance that it looks, in patches",
        grader=Function(DISTANCE, tempting=WRONG_DISTANCE),
        hints=(
            "How far is patch j from patch i, if a row of the grid has `columns` patches? And what are the weights of "
            "a mean over j?",
            "np.divmod(i, columns) is a patch's row and column; np.hypot gives straight lines; p's rows sum to 1.",
        ),
        why="A row of p sums to 1, so Σ_j p_ij far_ij is a mean already; only queries are left to be averaged.",
    ),
    Exercise(
        "window_saving",
        "predict the number",
        difficulty=2,
        minutes=5,
        task=f"how many times as many multiply-adds full attention takes as windows of {SIDE} x {SIDE}, on "
        f"{GRID} x {GRID} patches of width {WIDTH}, projections included",
        grader=Number(
            _window_saving,
            tolerance=0.03,
            tempting=(
                (lambda: GRID**2 / SIDE**2, "What do windows not make cheaper?",
                 "That is the ratio of pairs. The four projections cost the same as before."),
                (lambda: GRID / SIDE,
                 "How many keys has a query, before and after? And how many products are taken with them?",
                 "Keys are counted by areas, in two products; and the four projections cost the same as before."),
                (lambda: 1 / _window_saving(), "Which of the two costs more?", "The ratio is inverted."),
                (lambda: _multiply_adds(GRID**2, GRID**2, WIDTH) / _multiply_adds(GRID**2, SIDE, WIDTH),
                 "How many keys has a query in a window of 7 × 7? And which projection comes after attention?",
                 "A window has 7 · 7 = 49 keys, and there are four projections, W_o among them."),
                (lambda: _multiply_adds(GRID**2, GRID**2, WIDTH, 12) / _multiply_adds(GRID**2, SIDE**2, WIDTH, 12),
                 "Is the feed-forward network part of the formula above?",
                 "That is for the whole block, with the feed-forward network's 8 n D²."),
            ),
        ),
        hints=(
            "Divide both costs by n D. What is left of each term?",
            "4 D + 2 m for both: put in m.",
        ),
        why="4 · 96 + 2 · 3,136 = 6,656 over 4 · 96 + 2 · 49 = 482 is 13.8, although pairs are 64 times fewer: the "
        "projections are most of what is left.",
    ),
    Exercise(
        "repaired_windows",
        "find the bug",
        difficulty=2,
        minutes=8,
        task="repaired_windows(height, width, window, shift) -> (n, n), windows of the shifted grid, without its leak",
        grader=Function(WINDOWS, tempting=WRONG_WINDOWS),
        hints=(
            "Windows of 2, shifted by 1, on a row of four patches: which are in a window with patch 0?",
            "% brings what the shift pushed over one border back in at the other. Without it, (y - shift) // window "
            "is -1 above the first whole window, a window of its own.",
        ),
        why="Rolling an image makes all windows whole, so that they can be computed alike, but what meets in the last "
        "ones comes from opposite borders. Swin rolls as well, and hides such pairs.",
    ),
)  # fmt: skip
