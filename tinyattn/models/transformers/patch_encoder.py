"""The base of ViT and BEiT: the Transformer's encoder reads an image as a sequence of patches."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...layers import (
    FEED_FORWARDS,
    NORMS,
    Block,
    BlockCache,
    MultiHead,
    dense,
    dense_backward,
    dense_init,
    dropped,
)
from ...ops import dropout_backward, patchify, patchify_backward
from ...options import check_options, option
from ..mixing import OneBlock

SMALL = 0.02             # the standard deviation of fresh positions and tokens, as in ViT


@dataclass(kw_only=True)
class PatchOptions:
    """The sizes in brackets are those of ViT's base model (Dosovitskiy et al. 2021)."""

    patch: int = option(4, "pixels of a patch's side (the paper: 16): it must divide the sides of the images",
                        at_least=1, at_most=100_000)  # fmt: skip
    dim: int = option(64, "width of tokens (the paper: 768)", at_least=1, at_most=100_000)
    layers: int = option(3, "blocks (the paper: 12)", at_least=1, at_most=1000)
    heads: int = option(4, "attention heads per block; must divide dim (the paper: 12)", at_least=1)
    norm: str = option("layer", "LayerNorm, or RMSNorm, which does not centre", choices=NORMS)
    feed_forward: str = option("gelu", "the feed-forward network: its activation, or SwiGLU", choices=FEED_FORWARDS)
    feed_forward_width: int = option(4, "its inner width, as a multiple of dim", at_least=1, at_most=1000)
    eps: float = option(1e-6, "added under the root of every norm", above=0)
    dropout: float = option(0.1, "dropout rate", at_least=0, below=1)


class PatchCache(NamedTuple):
    images: Array
    hidden: Array | None             # (B, n), True = hidden
    patches: Any                     # of the embedding of patches, the dense map's
    keep: Array | None               # (B, read + n, D): dropout on the input
    blocks: list[BlockCache]
    norm: Any


@dataclass(kw_only=True)
class PatchEncoder(PatchOptions, OneBlock):
    """Base of the networks: their parameters, forward and backward up to the last norm. A subclass has `read`."""

    height: int                      # of the images, in pixels
    width: int
    channels: int

    def __post_init__(self) -> None:
        check_options(self)
        self.block.mixer.refuse_dim(self.dim)
        for name in ("height", "width"):
            if getattr(self, name) % self.patch:
                raise ValueError(f"patch is {self.patch}, expected a divisor of the {name} of the images, which is "
                                 f"{getattr(self, name)}")  # fmt: skip

    @property
    def read(self) -> int:
        """The number of tokens before those of the patches."""
        raise NotImplementedError

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.height // self.patch, self.width // self.patch

    @cached_property
    def block(self) -> Block:
        feed_forward = FEED_FORWARDS[self.feed_forward](self.feed_forward_width * self.dim)
        return Block(MultiHead(self.heads), "pre", NORMS[self.norm](self.eps), feed_forward, self.dropout)

    def attention(self, cache: Any) -> list[Array]:
        """The weights (B, heads, read + n, read + n) of each block; `cache.encoder` is that of `encode`."""
        return [block.attention.weights for block in cache.encoder.blocks]

    def init_encoder(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64. Positions and tokens are drawn with deviation 0.02, as ViT's are."""
        rows, columns = self.grid
        return {
            "patches": dense_init(rng, self.patch**2 * self.channels, self.dim),
            "tokens": SMALL * rng.standard_normal((self.read, self.dim)),
            "positions": SMALL * rng.standard_normal((self.read + rows * columns, self.dim)),
            "blocks": self.stack.init(rng, self.dim),
            "norm": self.block.norm.init(self.dim),
        }

    def encode(self, p: Any, images: Array, rng: Any = None, hidden: Array | None = None) -> tuple[Array, PatchCache]:
        """Tokens (B, read + n, D): `read` learned ones, then the n patches row by row; and the cache.

        p["mask"] replaces hidden patches. Shapes: images (B, height, width, C), hidden (B, n) or None.
        """
        xp = get_xp(images)
        images = images.astype(p["positions"].dtype)
        x, patches = dense(p["patches"], patchify(images, self.patch))             # (B, n, P² C) -> (B, n, D)
        if hidden is not None:
            x = xp.where(hidden[..., None], p["mask"], x)
        x = xp.concatenate([xp.broadcast_to(p["tokens"], (len(x), *p["tokens"].shape)), x], axis=1)
        x = x + p["positions"]
        x, keep = dropped(x, self.dropout, rng)
        x, blocks = self.stack.forward(p["blocks"], x, rng=rng)
        x, norm = self.block.norm.forward(p["norm"], x)
        return x, PatchCache(images, hidden, patches, keep, blocks, norm)

    def encode_backward(self, p: Any, dx: Array, cache: PatchCache) -> tuple[Array, dict[str, Any]]:
        """-> dimages, grads of `init_encoder`'s parameters, and of "mask" if it was read."""
        grads: dict[str, Any] = {}
        xp = get_xp(dx)
        dx, grads["norm"] = self.block.norm.backward(p["norm"], dx, cache.norm)
        dx, grads["blocks"] = self.stack.backward(p["blocks"], dx, cache.blocks)
        dx = dropout_backward(dx, cache.keep, self.dropout)
        grads["positions"] = xp.sum(dx, axis=0)                                    # added to every image
        grads["tokens"] = grads["positions"][: self.read].copy()                   # shared by all images, too
        dpatches = dx[:, self.read :]
        if cache.hidden is not None:
            hidden = cache.hidden[..., None]
            grads["mask"] = xp.sum(xp.where(hidden, dpatches, 0), axis=(0, 1))
            dpatches = xp.where(hidden, 0, dpatches)
        dpatches, grads["patches"] = dense_backward(p["patches"], dpatches, cache.patches)
        return patchify_backward(dpatches, cache.images, self.patch), grads
