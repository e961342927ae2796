"""Swin: attention within windows that shift from block to block, on grids that become coarser (Liu et al. 2021).

A patch looks at its window alone, so the cost is linear in the number of patches. Every second block shifts the windows
by half a window, so that neighbours across an edge meet; a window as large as the grid is not shifted. After each stage
four neighbours become one token of twice the width.
Unlike the paper's, it has two narrower stages, not four, and dropout in place of stochastic depth.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array
from ...layers import FeedForward, LayerNorm, Stack, dense, dense_backward, dense_init, dropped
from ...layers.block import Block, BlockCache
from ...layers.mechanisms.grid_windows import GridWindows
from ...layers.mixers import MultiHead
from ...ops import dropout_backward, patchify, patchify_backward
from ...options import option, with_default
from ...training import Settings
from .image_model import ImageCache, ImageModel, ImageNetwork


@dataclass(kw_only=True)
class SwinOptions:
    patch: int = option(2, "pixels of a patch's side; must divide image sides (paper: 4)", at_least=1, at_most=100_000)
    dim: int = option(32, "width in the first stage, then doubled in each (the paper: 96)", at_least=1, at_most=100_000)
    heads: int = option(2, "heads in the first stage, then doubled in each; must divide dim", at_least=1)
    stages: int = option(2, "stages; each halves rows and columns of the grid (the paper: 4)", at_least=1, at_most=10)
    layers: int = option(2, "blocks per stage; every second one has its windows shifted", at_least=1, at_most=1000)
    window: int = option(4, "patches of a window's side (the paper: 7): it must divide the grid of each stage; a grid "
                         "that is smaller is one window", at_least=1, at_most=100_000)  # fmt: skip
    eps: float = option(1e-5, "added under the root of every norm", above=0)
    dropout: float = option(0.1, "dropout rate", at_least=0, below=1)


class SwinCache(NamedTuple):
    images: Array
    patches: Any                     # of the embedding of patches, the dense map's
    keep: Array | None               # (B, n, D): dropout on the input
    stages: list[tuple[list[BlockCache], Any]]     # of each stage's blocks, and of the merging before it
    norm: Any


@dataclass(kw_only=True)
class SwinNetwork(SwinOptions, ImageNetwork):
    """The pure network. The head reads the mean of the last stage's tokens."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} is not divisible by heads {self.heads}")
        coarsest = self.patch * 2 ** (self.stages - 1)
        for name in ("height", "width"):
            if getattr(self, name) % coarsest:
                raise ValueError(
                    f"patch is {self.patch} and stages {self.stages}, so that {name} must be a multiple of {coarsest}, "
                    f"and that of the images is {getattr(self, name)}"
                )
        self.blocks                                       # making the parts checks them  # noqa: B018

    @cached_property
    def grids(self) -> list[tuple[int, int]]:
        """Rows and columns of tokens in each stage."""
        sides = [self.patch * 2**stage for stage in range(self.stages)]
        return [(self.height // side, self.width // side) for side in sides]

    @cached_property
    def blocks(self) -> list[list[Block]]:
        return [[self._block(stage, i % 2 == 1) for i in range(self.layers)] for stage in range(self.stages)]

    def _block(self, stage: int, shifted: bool) -> Block:
        rows, columns = self.grids[stage]
        window = min(self.window, rows, columns)
        shift = window // 2 if shifted and (rows, columns) != (window, window) else 0
        heads = MultiHead(self.heads * 2**stage, GridWindows(rows, columns, window, shift))
        return Block(heads, "pre", self.norm, FeedForward(4 * self.dim * 2**stage, "gelu"), self.dropout)

    @cached_property
    def norm(self) -> LayerNorm:
        return LayerNorm(self.eps)

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        p: dict[str, Any] = {"patches": dense_init(rng, self.patch**2 * self.channels, self.dim), "stages": []}
        for stage, blocks in enumerate(self.blocks):
            dim = self.dim * 2**stage
            made: dict[str, Any] = {"blocks": Stack(blocks).init(rng, dim)}
            if stage:
                made["merge"] = {"norm": self.norm.init(2 * dim), "dense": dense_init(rng, 2 * dim, dim, bias=False)}
            p["stages"].append(made)
        return p | {"norm": self.norm.init(dim), "heads": self.init_heads(dim)}

    def encode(self, p: Any, images: Array, rng: Any = None) -> tuple[Array, SwinCache]:
        """Tokens (B, n, D) of the last and coarsest grid, row by row; and the cache."""
        images = images.astype(p["norm"]["gamma"].dtype)
        x, patches = dense(p["patches"], patchify(images, self.patch))             # (B, n, P² C) -> (B, n, D)
        x, keep = dropped(x, self.dropout, rng)
        stages = []
        for stage, q in enumerate(p["stages"]):
            x, merged = self._merge(q["merge"], x, stage) if stage else (x, None)
            x, caches = Stack(self.blocks[stage]).forward(q["blocks"], x, rng=rng)
            stages.append((caches, merged))
        x, norm = self.norm.forward(p["norm"], x)
        return x, SwinCache(images, patches, keep, stages, norm)

    def encode_backward(self, p: Any, dx: Array, cache: SwinCache) -> tuple[Array, dict[str, Any]]:
        grads: dict[str, Any] = {"stages": []}
        dx, grads["norm"] = self.norm.backward(p["norm"], dx, cache.norm)
        for stage in reversed(range(self.stages)):
            q, (caches, merged) = p["stages"][stage], cache.stages[stage]
            g: dict[str, Any] = {}
            dx, g["blocks"] = Stack(self.blocks[stage]).backward(q["blocks"], dx, caches)
            if stage:
                dx, g["merge"] = self._merge_backward(q["merge"], dx, merged)
            grads["stages"].insert(0, g)
        dpatches = dropout_backward(dx, cache.keep, self.dropout)
        dx, grads["patches"] = dense_backward(p["patches"], dpatches, cache.patches)
        return patchify_backward(dx, cache.images, self.patch), grads

    def _merge(self, p: Any, x: Array, stage: int) -> tuple[Array, Any]:
        """Four neighbours become one token: norm, then a linear map. Shapes: x (B, n, D) -> (B, n / 4, 2 D), cache."""
        grid = x.reshape(len(x), *self.grids[stage - 1], x.shape[-1])
        h, norm = self.norm.forward(p["norm"], patchify(grid, 2))                  # (B, n / 4, 4 D)
        y, linear = dense(p["dense"], h)
        return y, (grid, norm, linear)

    def _merge_backward(self, p: Any, dy: Array, cache: Any) -> tuple[Array, dict[str, Any]]:
        grid, norm, linear = cache
        dh, of_dense = dense_backward(p["dense"], dy, linear)
        dpatches, of_norm = self.norm.backward(p["norm"], dh, norm)
        dgrid = patchify_backward(dpatches, grid, 2)
        return dgrid.reshape(len(dgrid), -1, grid.shape[-1]), {"norm": of_norm, "dense": of_dense}

    def attention(self, cache: ImageCache) -> list[Array]:
        return [block.attention.weights for blocks, _ in cache.encoder.stages for block in blocks]


@dataclass(eq=False, kw_only=True)
class Swin(SwinOptions, ImageModel):
    """Learns to classify images from images with labels, as `ViT`, with windows instead of full attention."""

    epochs: int = with_default(15, Settings, "epochs")
    lr: float = with_default(2e-3, Settings, "lr")

    name = "swin"
    Network = SwinNetwork

    def smallest_shape(self) -> tuple[int, int, int]:
        side = self.patch * 2 ** (self.stages - 1)
        return side, side, 1
