"""The bench: attention of a few tokens, which the page recomputes, forward and backward, when a number changes."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from ...ops import attention
from .view import View, as_table, numbers

MOST = 12                # tokens, and numbers of each
PARTS = ("scale", "heads", "mask", "backward")           # parts that may be hidden


class Goal(NamedTuple):
    """An exercise: make token `row` look at token `column` with at least this weight, in every head."""

    says: str
    row: int
    column: int
    least: float = 0.95


def bench(
    tokens: Sequence[str],
    q: np.ndarray | None = None,
    k: np.ndarray | None = None,
    v: np.ndarray | None = None,
    dout: np.ndarray | None = None,
    *,
    mask: np.ndarray | None = None,
    scale: float | None = None,
    heads: int = 1,
    dim: int = 4,
    hide: Collection[str] = (),
    goal: Goal | None = None,
    title: str = "Attention that can be turned",
    seed: int = 0,
) -> View:
    """A page on which every number of q, k, v and dout can be changed, and the scale, the mask and the heads.

    out = softmax(scale q kᵀ, mask) v in each head, and dq, dk, dv for dout. Missing arrays are drawn from `seed`,
    rounded to tenths, with `dim` numbers a token; `scale` is 1 / √(D / heads) by default. `hide` removes some of
    "scale", "heads", "mask", "backward" from the page. With a goal the page is an exercise, and says when it is done.
    Shapes: q, k (n, D), v, dout (n, E) for n tokens, mask (n, n), True = may look.
    Raises ValueError for other shapes, more than 12 tokens or numbers a token, heads that do not divide D and E,
    numbers that are not finite, and a goal for missing tokens.
    """
    n = len(tokens)
    if not 1 <= n <= MOST:
        raise ValueError(f"there are {n} tokens, expected 1 to {MOST}")
    if unknown := sorted(set(hide) - set(PARTS)):
        raise ValueError(f"hide has {unknown[0]!r}, expected some of {', '.join(PARTS)}")
    passed = {"q": q, "k": k, "v": v, "dout": dout}
    D = next((np.shape(x)[-1] for x in (q, k, v, dout) if x is not None and np.ndim(x)), dim)
    E = next((np.shape(x)[-1] for x in (v, dout) if x is not None and np.ndim(x)), D)
    if not (1 <= D <= MOST and 1 <= E <= MOST) or heads < 1 or D % heads or E % heads:
        sizes = f"D is {D}" if D == E else f"D is {D}, E is {E}"
        raise ValueError(f"{sizes} and heads {heads}, expected 1 to {MOST} numbers a token, a multiple of heads")
    rng = np.random.default_rng(seed)
    widths = {"q": D, "k": D, "v": E, "dout": E}
    drawn = {name: np.round(rng.standard_normal((n, width)), 1) for name, width in widths.items()}
    arrays = {name: drawn[name] if x is None else np.asarray(x, dtype=float) for name, x in passed.items()}
    allowed = np.ones((n, n), dtype=bool) if mask is None else np.asarray(mask)
    for name, x, shape in (*((name, x, (n, widths[name])) for name, x in arrays.items()), ("mask", allowed, (n, n))):
        if x.shape != shape:
            raise ValueError(f"{name} has shape {x.shape}, expected {shape}")
        if not np.isfinite(x).all():
            raise ValueError(f"{name} has numbers that are not finite")
    if allowed.dtype != bool:
        raise ValueError(f"mask has dtype {allowed.dtype}, expected bool: True = may look")
    if goal is not None and not (0 <= goal.row < n and 0 <= goal.column < n and 0 < goal.least <= 1):
        raise ValueError(f"{goal}: expected tokens 0 to {n - 1}, and a weight above 0 and up to 1")
    scale = 1 / math.sqrt(D / heads) if scale is None else float(scale)
    if not math.isfinite(scale):
        raise ValueError(f"scale is {scale}, expected a finite number")
    named = [str(token) for token in tokens]
    return View("bench", title, {
        "title": title, "tokens": named, "mask": allowed.ravel().tolist(), "scale": scale, "heads": heads,
        "hide": sorted(hide), "goal": goal and goal._asdict(),
        **{name: numbers(x, digits=17) for name, x in arrays.items()},
    }, _as_tables(named, arrays, allowed, scale, heads))  # fmt: skip


def _as_tables(
    tokens: list[str], arrays: dict[str, np.ndarray], mask: np.ndarray, scale: float, heads: int
) -> str:
    """The initial state of the page: q, k and v, the weights of each head, and the output."""
    q, k, v = (arrays[name].reshape(len(tokens), heads, -1).swapaxes(0, 1) for name in ("q", "k", "v"))
    out, weights = attention(q, k, v, mask, scale=scale)
    shown = {name: arrays[name] for name in ("q", "k", "v")}
    shown |= {f"weights, head {h + 1}" if heads > 1 else "weights": w for h, w in enumerate(weights)}
    shown |= {"out": out.swapaxes(0, 1).reshape(arrays["v"].shape)}
    return "".join(
        as_table(name, tokens if "weights" in name else map(str, range(x.shape[1])), zip(tokens, x, strict=True))
        for name, x in shown.items()
    )
