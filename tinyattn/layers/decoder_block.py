"""The decoder's block: self-attention, cross-attention, then the feed-forward network, each with a residual and a norm.

    post      LN(x + dropout(f(x)))        the original Transformer (Vaswani et al. 2017, section 3.1)
    pre       x + dropout(f(LN(x)))        GPT-2's order, in which deep stacks train without warm-up (Xiong et al. 2020)

In cross-attention queries come from the tokens of the decoder, keys and values from the encoder's output, `memory`.
Every block of a decoder reads the same memory, so its gradient is the sum of the gradients from all blocks.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..backend import Array
from ..ops import Mask
from ..options import one_of
from .dropout_mask import add_dropped, dropped_backward
from .feed_forward import FeedForward, PositionWise
from .mixers import Mixer, MultiHead
from .norm import LayerNorm, Norm


class DecoderBlockCache(NamedTuple):
    """What one forward saves; `cache.cross.weights` are the weights of source tokens for each target token."""

    norm_1: Any
    attention: Any                   # the mixer's cache
    keep_1: Any                      # of `add_dropped`: dropout on each of the three sublayers' outputs
    norm_2: Any
    cross: Any                       # cross-attention's cache
    keep_2: Any
    norm_3: Any
    feed_forward: Any
    keep_3: Any


def pre_decoder_block(
    block: "DecoderBlock", p: Any, x: Array, memory: Array, mask: Mask, memory_mask: Mask, slots: Array | None, rng: Any
) -> tuple[Array, DecoderBlockCache]:
    """x + dropout(f(LN(x))) three times. The memory is normalised already: cross-attention normalises only its queries.

    Shapes: x (B, n, D), memory (B, m, D) -> y (B, n, D), cache.
    """
    h, norm_1 = block.norm.forward(p["norm_1"], x)
    a, attention = block.mixer.forward(p["attention"], h, mask=mask, slots=slots)
    x, keep_1 = add_dropped(x, a, block.rate, rng)

    h, norm_2 = block.norm.forward(p["norm_2"], x)
    c, cross = block.cross.forward(p["cross"], h, memory, mask=memory_mask)
    x, keep_2 = add_dropped(x, c, block.rate, rng)

    h, norm_3 = block.norm.forward(p["norm_3"], x)
    f, ffn = block.feed_forward.forward(p["feed_forward"], h)
    y, keep_3 = add_dropped(x, f, block.rate, rng)
    return y, DecoderBlockCache(norm_1, attention, keep_1, norm_2, cross, keep_2, norm_3, ffn, keep_3)


def pre_decoder_block_backward(
    block: "DecoderBlock", p: Any, dy: Array, cache: DecoderBlockCache
) -> tuple[Array, Array, dict[str, Any]]:
    """The mirror of `pre_decoder_block`: at each residual the gradient goes both ways. -> dx, dmemory, grads."""
    df = dropped_backward(dy, cache.keep_3, block.rate)
    dh, ffn = block.feed_forward.backward(p["feed_forward"], df, cache.feed_forward)
    dx, norm_3 = block.norm.backward(p["norm_3"], dh, cache.norm_3)
    dx = dx + dy                                             # y = x + ...

    dc = dropped_backward(dx, cache.keep_2, block.rate)
    dh, dmemory, cross = block.cross.backward(p["cross"], dc, cache.cross)
    du, norm_2 = block.norm.backward(p["norm_2"], dh, cache.norm_2)
    dx = dx + du                                             # x = x + ...

    da = dropped_backward(dx, cache.keep_1, block.rate)
    dh, _, attention = block.mixer.backward(p["attention"], da, cache.attention)
    du, norm_1 = block.norm.backward(p["norm_1"], dh, cache.norm_1)
    dx = dx + du                                             # x = x + ...
    return dx, dmemory, _parts(norm_1, attention, norm_2, cross, norm_3, ffn)


def post_decoder_block(
    block: "DecoderBlock", p: Any, x: Array, memory: Array, mask: Mask, memory_mask: Mask, slots: Array | None, rng: Any
) -> tuple[Array, DecoderBlockCache]:
    """LN(x + dropout(f(x))) three times. Shapes: x (B, n, D), memory (B, m, D) -> y (B, n, D), cache."""
    a, attention = block.mixer.forward(p["attention"], x, mask=mask, slots=slots)
    u, keep_1 = add_dropped(x, a, block.rate, rng)
    x, norm_1 = block.norm.forward(p["norm_1"], u)

    c, cross = block.cross.forward(p["cross"], x, memory, mask=memory_mask)
    u, keep_2 = add_dropped(x, c, block.rate, rng)
    x, norm_2 = block.norm.forward(p["norm_2"], u)

    f, ffn = block.feed_forward.forward(p["feed_forward"], x)
    u, keep_3 = add_dropped(x, f, block.rate, rng)
    y, norm_3 = block.norm.forward(p["norm_3"], u)
    return y, DecoderBlockCache(norm_1, attention, keep_1, norm_2, cross, keep_2, norm_3, ffn, keep_3)


def post_decoder_block_backward(
    block: "DecoderBlock", p: Any, dy: Array, cache: DecoderBlockCache
) -> tuple[Array, Array, dict[str, Any]]:
    """The mirror of `post_decoder_block`: every gradient passes through the norms. -> dx, dmemory, grads."""
    du, norm_3 = block.norm.backward(p["norm_3"], dy, cache.norm_3)
    df = dropped_backward(du, cache.keep_3, block.rate)
    dx, ffn = block.feed_forward.backward(p["feed_forward"], df, cache.feed_forward)
    dx = dx + du                                             # u = x + ...

    du, norm_2 = block.norm.backward(p["norm_2"], dx, cache.norm_2)
    dc = dropped_backward(du, cache.keep_2, block.rate)
    dx, dmemory, cross = block.cross.backward(p["cross"], dc, cache.cross)
    dx = dx + du                                             # u = x + ...

    du, norm_1 = block.norm.backward(p["norm_1"], dx, cache.norm_1)
    da = dropped_backward(du, cache.keep_1, block.rate)
    dx, _, attention = block.mixer.backward(p["attention"], da, cache.attention)
    dx = dx + du                                             # u = x + ...
    return dx, dmemory, _parts(norm_1, attention, norm_2, cross, norm_3, ffn)


def _parts(*parts: Any) -> dict[str, Any]:
    """Gradients by name."""
    return dict(zip(("norm_1", "attention", "norm_2", "cross", "norm_3", "feed_forward"), parts, strict=True))


class DecoderForm(NamedTuple):
    """A form of the decoder's block: a new one is two functions and one line in DECODER_FORMS."""

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    gives_normed: bool = False       # is its output normalised, so that a stack needs no norm at its end?


DECODER_FORMS = {
    "pre": DecoderForm(pre_decoder_block, pre_decoder_block_backward),
    "post": DecoderForm(post_decoder_block, post_decoder_block_backward, gives_normed=True),
}


@dataclass(frozen=True)
class DecoderBlock:
    """A block with cross-attention, in one of the forms of DECODER_FORMS.

        block = DecoderBlock(MultiHead(heads=2), MultiHead(heads=2))
        p = block.init(rng, 64)
        y, cache = block.forward(p, x, memory, mask=Mask(causal=True), memory_mask=Mask(lengths=lengths))
        dx, dmemory, grads = block.backward(p, dy, cache)

    `rate` is the dropout rate, used when `forward` is given an `rng`. Raises ValueError for an unknown form, and for
    cross-attention by a mixer without keys.
    """

    mixer: Mixer = field(default=MultiHead())
    cross: Mixer = field(default=MultiHead())
    form: str = "pre"
    norm: Norm = field(default=LayerNorm())
    feed_forward: PositionWise = field(default=FeedForward())
    rate: float = 0.0

    def __post_init__(self) -> None:
        if self.form not in DECODER_FORMS:
            raise ValueError(f"form is {self.form!r}, expected {one_of(DECODER_FORMS, self.form)}")
        if not self.cross.takes_memory:
            raise ValueError(f"cross is mixer {self.cross.name}, which has no keys that could come from a memory")

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        """Parameters, of width `dim`."""
        return {
            "norm_1": self.norm.init(dim), "attention": self.mixer.init(rng, dim),
            "norm_2": self.norm.init(dim), "cross": self.cross.init(rng, dim),
            "norm_3": self.norm.init(dim), "feed_forward": self.feed_forward.init(rng, dim),
        }  # fmt: skip

    def forward(
        self, p: Any, x: Array, memory: Array, *, mask: Mask | None = None, memory_mask: Mask | None = None,
        slots: Array | None = None, rng: Any = None,
    ) -> tuple[Array, DecoderBlockCache]:  # fmt: skip
        """`mask` is for self-attention, `memory_mask` for the memory: each a `Mask`, not an array, or None for all.

        Shapes: x (B, n, D), memory (B, m, D), slots (B, n) or None -> y (B, n, D), cache.
        """
        form = DECODER_FORMS[self.form]
        return form.forward(self, p, x, memory, mask or Mask(), memory_mask or Mask(), slots, rng)

    def backward(self, p: Any, dy: Array, cache: DecoderBlockCache) -> tuple[Array, Array, dict[str, Any]]:
        """-> dx (B, n, D), dmemory (B, m, D), grads shaped like p."""
        return DECODER_FORMS[self.form].backward(self, p, dy, cache)
