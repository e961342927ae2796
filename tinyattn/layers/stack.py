"""Blocks one after another: the output of one is the input of the next, and gradients flow back in reverse order.

    x_1 = block_0(x_0),  x_2 = block_1(x_1),  ...      forward: a list of caches, in this order
    dx_1 = block_1ᵀ(dx_2),  dx_0 = block_0ᵀ(dx_1)      backward: from the last block to the first

Parameters are a list with one tree per block.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend import Array
from .past import Past
from .rows import gather_rows


@dataclass(frozen=True)
class Stack:
    """Blocks, or other layers with `init`, `forward` and `backward`, with separate parameters.

        stack = Stack([Block(MultiHead(heads=2))] * 3)
        p = stack.init(rng, 64)
        y, caches = stack.forward(p, x, mask=Mask(causal=True))
        dx, grads = stack.backward(p, dy, caches)

    `before`, if given, is applied to the input of each block. It must be linear and symmetric (its own transpose), like
    zeroing the padding, since `backward` applies it too.
    """

    blocks: Sequence[Any]

    def init(self, rng: np.random.Generator, dim: int) -> list[Any]:
        """Parameters for width `dim`, in the order of the blocks."""
        return [block.init(rng, dim) for block in self.blocks]

    def forward(
        self, p: list[Any], x: Any, *, before: Callable[[Any], Any] | None = None, **context: Any
    ) -> tuple[Any, list[Any]]:
        """-> y (..., n, D), the cache of each block. `context` goes to every block: `mask`, `slots`, `rng`."""
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
        """`forward`'s output at position at[b] of each sequence b, for inference. The last block computes only that.

        Shapes: at (B,) -> (B, 1, D).
        """
        if not self.blocks:
            return gather_rows(x, at)
        x, _ = Stack(self.blocks[:-1]).forward(p[:-1], x, before=before, **context)
        return self.blocks[-1].forward(p[-1], before(x) if before else x, at=at, **context)[0]

    def extend(self, p: list[Any], x: Array, past: Past | None) -> tuple[Array, Past]:
        """Causal `forward` of new tokens, for inference: -> y of the new tokens, and the cache of all tokens so far.

        `past` is the cache of all earlier tokens, or None. Shapes: x (B, n, D) -> y (B, n, D).
        Raises ValueError for a kind of mixer that keeps no cache.
        """
        caches = [None] * len(self.blocks) if past is None else past.layers
        extended = []
        for block, weights, old in zip(self.blocks, p, caches, strict=True):
            x, new = block.extend(weights, x, old)
            extended.append(new)
        return x, Past((0 if past is None else past.length) + x.shape[1], extended)
