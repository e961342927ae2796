"""The Vision Transformer: an image is a sentence of patches (Dosovitskiy et al. 2021).

The image is cut into patches, a linear map makes a token of each, and from there on it is the Transformer's encoder:
every token may look at every other, so there is no mask. Nothing says that neighbours belong together but the
positions, which are learned. What is read in the end is a further token that stands for no patch (the class token), or
the mean of all. A second such token, with a head of its own, can learn what a teacher says (Touvron et al. 2021, DeiT):
hard distillation, where a teacher's answers are labels once more.

Where this differs from the paper: three layers in place of twelve, and 64 in place of 768, which is enough for images
of 16 x 16 pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...data import Images, NumberedImages
from ...layers import (
    FEED_FORWARDS,
    NORMS,
    Block,
    BlockCache,
    MultiHead,
    Stack,
    dense,
    dense_backward,
    dense_init,
    dropout_mask,
)
from ...ops import dropout, dropout_backward, patchify, patchify_backward
from ...options import check_options, option, with_default
from ...training import Settings
from .image_model import ImageCache, ImageModel, ImageNetwork

READOUTS = {"class": 1, "mean": 0}       # tokens that stand for no patch


@dataclass(kw_only=True)
class ViTOptions:
    patch: int = option(4, "pixels of a patch's side (the paper: 16): it must divide the sides of the images",
                        at_least=1, at_most=100_000)  # fmt: skip
    dim: int = option(64, "width of tokens (the paper: 768)", at_least=1, at_most=100_000)
    layers: int = option(3, "blocks (the paper: 12)", at_least=1, at_most=1000)
    heads: int = option(4, "attention heads a block; must divide dim (the paper: 12)", at_least=1)
    readout: str = option("class", "what the class is read from: a token of its own, or the mean of all patches",
                          choices=READOUTS)  # fmt: skip
    distil: bool = option(False, "a second token and head that learn a teacher's answers (DeiT)")
    norm: str = option("layer", "LayerNorm, or RMSNorm, which does not centre", choices=NORMS)
    feed_forward: str = option("gelu", "the feed-forward network: its activation, or SwiGLU", choices=FEED_FORWARDS)
    feed_forward_width: int = option(4, "its inner width, as a multiple of dim", at_least=1, at_most=1000)
    eps: float = option(1e-6, "added to what every norm divides by, before the root", above=0)
    dropout: float = option(0.1, "dropout rate", at_least=0, below=1)

    def __post_init__(self) -> None:
        check_options(self)
        if self.distil and self.readout != "class":
            raise ValueError(f"distil is a second token beside the class token, and readout is {self.readout}")


class ViTCache(NamedTuple):
    images: Array
    patches: Any                     # of the embedding of patches, the dense map's
    keep: Array | None               # (B, n, D): dropout on the input
    blocks: list[BlockCache]
    norm: Any


@dataclass(kw_only=True)
class ViTNetwork(ViTOptions, ImageNetwork):
    """The pure network: init, forward, loss, loss_backward."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} is not divisible by heads {self.heads}")
        for name in ("height", "width"):
            if getattr(self, name) % self.patch:
                raise ValueError(f"patch is {self.patch}, expected a divisor of the {name} of the images, which is "
                                 f"{getattr(self, name)}")  # fmt: skip

    @property
    def read(self) -> int:
        return READOUTS[self.readout] + self.distil

    @property
    def grid(self) -> tuple[int, int]:
        """How many patches there are, one below and one beside the other."""
        return self.height // self.patch, self.width // self.patch

    @cached_property
    def block(self) -> Block:
        """Every block has the same parts, and parameters of its own."""
        feed_forward = FEED_FORWARDS[self.feed_forward](self.feed_forward_width * self.dim)
        return Block(MultiHead(self.heads), "pre", NORMS[self.norm](self.eps), feed_forward, self.dropout)

    @property
    def stack(self) -> Stack:
        return Stack([self.block] * self.layers)

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64. Positions and tokens are drawn with deviation 0.02, as the paper's are."""
        rows, columns = self.grid
        return {
            "patches": dense_init(rng, self.patch**2 * self.channels, self.dim),
            "tokens": 0.02 * rng.standard_normal((self.read, self.dim)),
            "positions": 0.02 * rng.standard_normal((self.read + rows * columns, self.dim)),
            "blocks": self.stack.init(rng, self.dim),
            "norm": self.block.norm.init(self.dim),
            "heads": self.init_heads(self.dim),
        }

    def encode(self, p: Any, images: Array, rng: Any = None) -> tuple[Array, ViTCache]:
        """Tokens (B, read + patches, D): those that are read, then the patches row by row; and the cache."""
        xp = get_xp(images)
        images = images.astype(p["positions"].dtype)
        x, patches = dense(p["patches"], patchify(images, self.patch))             # (B, n, P² C) -> (B, n, D)
        x = xp.concatenate([xp.broadcast_to(p["tokens"], (len(x), *p["tokens"].shape)), x], axis=1)
        x = x + p["positions"]
        keep = dropout_mask(x, x.shape, self.dropout, rng)
        x = dropout(x, keep, self.dropout)
        x, blocks = self.stack.forward(p["blocks"], x, rng=rng)
        x, norm = self.block.norm.forward(p["norm"], x)
        return x, ViTCache(images, patches, keep, blocks, norm)

    def encode_backward(self, p: Any, dx: Array, cache: ViTCache) -> tuple[Array, dict[str, Any]]:
        """The mirror of `encode`: -> dimages, grads of all but the heads."""
        grads: dict[str, Any] = {}
        dx, grads["norm"] = self.block.norm.backward(p["norm"], dx, cache.norm)
        dx, grads["blocks"] = self.stack.backward(p["blocks"], dx, cache.blocks)
        dx = dropout_backward(dx, cache.keep, self.dropout)
        grads["positions"] = get_xp(dx).sum(dx, axis=0)                                    # added to every image
        grads["tokens"] = grads["positions"][: self.read].copy()                   # the same of every image, too
        dpatches, grads["patches"] = dense_backward(p["patches"], dx[:, self.read :], cache.patches)
        return patchify_backward(dpatches, cache.images, self.patch), grads

    def attention(self, cache: ImageCache) -> list[Array]:
        return [block.attention.weights for block in cache.encoder.blocks]


@dataclass(eq=False, kw_only=True)
class ViT(ViTOptions, ImageModel):
    """Learns what is on images from images with labels.

        model = ViT(epochs=20).fit(IMAGE_SETS["shapes"]().generate().split())
        model.classify(images)                               # array(["disc", "cross", ...])

    Every option is checked when the object is made: ValueError names the value and what was expected.
    """

    epochs: int = with_default(20, Settings, "epochs")
    lr: float = with_default(2e-3, Settings, "lr")
    weight_decay: float = with_default(0.1, Settings, "weight_decay")        # the paper's

    name = "vit"
    Network = ViTNetwork

    def __post_init__(self) -> None:
        ViTOptions.__post_init__(self)
        ImageModel.__post_init__(self)

    def vocabularies_of(self, parts: list[Images]) -> dict[str, Any]:
        """Raises ValueError as its base does, and where a teacher's answers are to be learned and there are none."""
        if self.distil and parts[0].teacher is None:
            found = "these images have none: expected `teacher` with them, or --teacher RUN"
            raise ValueError(f"distil learns a teacher's answers, and {found}")
        return super().vocabularies_of(parts)

    def numbered(self, data: Images, known: dict[str, Any]) -> NumberedImages:
        """Raises ValueError for images of another size, and for an unknown class."""
        found = super().numbered(data, known)
        if not self.distil or data.teacher is None:
            return found
        return found._replace(taught=known["classes"].numbers(data.teacher.tolist()) - 1)
