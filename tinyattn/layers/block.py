"""The block: a mixer, then the feed-forward network, each with a residual and a LayerNorm, in six forms.

    pre       x + dropout(f(LN(x)))             the SASRec paper (Kang & McAuley 2018, section III-C); GPT-2
    post      LN(x + dropout(f(x)))             the original Transformer (Vaswani et al. 2017)
    sasrec    q = LN(x); u = q + attention(q, x)    SASRec's released code: only queries are normalised, and
              h = LN(u); h + dropout(ffn(h))        the residual carries the normalised tokens
    ligr      x + σ(x W + b) ⊙ dropout(f(LN(x)))    gates on the sublayers (ligr.py)
    hstu      x + dropout(u ⊙ LN(attention(h))) W   a gate u = silu(h W_u), h = LN(x), and no feed-forward (hstu.py)
    plain     dropout(f(LN(x)))                 without residuals, for comparison

`pre`, `post` and `plain` drop the output of each sublayer; `sasrec` drops attention weights and both feed-forward
layers; `ligr` drops outputs and the feed-forward network's hidden units; `hstu` drops the input of its last map. All
forms but `hstu` share the same parameters, so that one set can run in each; `ligr` adds those of its gates. With `at`,
for inference, the same lines compute one row of each sequence after the mixer.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ..backend import Array
from ..forms import replaceable
from ..ops import Mask, dropout, dropout_backward
from ..options import one_of
from .dropout_mask import dropout_mask, dropped
from .feed_forward import FeedForward, PositionWise
from .hstu import hstu_block, hstu_block_backward, hstu_init
from .ligr import gates_init, ligr_block, ligr_block_backward
from .mixers import Mixer, MultiHead
from .norm import LayerNorm, Norm
from .past import CachedMixer
from .rows import gather_rows


class BlockCache(NamedTuple):
    """What one forward saves. With attention, `cache.attention.weights` are the attention weights."""

    norm_1: Any
    attention: Any                   # the mixer's cache
    keep_1: Array | None             # (..., n, D): dropout on the mixer's output
    norm_2: Any
    feed_forward: Any
    keep_2: Array | None             # (..., n, D): dropout on the feed-forward's output


def pre_block(
    block: "Block", p: Any, x: Array, *, at: Array | None = None, rng: Any = None, **context: Any
) -> tuple[Array, BlockCache]:
    """x + dropout(attention(LN(x))), then x + dropout(ffn(LN(x))). Shapes: x (..., n, D) -> y (..., n, D), cache."""
    h, norm_1 = block.norm.forward(p["norm_1"], x)
    a, attention = block.mixer.mix(p["attention"], h, at=at, **context)
    x = gather_rows(x, at)
    keep_1 = dropout_mask(x, x.shape, block.rate, rng)
    x = x + dropout(a, keep_1, block.rate)

    h, norm_2 = block.norm.forward(p["norm_2"], x)
    f, ffn = block.feed_forward.forward(p["feed_forward"], h)
    keep_2 = dropout_mask(x, x.shape, block.rate, rng)
    y = dropout(f, keep_2, block.rate)
    y += x                                                   # in place: f was made above
    return y, BlockCache(norm_1, attention, keep_1, norm_2, ffn, keep_2)


def pre_block_backward(block: "Block", p: Any, dy: Array, cache: BlockCache) -> tuple[Array, dict[str, Any]]:
    """The mirror of `pre_block`: at each residual the gradient goes both ways and is added. -> dx, grads."""
    df = dropout_backward(dy, cache.keep_2, block.rate)
    dh, ffn = block.feed_forward.backward(p["feed_forward"], df, cache.feed_forward)
    dx, norm_2 = block.norm.backward(p["norm_2"], dh, cache.norm_2)
    dx += dy                                                 # y = x + ...

    da = dropout_backward(dx, cache.keep_1, block.rate)
    dh, _, attention = block.mixer.backward(p["attention"], da, cache.attention)
    dh, norm_1 = block.norm.backward(p["norm_1"], dh, cache.norm_1)
    dh += dx                                                 # x = x + ...
    return dh, {"norm_1": norm_1, "attention": attention, "norm_2": norm_2, "feed_forward": ffn}


def post_block(
    block: "Block", p: Any, x: Array, *, at: Array | None = None, rng: Any = None, **context: Any
) -> tuple[Array, BlockCache]:
    """LN(x + dropout(attention(x))), then LN(x + dropout(ffn(x))). Shapes: x (..., n, D) -> y (..., n, D), cache."""
    a, attention = block.mixer.mix(p["attention"], x, at=at, **context)
    x = gather_rows(x, at)
    keep_1 = dropout_mask(x, x.shape, block.rate, rng)
    x, norm_1 = block.norm.forward(p["norm_1"], x + dropout(a, keep_1, block.rate))

    f, ffn = block.feed_forward.forward(p["feed_forward"], x)
    keep_2 = dropout_mask(x, x.shape, block.rate, rng)
    y, norm_2 = block.norm.forward(p["norm_2"], x + dropout(f, keep_2, block.rate))
    return y, BlockCache(norm_1, attention, keep_1, norm_2, ffn, keep_2)


def post_block_backward(block: "Block", p: Any, dy: Array, cache: BlockCache) -> tuple[Array, dict[str, Any]]:
    """The mirror of `post_block`: every gradient, also a residual's, passes through the norms. -> dx, grads."""
    du, norm_2 = block.norm.backward(p["norm_2"], dy, cache.norm_2)
    df = dropout_backward(du, cache.keep_2, block.rate)
    dx, ffn = block.feed_forward.backward(p["feed_forward"], df, cache.feed_forward)
    dx = dx + du                                             # u = x + ...

    du, norm_1 = block.norm.backward(p["norm_1"], dx, cache.norm_1)
    da = dropout_backward(du, cache.keep_1, block.rate)
    dx, _, attention = block.mixer.backward(p["attention"], da, cache.attention)
    dx = dx + du                                             # u = x + ...
    return dx, {"norm_1": norm_1, "attention": attention, "norm_2": norm_2, "feed_forward": ffn}


def sasrec_block(
    block: "Block", p: Any, x: Array, *, at: Array | None = None, rng: Any = None, **context: Any
) -> tuple[Array, BlockCache]:
    """q = LN(x), u = q + attention(q, x); h = LN(u), y = h + ffn(h). Shapes: x (..., n, D) -> y (..., n, D), cache."""
    q, norm_1 = block.norm.forward(p["norm_1"], x)
    a, attention = block.mixer.mix(p["attention"], q, x, at=at, rate=block.rate, rng=rng, **context)
    u = gather_rows(q, at) + a                               # not x + a: the residual is normalised

    h, norm_2 = block.norm.forward(p["norm_2"], u)
    f, ffn = block.feed_forward.forward(p["feed_forward"], h, rate=block.rate, rng=rng)
    keep_2 = dropout_mask(u, u.shape, block.rate, rng)
    y = h + dropout(f, keep_2, block.rate)
    return y, BlockCache(norm_1, attention, None, norm_2, ffn, keep_2)


def sasrec_block_backward(block: "Block", p: Any, dy: Array, cache: BlockCache) -> tuple[Array, dict[str, Any]]:
    """The mirror of `sasrec_block`: x is read by the norm and, raw, by keys and values. -> dx, grads."""
    df = dropout_backward(dy, cache.keep_2, block.rate)
    dh, ffn = block.feed_forward.backward(p["feed_forward"], df, cache.feed_forward)
    du, norm_2 = block.norm.backward(p["norm_2"], dh + dy, cache.norm_2)       # y = h + ...

    dq, dkv, attention = block.mixer.backward(p["attention"], du, cache.attention)
    dx, norm_1 = block.norm.backward(p["norm_1"], dq + du, cache.norm_1)       # u = q + ...
    dx = dx + dkv                                                              # keys and values saw the raw x
    return dx, {"norm_1": norm_1, "attention": attention, "norm_2": norm_2, "feed_forward": ffn}


def plain_block(
    block: "Block", p: Any, x: Array, *, at: Array | None = None, rng: Any = None, **context: Any
) -> tuple[Array, BlockCache]:
    """u = dropout(attention(LN(x))), then y = dropout(ffn(LN(u))). Shapes: x (..., n, D) -> y (..., n, D), cache.

    For comparison with `pre` (Kang & McAuley 2018, section IV-F, ablation "remove residual connections").
    """
    h, norm_1 = block.norm.forward(p["norm_1"], x)
    a, attention = block.mixer.mix(p["attention"], h, at=at, **context)
    u, keep_1 = dropped(a, block.rate, rng)
    h, norm_2 = block.norm.forward(p["norm_2"], u)
    f, ffn = block.feed_forward.forward(p["feed_forward"], h)
    y, keep_2 = dropped(f, block.rate, rng)
    return y, BlockCache(norm_1, attention, keep_1, norm_2, ffn, keep_2)


def plain_block_backward(block: "Block", p: Any, dy: Array, cache: BlockCache) -> tuple[Array, dict[str, Any]]:
    """The mirror of `plain_block`: without residuals the gradient passes through every sublayer. -> dx, grads."""
    df = dropout_backward(dy, cache.keep_2, block.rate)
    dh, ffn = block.feed_forward.backward(p["feed_forward"], df, cache.feed_forward)
    du, norm_2 = block.norm.backward(p["norm_2"], dh, cache.norm_2)
    da = dropout_backward(du, cache.keep_1, block.rate)
    dh, _, attention = block.mixer.backward(p["attention"], da, cache.attention)
    dx, norm_1 = block.norm.backward(p["norm_1"], dh, cache.norm_1)
    return dx, {"norm_1": norm_1, "attention": attention, "norm_2": norm_2, "feed_forward": ffn}


class Form(NamedTuple):
    """A form of the block: a new one is two functions and one line in BLOCK_FORMS."""

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    about: str                       # its description in --help
    gives_memory: bool = False       # do keys and values have another input than queries?
    drops_weights: bool = False      # does the mixer get the dropout rate?
    gives_normed: bool = False       # is its output normalised, so that a stack needs no norm at its end?
    init: Callable[..., dict[str, Any]] | None = None     # (rng, dim) -> parameters that only this form has
    feeds_forward: bool = True       # does it have a feed-forward network?
    activates: bool = False          # do queries, keys and values pass through SiLU?


BLOCK_FORMS = {
    "pre": Form(pre_block, pre_block_backward, "norms before each sublayer"),
    "post": Form(post_block, post_block_backward, "norms after each residual", gives_normed=True),
    "sasrec": Form(
        sasrec_block, sasrec_block_backward, "as in SASRec's released code", gives_memory=True, drops_weights=True
    ),
    "ligr": Form(ligr_block, ligr_block_backward, "with gates, as in eSASRec", init=gates_init),
    "hstu": Form(hstu_block, hstu_block_backward, "as in HSTU, without feed-forward network", init=hstu_init,
                 feeds_forward=False, activates=True),
    "plain": Form(plain_block, plain_block_backward, "without residuals"),
}
ABOUT_BLOCK_FORMS = "form of the blocks: " + "; ".join(f"{form.about} ({name})" for name, form in BLOCK_FORMS.items())


@dataclass(frozen=True)
class Block:
    """A block of any mixer, norm and feed-forward network, in one of the forms of BLOCK_FORMS.

        block = Block(MultiHead(heads=2))
        p = block.init(rng, 64)
        y, cache = block.forward(p, x, mask=Mask(causal=True))
        dx, grads = block.backward(p, dy, cache)

    `rate` is the dropout rate, used when `forward` is given an `rng`. Raises ValueError for an unknown form, and for a
    mixer that does not suit the form.
    """

    mixer: Mixer = field(default=MultiHead())
    form: str = "pre"
    norm: Norm = field(default=LayerNorm())
    feed_forward: PositionWise = field(default=FeedForward())
    rate: float = 0.0

    def __post_init__(self) -> None:
        if self.form not in BLOCK_FORMS:
            raise ValueError(f"form is {self.form!r}, expected {one_of(BLOCK_FORMS, self.form)}")
        form, mixer = BLOCK_FORMS[self.form], _named(self.mixer)
        if form.gives_memory and not self.mixer.takes_memory:
            raise ValueError(f"block form {self.form} needs keys, and {mixer} has none: use pre or post")
        if form.drops_weights and self.rate and not self.mixer.takes_dropout:
            raise ValueError(
                f"block form {self.form} drops attention weights, and {mixer} has none to drop: "
                "use dropout 0 or another form"
            )
        if form.activates and isinstance(self.mixer, MultiHead):
            object.__setattr__(self, "mixer", replace(self.mixer, activated=True))

    @property
    def is_plain(self) -> bool:
        """Is it full attention and the feed-forward network, each behind a LayerNorm, and nothing else?"""
        return type(self.norm) is LayerNorm and type(self.feed_forward) is FeedForward and self.mixer.is_plain

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        """Parameters of width `dim`: norm_1, attention (the mixer's), norm_2, and what the form has besides."""
        form = BLOCK_FORMS[self.form]
        parts = {
            "norm_1": self.norm.init(dim),
            "attention": self.mixer.init(rng, dim),
            "norm_2": self.norm.init(dim),
        }
        if form.feeds_forward:
            parts["feed_forward"] = self.feed_forward.init(rng, dim)
        return parts | (form.init(rng, dim) if form.init else {})

    @replaceable
    def forward(
        self, p: Any, x: Array, *, mask: Mask | Array | None = None, slots: Array | None = None, rng: Any = None,
        at: Array | None = None,
    ) -> tuple[Array, BlockCache]:  # fmt: skip
        """-> y (..., n, D), cache. With `at` (B,), for inference: row `at` of each sequence, (B, 1, D).

        A mask of None allows all pairs; recurrent mixers raise ValueError for it. Without `rng` nothing is dropped.
        Shapes: x (..., n, D), slots (B, n) or None.
        """
        return BLOCK_FORMS[self.form].forward(self, p, x, at=at, rng=rng, mask=mask, slots=slots)

    def extend(self, p: Any, x: Array, past: Any) -> tuple[Array, Any]:
        """Causal `forward` of tokens that follow others, for inference: -> y, the cache of all.

        `past` is the cache of the earlier tokens, None at the beginning. Shapes: x (B, n, D) -> y (B, n, D).
        Raises ValueError for a mixer without cache.
        """
        if not x.shape[-2]:
            return x, past                                       # no token follows
        y, cache = replace(self, mixer=CachedMixer(self.mixer, past)).forward(p, x, mask=Mask(causal=True))
        return y, cache.attention

    def backward(self, p: Any, dy: Array, cache: Any) -> tuple[Array, dict[str, Any]]:
        """-> dx (..., n, D), grads shaped like p."""
        if hasattr(cache, "backward"):                           # of a faster form
            return cache.backward(self, p, dy)
        return BLOCK_FORMS[self.form].backward(self, p, dy, cache)


def _named(mixer: Mixer) -> str:
    return f"mechanism {mixer.mechanism.name}" if isinstance(mixer, MultiHead) else f"mixer {mixer.name}"
