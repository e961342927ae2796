"""Blocks one after another: the output of one is the input of the next, and gradients pass in reverse order.

    x_1 = block_0(x_0),  x_2 = block_1(x_1),  ...      forward: a list of caches, in this order
    dx_1 = block_1ᵀ(dx_2),  dx_0 = block_0ᵀ(dx_1)      backward: from the last block to the first

Parameters are a list, of one tree for each block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend import Array
from .going_on import Past
from .rows import gather_rows


@dataclass(frozen=True)
class Stack:
    """Blocks, or other layers with `init`, `forward` and `backward`, with separate parameters.

        stack = Stack([Block(MultiHead(heads=2))] * 3)
        p = stack.init(rng, 64)
        y, caches = stack.forward(p, x, mask=Mask(causal=True))
        dx, grads = stack.backward(p, dy, caches)

    `before` is a symmetric linear map of each block's input, such as one that sets padding to 0.
    """

    blocks: Sequence[Any]

    def init(self, rng: np.random.Generator, dim: int) -> list[Any]:
        """Parameters of width `dim`, of the first block first."""
        return [block.init(rng, dim) for block in self.blocks]

    def forward(
        self, p: list[Any], x: Any, *, before: Callable[[Any], Any] | None = None, **context: Any
    ) -> tuple[Any, list[Any]]:
        """-> y (..., n, D), the cache of each block. `context` goes to all of them: `mask`, `slots`, `rng`."""
        caches = []
        for block, weights in zip(self.blocks, p, strict=True):
            x, cache = block.forward(weights, before(x) if before else x, **context)
            caches.append(cache)
        return x, caches

    def backward(
        self, p: list[Any], dy: Any, caches: list[Any], *, before: Callable[[Any], Any] | None = None
    ) -> tuple[Any, list[Any]]:
        """The mirror of `forward`. -> dx (..., n, D), grads shaped like p."""
        grads = []
        for block, weights, cache in reversed(list(zip(self.blocks, p, caches, strict=True))):
            dy, g = block.backward(weights, dy, cache)
            dy = before(dy) if before else dy
            grads.append(g)
        return dy, grads[::-1]

    def at(self, p: list[Any], x: Any, at: Array, *, before: Callable[[Any], Any] | None = None, **context: Any) -> Any:
        """Row `at` (B,) of each sequence of `forward`, (B, 1, D), for inference: the last block computes nothing else.
        """
        if not self.blocks:
            return gather_rows(x, at)
        x, _ = Stack(self.blocks[:-1]).forward(p[:-1], x, before=before, **context)
        return self.blocks[-1].forward(p[-1], before(x) if before else x, at=at, **context)[0]

    def extend(self, p: list[Any], x: Array, past: Past | None) -> tuple[Array, Past]:
        """Causal `forward` of tokens that follow others, for inference: -> y, their cache.

        `past` is the cache of the tokens before, None at the beginning. Shapes: x (B, n, D) -> y (B, n, D).
        Raises ValueError for a mixer without cache.
        """
        kept = [None] * len(self.blocks) if past is None else past.layers
        layers = []
        for block, weights, before in zip(self.blocks, p, kept, strict=True):
            x, now = block.extend(weights, x, before)
            layers.append(now)
        return x, Past((0 if past is None else past.length) + x.shape[1], layers)
