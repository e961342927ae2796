"""The bench: attention of a few tokens that the page computes, forward and backward, while numbers are turned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .view import View

MOST = 12                # tokens, and numbers of each


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
    goal: Goal | None = None,
    title: str = "Attention that can be turned",
    seed: int = 0,
) -> View:
    """A page on which every number of q, k, v and dout can be changed, and the scale, the mask and the heads.

    out = softmax(scale q kᵀ, mask) v in each head, side by side, and dq, dk, dv for dout. What is not given is drawn
    from `seed`, rounded to tenths, with `dim` numbers a token; `scale` is 1 / √(D / heads). With a goal it is an
    exercise: the page says when it is reached.
    Shapes: q, k, v, dout (n, D) for n tokens, mask (n, n), True = may look.
    Raises ValueError for other shapes, more than 12 tokens or numbers a token, heads that do not divide D, numbers that
    are not finite, and a goal that names no token.
    """
    n = len(tokens)
    if not 1 <= n <= MOST:
        raise ValueError(f"there are {n} tokens, expected 1 to {MOST}")
    given = {"q": q, "k": k, "v": v, "dout": dout}
    dim = next((np.shape(x)[-1] for x in given.values() if x is not None and np.ndim(x)), dim)
    if not 1 <= dim <= MOST or heads < 1 or dim % heads:
        raise ValueError(f"D is {dim} and heads {heads}, expected 1 to {MOST} numbers a token, a multiple of heads")
    rng = np.random.default_rng(seed)
    drawn = {name: np.round(rng.standard_normal((n, dim)), 1) for name in given}
    arrays = {name: drawn[name] if x is None else np.asarray(x, dtype=float) for name, x in given.items()}
    allowed = np.ones((n, n), dtype=bool) if mask is None else np.asarray(mask)
    for name, x, shape in (*((name, x, (n, dim)) for name, x in arrays.items()), ("mask", allowed, (n, n))):
        if x.shape != shape:
            raise ValueError(f"{name} has shape {x.shape}, expected {shape}")
        if not np.isfinite(x).all():
            raise ValueError(f"{name} has numbers that are not finite")
    if allowed.dtype != bool:
        raise ValueError(f"mask has dtype {allowed.dtype}, expected bool: True = may look")
    if goal is not None and not (0 <= goal.row < n and 0 <= goal.column < n and 0 < goal.least <= 1):
        raise ValueError(f"{goal} is for tokens 0 to {n - 1}, and a weight above 0 and up to 1")
    scale = 1 / math.sqrt(dim / heads) if scale is None else float(scale)
    if not math.isfinite(scale):
        raise ValueError(f"scale is {scale}, expected a finite number")
    data = {name: [float(number) for number in x.ravel()] for name, x in arrays.items()}
    return View("bench", title, {
        "title": title, "tokens": [str(token) for token in tokens], "mask": allowed.ravel().tolist(),
        "scale": scale, "heads": heads, "goal": goal and goal._asdict(), **data,
    })  # fmt: skip
