"""The decoder's block: self-attention, cross-attention, then the feed-forward network, each with a residual and a norm.

    post      LN(x + dropout(f(x)))        the original Transformer (Vaswani et al. 2017, section 3.1)
    pre       x + dropout(f(LN(x)))        GPT-2's order, in which deep stacks train without warm-up (Xiong et al. 2020)

In cross-attention queries come from the tokens of the decoder, keys and values from the encoder's output, `memory`.
Every block of a decoder reads the same memory, so its gradient is the sum of the gradients from all blocks.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
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
    keep_1: Array | None             # (..., n, D): dropout on each of the three sublayers' outputs
    norm_2: Any
    cross: Any                       # cross-attention's cache
    keep_2: Array | None
    norm_3: Any
    feed_forward: Any
    keep_3: Array | None


def pre(block: "DecoderBlock", p: Any, x: Array, f: Callable[[Array], Any], rng: Any) -> tuple[Array, tuple[Any, ...]]:
    """y = x + dropout(f(LN(x))). The memory is normalised already: cross-attention normalises only its queries.

    `f` is a sublayer, `p` the parameters of its norm. Shapes: x (B, n, D) -> y (B, n, D), the caches of norm and
    sublayer, and the mask.
    """
    h, norm = block.norm.forward(p, x)
    a, sublayer = f(h)
    y, keep = add_dropped(x, a, block.rate, rng)
    return y, (norm, sublayer, keep)


def pre_backward(
    block: "DecoderBlock", p: Any, dy: Array, f_backward: Callable[..., Any], cache: tuple[Any, ...]
) -> tuple[Array, dict[str, Any], list[Any]]:
    """The mirror of `pre`: at the residual the gradient goes both ways. -> dx, grads of the norm, the sublayer's."""
    norm, sublayer, keep = cache
    dh, *grads = f_backward(dropped_backward(dy, keep, block.rate), sublayer)
    dx, of_norm = block.norm.backward(p, dh, norm)
    return dx + dy, of_norm, grads                           # y = x + ...


def post(block: "DecoderBlock", p: Any, x: Array, f: Callable[[Array], Any], rng: Any) -> tuple[Array, tuple[Any, ...]]:
    """y = LN(x + dropout(f(x))). Arguments and results are those of `pre`."""
    a, sublayer = f(x)
    u, keep = add_dropped(x, a, block.rate, rng)
    y, norm = block.norm.forward(p, u)
    return y, (norm, sublayer, keep)


def post_backward(
    block: "DecoderBlock", p: Any, dy: Array, f_backward: Callable[..., Any], cache: tuple[Any, ...]
) -> tuple[Array, dict[str, Any], list[Any]]:
    """The mirror of `post`: every gradient passes through the norm. -> dx, grads of the norm, the sublayer's."""
    norm, sublayer, keep = cache
    du, of_norm = block.norm.backward(p, dy, norm)
    dx, *grads = f_backward(dropped_backward(du, keep, block.rate), sublayer)
    return dx + du, of_norm, grads                           # u = x + ...


class DecoderForm(NamedTuple):
    """How norm and residual surround each sublayer: a new form is two functions and one line in DECODER_FORMS."""

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    gives_normed: bool = False       # is its output normalised, so that a stack needs no norm at its end?


DECODER_FORMS = {
    "pre": DecoderForm(pre, pre_backward),
    "post": DecoderForm(post, post_backward, gives_normed=True),
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
        around = DECODER_FORMS[self.form].forward
        look = partial(self.mixer.forward, p["attention"], mask=mask or Mask(), slots=slots)
        align = partial(self.cross.forward, p["cross"], memory=memory, mask=memory_mask or Mask())
        feed = partial(self.feed_forward.forward, p["feed_forward"])
        x, of_mixer = around(self, p["norm_1"], x, look, rng)
        x, of_cross = around(self, p["norm_2"], x, align, rng)
        y, of_ffn = around(self, p["norm_3"], x, feed, rng)
        return y, DecoderBlockCache(*of_mixer, *of_cross, *of_ffn)

    def backward(self, p: Any, dy: Array, cache: DecoderBlockCache) -> tuple[Array, Array, dict[str, Any]]:
        """-> dx (B, n, D), dmemory (B, m, D), grads shaped like p."""
        back, (of_mixer, of_cross, of_ffn) = DECODER_FORMS[self.form].backward, (cache[:3], cache[3:6], cache[6:])
        dx, norm_3, (ffn,) = back(self, p["norm_3"], dy, partial(self.feed_forward.backward, p["feed_forward"]), of_ffn)
        dx, norm_2, (dmemory, cross) = back(self, p["norm_2"], dx, partial(self.cross.backward, p["cross"]), of_cross)
        dx, norm_1, (_, attention) = back(self, p["norm_1"], dx, partial(self.mixer.backward, p["attention"]), of_mixer)
        grads = {"norm_1": norm_1, "attention": attention, "norm_2": norm_2, "cross": cross, "norm_3": norm_3}
        return dx, dmemory, grads | {"feed_forward": ffn}
