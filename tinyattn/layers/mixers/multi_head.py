"""Multi-head attention: several small attentions side by side (Vaswani et al. 2017, section 3.2.2).

Heads of queries may share a head of keys and values: all heads in multi-query attention (Shazeer 2019), each group of
heads in grouped-query attention (Ainslie et al. 2023).
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array
from ...ops import Mask, as_mask, silu, silu_backward
from ..dense import DenseCache, dense, dense_backward, dense_init
from ..heads import for_each_head, merge, split, sum_of_groups
from ..mechanisms import Full, Mechanism
from ..positions import NoPosition, Position
from .mixer import Mixer

FULL, NO_POSITION = Full(), NoPosition()


def multi_head_init(
    rng: np.random.Generator, dim: int, *, bias: bool = True, output: bool = True, kv_dim: int | None = None
) -> dict[str, Any]:
    """Parameters: query, key, value and, unless `output` is False, output; each {"W": (dim, dim), "b": (dim,)}.

    Keys and values may be narrower: with `kv_dim` their W are (dim, kv_dim).
    """
    wide = {"query": dim, "key": kv_dim or dim, "value": kv_dim or dim} | ({"output": dim} if output else {})
    return {name: dense_init(rng, dim, width, bias) for name, width in wide.items()}


class MultiHeadPast(NamedTuple):
    """The KV cache of past tokens."""

    length: int                 # how many tokens
    kept: Any                   # the mechanism's cache


class MultiHeadCache(NamedTuple):
    query: DenseCache
    key: DenseCache
    value: DenseCache
    placed: Any                 # the position scheme's cache
    attended: Any               # the mechanism's cache
    output: DenseCache | None   # None without an output projection
    heads: int
    kv_heads: int
    mechanism: Mechanism
    position: Position
    own_memory: bool = False    # is it self-attention?
    more: Any = None            # the cache of the mechanism's additional projections
    before: Any = None          # the heads of queries, keys and values before SiLU; None without it

    @property
    def weights(self) -> Array:
        """(..., h, n, m), before dropout."""
        return self.attended.weights


def multi_head_attention(
    p: Any,
    x: Array,
    memory: Array,
    *,
    heads: int,
    kv_heads: int | None = None,
    mask: Mask | Array | None = None,
    rate: float = 0.0,
    rng: Any = None,
    mechanism: Mechanism = FULL,
    position: Position = NO_POSITION,
    slots: Array | None = None,
    activated: bool = False,
) -> tuple[Array, MultiHeadCache]:
    """Queries from x, keys and values from memory; self-attention is `memory = x`.

    y = concat_h(attention(x Wq_h, memory Wk_h, memory Wv_h)) Wo. The output projection is left out where `p`
    has none, as in SASRec. Dropout acts on the attention weights. `mechanism` may replace full attention, and a
    `position` scheme may act on the heads of tokens at `slots`. With `kv_heads` below `heads`, a head of keys and
    values serves heads / kv_heads consecutive heads of queries, and W_k and W_v are (D, kv_heads D / heads).
    `activated`: queries, keys and values pass through SiLU (Zhai et al. 2024, equation 1).

    Shapes: x (..., n, D), memory (..., m, D); a mask that is an array broadcasts to (..., heads, n, m), so one for each
    sequence is (B, 1, n, m) -> y (..., n, D), cache.
    Raises ValueError where heads does not divide D, where kv_heads does not divide heads, and for what the mechanism
    does not take.
    """
    kv_heads = kv_heads or heads
    q, query = dense(p["query"], x)                             # (..., n, D)
    k, key = dense(p["key"], memory)                            # (..., m, D)
    v, value = dense(p["value"], memory)
    q, k, v = split(q, heads), split(k, kv_heads), split(v, kv_heads)      # (..., heads of each, n or m, D / h)
    before = (q, k, v) if activated else None
    if activated:
        q, k, v = silu(q), silu(k), silu(v)
    if kv_heads != heads:
        k, v = for_each_head(k, heads), for_each_head(v, heads)
    q, k, terms, placed = position.enter(p.get("position"), q, k, slots)
    mask = as_mask(mask)
    mechanism.refuse(mask, terms, dropout=rng is not None and rate > 0)
    projected, more = mechanism.project(p, x, memory, mask, heads, kv_heads, position, slots)
    terms = terms | projected
    out, attended = mechanism.forward(p.get("mechanism"), q, k, v, mask, terms, rate, rng)
    y, output = merge(out), None                                # (..., n, D)
    if "output" in p:
        y, output = dense(p["output"], y)
    return y, MultiHeadCache(
        query, key, value, placed, attended, output, heads, kv_heads, mechanism, position, more=more,
        before=before,
    )


def multi_head_attention_backward(p: Any, dy: Array, cache: MultiHeadCache) -> tuple[Array, Array, dict[str, Any]]:
    """-> dx (..., n, D), dmemory (..., m, D), grads. Self-attention adds the two: x was read in both places."""
    grads: dict[str, Any] = {}
    if cache.output is not None:
        dy, grads["output"] = dense_backward(p["output"], dy, cache.output)
    dout = split(dy, cache.heads)                               # out was merged: split undoes it
    dq, dk, dv, dterms, learned = cache.mechanism.backward(p.get("mechanism"), dout, cache.attended)
    dq, dk, placed = cache.position.enter_backward(p.get("position"), dq, dk, dterms, cache.placed)
    if cache.kv_heads != cache.heads:
        dk, dv = sum_of_groups(dk, cache.kv_heads), sum_of_groups(dv, cache.kv_heads)
    if cache.before is not None:
        dq, dk, dv = (silu_backward(dy, x) for dy, x in zip((dq, dk, dv), cache.before, strict=True))
    dx, grads["query"] = dense_backward(p["query"], merge(dq), cache.query)
    dmemory_k, grads["key"] = dense_backward(p["key"], merge(dk), cache.key)
    dmemory_v, grads["value"] = dense_backward(p["value"], merge(dv), cache.value)
    grads |= {name: part for name, part in (("mechanism", learned), ("position", placed)) if part}
    dmemory = dmemory_k + dmemory_v
    grads |= cache.mechanism.project_backward(p, dterms, cache.more, dx, dmemory)
    return dx, dmemory, grads


@dataclass(frozen=True)
class MultiHead(Mixer):
    """`multi_head_attention` of any mechanism and position scheme, as a part of a block.

    Raises ValueError for heads below 1, for kv_heads that do not divide them, and where the mechanism does not take
    what the position scheme gives; TypeError for a mechanism or position that is not an object, such as its name.
    """

    heads: int = 1
    mechanism: Mechanism = field(default=FULL)
    position: Position = field(default=NO_POSITION)
    bias: bool = True            # of the query, key and value projections, and of the output projection
    output: bool = True          # is there an output projection?
    kv_heads: int | None = None  # heads of keys and values: as many as `heads`, or fewer, shared
    activated: bool = False      # do queries, keys and values pass through SiLU? The form `hstu` of the block sets it

    name = "attention"
    keeps_tokens = True          # some mechanisms keep fewer, or a sum
    takes_memory = True
    has_weights = True

    def __post_init__(self) -> None:
        for what, part, kind in (("mechanism", self.mechanism, Mechanism), ("position", self.position, Position)):
            if not isinstance(part, kind):
                raise TypeError(f"{what} is {part!r}, expected an object of class {kind.__name__}")
        if self.heads < 1:
            raise ValueError(f"heads is {self.heads}, expected at least 1")
        if self.groups < 1 or self.heads % self.groups:
            raise ValueError(f"kv_heads is {self.kv_heads}, expected a divisor of heads, which is {self.heads}")
        for term in sorted(self.position.gives - self.mechanism.takes):
            raise ValueError(
                f"position {self.position.name} gives a {term}, and mechanism {self.mechanism.name} takes none"
            )

    @property
    def groups(self) -> int:
        """Heads of keys and values."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def is_plain(self) -> bool:  # type: ignore[override]
        """Is it full attention, with a head of keys and values for each head of queries, and no positions there?"""
        plain = type(self.mechanism) is Full and not self.position.at_heads and not self.activated
        return plain and self.groups == self.heads

    @property
    def takes_dropout(self) -> bool:  # type: ignore[override]
        return "dropout" in self.mechanism.takes

    @property
    def reads_all(self) -> bool:  # type: ignore[override]
        return self.mechanism.reads_all

    @property
    def needs_lengths(self) -> bool:  # type: ignore[override]
        return self.mechanism.needs_lengths

    @property
    def extends(self) -> bool:
        return self.position.extends and self.mechanism.extends

    def refuse_dim(self, dim: int) -> None:
        """Raise ValueError for tokens of a width that these heads do not divide, or at which `position` cannot act."""
        if dim % self.heads:
            raise ValueError(f"dim {dim} is not divisible by heads {self.heads}")
        self.position.refuse_width(dim // self.heads)

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        self.refuse_dim(dim)
        width = dim // self.heads
        p = multi_head_init(rng, dim, bias=self.bias, output=self.output, kv_dim=self.groups * width)
        p |= self.mechanism.init_projections(rng, dim, self.groups * width, self.bias)
        optional = {
            "mechanism": self.mechanism.init(rng, self.heads, width),
            "position": self.position.init_heads(rng, self.heads, width),
        }
        return p | {name: part for name, part in optional.items() if part}

    def forward(
        self, p: Any, x: Array, memory: Array | None = None, *, mask: Mask | Array | None = None,
        slots: Array | None = None, rate: float = 0.0, rng: Any = None,
    ) -> tuple[Array, MultiHeadCache]:  # fmt: skip
        y, cache = multi_head_attention(
            p, x, x if memory is None else memory, heads=self.heads, kv_heads=self.groups, mask=mask, rate=rate,
            rng=rng, mechanism=self.mechanism, position=self.position, slots=slots,
            activated=self.activated,
        )  # fmt: skip
        return y, cache._replace(own_memory=memory is None)

    def backward(self, p: Any, dy: Array, cache: MultiHeadCache) -> tuple[Array, Array | None, dict[str, Any]]:
        dx, dmemory, grads = multi_head_attention_backward(p, dy, cache)
        return (dx + dmemory, None, grads) if cache.own_memory else (dx, dmemory, grads)

    def extend(self, p: Any, x: Array, memory: Array | None, past: MultiHeadPast | None) -> tuple[Array, MultiHeadPast]:
        """The cache has keys and values of past tokens, or the mechanism's summary of them."""
        if not self.position.extends:
            raise ValueError(f"position {self.position.name} cannot continue from past tokens: it has no cache")
        memory, length = x if memory is None else memory, 0 if past is None else past.length
        made = (dense(p["query"], x)[0], *(dense(p[name], memory)[0] for name in ("key", "value")))
        made = tuple(silu(y) for y in made) if self.activated else made
        q, k, v = (split(y, heads) for y, heads in zip(made, (self.heads, self.groups, self.groups), strict=True))
        placed = p.get("position")
        q, k = (self.position.turn(placed, part, length) for part in (q, k))
        terms = partial(self.position.terms, placed)
        out, kept = self.mechanism.extend(q, k, v, None if past is None else past.kept, terms)
        y = merge(out)
        return dense(p["output"], y)[0] if "output" in p else y, MultiHeadPast(length + x.shape[-2], kept)
