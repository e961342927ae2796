"""Attention within windows of a grid, and within shifted ones (Liu et al. 2021, Swin, section 3.2).

It is not in MECHANISMS, because its grid is fixed, and those mechanisms take sequences of any length.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...forms import replaceable
from ...ops import (
    BlockLayout,
    Mask,
    attention,
    block_sparse_attention_backward,
    bucket_bias,
    bucket_bias_backward,
    dense_weights,
    relative_index,
    shifted_windows,
)
from .mechanism import Mechanism


class GridWindowsCache(NamedTuple):
    q: Array
    k: Array
    v: Array
    blocks: tuple[Array, ...]
    bias: Array                      # (h, 1, w², w²), the same for all windows
    layout: BlockLayout

    @property
    def weights(self) -> Array:
        """(..., h, n, n): 0 for pairs of different windows."""
        return dense_weights(self.blocks, self.layout)


@dataclass(frozen=True)
class GridWindows(Mechanism):
    """score_ij = q_i · k_j / √d + T[place of i - place of j, head], if i and j share a window; other pairs are masked.

    The readable form is full attention under a mask and a bias; the faster one computes only the windows.
    T has a number for every two-dimensional offset and head. Tokens are the places of a grid, row by row.
    Raises ValueError for a window that does not divide the grid, and a shift that is not in 0 to window - 1.
    """

    height: int
    width: int
    window: int
    shift: int = 0

    name = "windows"
    takes = frozenset[str]()

    def __post_init__(self) -> None:
        self.layout  # noqa: B018 - making it checks the sizes

    @cached_property
    def layout(self) -> BlockLayout:
        """Which places share a window."""
        return _layout(self.height, self.width, self.window, self.shift)

    def init(self, rng: np.random.Generator, heads: int, width: int) -> dict[str, Any]:
        return {"table": 0.02 * rng.standard_normal(((2 * self.window - 1) ** 2, heads))}

    @replaceable
    def forward(
        self, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
    ) -> tuple[Array, GridWindowsCache]:
        bias = bucket_bias(p["table"], relative_index(self.window, like=q))[:, None]
        allowed, dense = self.dense(bias)
        out, weights = attention(q, k, v, allowed, dense)
        return out, GridWindowsCache(q, k, v, self._cut(weights), bias, self.layout)

    def backward(
        self, p: Any, dout: Array, cache: GridWindowsCache
    ) -> tuple[Array, Array, Array, dict[str, Array], dict[str, Any]]:
        q, k, v, blocks, bias, layout = cache
        dq, dk, dv, dbias = block_sparse_attention_backward(dout, q, k, v, blocks, layout, bias)
        assert dbias is not None
        index = relative_index(self.window, like=q)
        return dq, dk, dv, {}, {"table": bucket_bias_backward(dbias[:, 0], p["table"], index)}

    def dense(self, bias: Array) -> tuple[Array, Array]:
        """The mask (n, n) and the bias (h, n, n) of the readable form; the bias is 0 where the mask hides a pair."""
        xp, (group,) = get_xp(bias), self.layout.groups
        dense = xp.zeros((len(bias), self.layout.n, self.layout.n), dtype=bias.dtype)
        dense[:, group.queries[:, :, None], group.keys[:, None, :]] = bias
        return xp.asarray(self.layout.mask), dense

    def _cut(self, weights: Array) -> tuple[Array, ...]:
        """The weights within each window. Shapes: (..., h, n, n) -> (..., h, windows, w², w²)."""
        (group,) = self.layout.groups
        return (weights[..., group.queries[:, :, None], group.keys[:, None, :]],)


@lru_cache(64)
def _layout(height: int, width: int, window: int, shift: int) -> BlockLayout:
    return shifted_windows(height, width, window, shift)
