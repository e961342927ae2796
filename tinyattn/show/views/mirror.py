"""The mirror: an algorithm above, its backward below. Every number shows its terms, and follows a reader's changes."""

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...ops import attention
from .view import View, as_table, numbers

MOST = 6                 # the most tokens
WIDEST = 12              # the most numbers of a token
LARGEST = 1e30           # the largest number: products of eight such numbers are finite
PARTS = ("scale", "heads", "mask", "backward")           # parts that `hide` may name
TITLES = {
    "attention": "Attention", "multi_head_attention": "Attention of many heads", "softmax": "A softmax",
    "linear": "A linear map", "layer_norm": "LayerNorm",
}  # fmt: skip
ALGORITHMS = {           # the arrays that a reader can change, and their axes
    "attention": {"q": "nD", "k": "nD", "v": "nE", "dout": "nE"},
    "multi_head_attention": {"x": "nD", "W_q": "DD", "W_k": "DD", "W_v": "DD", "W_o": "DD", "dy": "nD"},
    "softmax": {"s": "nm", "dp": "nm"},
    "linear": {"x": "nD", "W": "DE", "dy": "nE"},
    "layer_norm": {"x": "nD", "gamma": "1D", "beta": "1D", "dy": "nD"},
}
SIZES = {"m": 4, "D": 4, "E": 2}                         # default sizes of axes


class Goal(NamedTuple):
    """An exercise: make token `row` look at token `column` with at least this weight, in every head."""

    says: str
    row: int
    column: int
    least: float = 0.95


def mirror(
    tokens: Sequence[str], algorithm: str = "attention", *, mask: np.ndarray | None = None,
    scale: float | None = None, heads: int = 1, eps: float = 1e-5, hide: Collection[str] = (),
    goal: Goal | None = None, title: str | None = None, play: bool = False, seed: int = 0,
    **arrays: np.ndarray | None,
) -> View:  # fmt: skip
    """A page of an algorithm's arrays, forward above and backward below, on which every number shows its terms.

    `arrays` are the algorithm's inputs and its upstream gradient; missing ones are drawn from `seed`, rounded to
    tenths. On the page the reader can change them, the scale, the mask and the heads. `hide` removes some of "scale",
    "heads", "mask" and "backward". `scale` is 1 / √(D / heads) by default. With a `goal` the page is an exercise, and
    says when it is solved. With `play` the page begins with one pass through the arrays, forward and back.

    Algorithms, and shapes for n tokens:

        "attention"               q, k (n, D), v, dout (n, E)
        "multi_head_attention"    x, dy (n, D), W_q, W_k, W_v, W_o (D, D)
        "linear"                  x (n, D), W (D, E), dy (n, E)
        "softmax"                 s, dp (n, m)
        "layer_norm"              x, dy (n, D), gamma, beta (D,)

    The mask has shape (n, n), True = may look. Raises ValueError for unknown names, other shapes, more than 6 tokens or
    12 numbers a token, heads that do not divide D and E, numbers that are not real or exceed 1e30, and a goal for
    missing tokens or for an algorithm without attention.
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm is {algorithm!r}, expected one of {', '.join(ALGORITHMS)}")
    n = len(tokens)
    if not 1 <= n <= MOST:
        raise ValueError(f"there are {n} tokens, expected 1 to {MOST}")
    if unknown := sorted(set(hide) - set(PARTS)):
        raise ValueError(f"hide has {unknown[0]!r}, expected some of {', '.join(PARTS)}")
    values, widths = _arrays(algorithm, arrays, n, heads, seed)
    allowed = np.ones((n, n), dtype=bool) if mask is None else np.asarray(mask)
    _expect_shape("mask", allowed, (n, n))
    if allowed.dtype != bool:
        raise ValueError(f"mask has dtype {allowed.dtype}, expected bool: True = may look")
    if goal is not None:
        _expect_goal(goal, algorithm, n)
    scale = 1 / math.sqrt(widths.get("D", 1) / heads) if scale is None else float(scale)
    if not (abs(scale) <= LARGEST and 1 / LARGEST <= eps <= LARGEST):
        raise ValueError(f"scale is {scale} and eps {eps}, expected at most {LARGEST:g}, and eps from {1 / LARGEST:g}")
    named, title = [str(token) for token in tokens], f"{TITLES[algorithm]} and its mirror" if title is None else title
    data = {
        "algorithm": algorithm, "title": title, "tokens": named, "mask": allowed.ravel().tolist(), "scale": scale,
        "heads": int(heads), "eps": eps, "hide": sorted(hide), "plays": play,
        "goal": goal and goal._asdict() | {"row": int(goal.row), "column": int(goal.column)},
        "sizes": widths, "arrays": {name: numbers(x, digits=17) for name, x in values.items()},
    }  # fmt: skip
    table = _as_tables(named, algorithm, values, allowed, scale, int(heads))
    return View("mirror", title, data, table, height=500 if "backward" in hide else 740)


def _arrays(
    algorithm: str, arrays: dict[str, Any], n: int, heads: int, seed: int
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """The algorithm's arrays, passed or drawn, and the sizes of their last axes."""
    axes = ALGORITHMS[algorithm]
    if unknown := sorted(set(arrays) - set(axes)):
        raise ValueError(f"{algorithm} has no array {unknown[0]!r}, expected some of {', '.join(axes)}")
    passed = {name: real(name, x) for name, x in arrays.items() if x is not None}
    passed |= {name: x[None] for name, x in passed.items() if axes[name][0] == "1" and x.ndim == 1}
    widths = {}
    for axis in sorted({word[1] for word in axes.values()}):
        known = [x.shape[1] for name, x in passed.items() if axes[name][1] == axis and x.ndim == 2]
        widths[axis] = known[0] if known else SIZES[axis]
    counts = range(1, WIDEST + 1)
    if heads not in counts or not all(size in counts and size % heads == 0 for size in widths.values()):
        described = ", ".join(f"{axis} is {size}" for axis, size in widths.items())
        raise ValueError(f"{described} and heads {heads}, expected 1 to {WIDEST} numbers a token, a multiple of heads")
    rng, sizes, values = np.random.default_rng(seed), {"n": n, "1": 1, **widths}, {}
    for name, word in axes.items():
        drawn = np.round(rng.standard_normal([sizes[axis] for axis in word]), 1)
        values[name] = passed.get(name, drawn)
        _expect_shape(name, values[name], drawn.shape)
        if not (np.abs(values[name]) <= LARGEST).all():
            raise ValueError(f"{name} has numbers that are not finite, or beyond {LARGEST:g}")
    return values, widths


def _expect_shape(name: str, x: np.ndarray, shape: tuple[int, ...]) -> None:
    if x.shape != shape:
        raise ValueError(f"{name} has shape {x.shape}, expected {shape}")


def _expect_goal(goal: Goal, algorithm: str, n: int) -> None:
    if "attention" not in algorithm:
        raise ValueError(f"{algorithm} has no weights that a goal could ask for: expected attention")
    if not (goal.row in range(n) and goal.column in range(n) and 0 < goal.least <= 1):
        raise ValueError(f"{goal}: expected tokens 0 to {n - 1}, and a weight above 0 and up to 1")


def real(name: str, x: Any) -> np.ndarray:
    try:
        array = np.asarray(x)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} is not an array of real numbers")
    return array.astype(float)


def _as_tables(
    tokens: list[str], algorithm: str, arrays: dict[str, np.ndarray], mask: np.ndarray, scale: float, heads: int
) -> str:
    """The arrays at the page's beginning as tables; for attention, also weights and output."""
    shown: dict[str, np.ndarray] = dict(arrays)
    if algorithm == "attention":
        q, k, v = (arrays[name].reshape(len(tokens), heads, -1).swapaxes(0, 1) for name in ("q", "k", "v"))
        out, weights = attention(q, k, v, mask, scale=scale)
        shown |= {f"weights, head {h + 1}" if heads > 1 else "weights": w for h, w in enumerate(weights)}
        shown |= {"out": out.swapaxes(0, 1).reshape(arrays["v"].shape)}
    return "".join(
        as_table(
            name,
            tokens if "weights" in name else map(str, range(x.shape[1])),
            zip(tokens if ALGORITHMS[algorithm].get(name, "n")[0] == "n" else map(str, range(len(x))), x, strict=True),
        )
        for name, x in shown.items()
    )
