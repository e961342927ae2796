"""Full attention under a pattern's mask, of which only the pattern's blocks are computed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from ...backend import Array, get_xp
from ...ops import (
    AttentionCache,
    BlockLayout,
    Mask,
    attention,
    block_sparse_attention,
    block_sparse_attention_backward,
    dense_weights,
)
from ...ops.attention.patterns import Pattern
from ...random import PairMask, pair_mask
from ..dropout_mask import dropout_mask
from ..readable import is_readable
from .full import Full, FullCache
from .mechanism import Mechanism


class PatternedCache(NamedTuple):
    q: Array
    k: Array
    v: Array
    layouts: list[BlockLayout]                # one for all heads, or some that heads take in turn
    blocks: list[tuple[Array, ...]]      # of each layout, as `block_sparse_attention` gives them
    keep: PairMask | None                # dropout of the weights

    @property
    def weights(self) -> Array:
        """(..., h, n, n), before dropout: 0 outside of the pattern."""
        return interleaved([dense_weights(w, layout) for w, layout in zip(self.blocks, self.layouts, strict=True)])


class Patterned(Mechanism):
    """A mechanism that says its `patterns`. Who looks at whom does not depend on what the tokens are."""

    has_scores = True
    takes = frozenset({"causal", "lengths", "dropout"})

    def patterns(self, causal: bool, heads: int) -> list[Pattern]:
        """One for all heads, or some that heads take in turn: head i the i-th, and after the last the first again."""
        raise NotImplementedError

    def own_tokens(self, q: Array, k: Array) -> tuple[int, int]:
        """-> heads, n. Raises ValueError where queries and keys are not as many: patterns are of one sequence."""
        heads, n = q.shape[-3:-1]
        if k.shape[-2] != n:
            raise ValueError(f"mechanism {self.name} has {n} queries and {k.shape[-2]} keys, expected as many of each")
        return heads, n

    def forward(
        self, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
    ) -> tuple[Array, PatternedCache | FullCache]:
        heads, n = self.own_tokens(q, k)
        if is_readable():                                       # what it is, and not how little of it is computed
            every = get_xp(q).arange(n)[None, :, None]
            allowed = self.as_full(mask, heads, every, n).array(n, n, like=q)
            keep = dropout_mask(q, (*q.shape[:-1], n), rate, rng)
            out, weights = attention(q, k, v, allowed, keep=keep, rate=rate)
            return out, FullCache(AttentionCache(q, k, v, None, plain=weights), None, keep, rate)
        pairs = None if rng is None or rate == 0 else pair_mask(rng, rate)
        layouts, real = [pattern.layout(n) for pattern in self.patterns(mask.causal, heads)], mask.keys(n, like=q)
        found = []
        for r, layout in enumerate(layouts):
            own_q, own_k, own_v = (heads_of(x, r, layouts) for x in (q, k, v))
            found.append(block_sparse_attention(own_q, own_k, own_v, layout, real, keep=dropped_of(pairs, r, layouts)))
        out = interleaved([out for out, _ in found])
        return out, PatternedCache(q, k, v, layouts, [weights for _, weights in found], pairs)

    def backward(
        self, p: Any, dout: Array, cache: PatternedCache
    ) -> tuple[Array, Array, Array, dict[str, Array], dict[str, Any]]:
        if isinstance(cache, FullCache):                        # of the readable form
            return Full().backward(p, dout, cache)
        q, k, v, layouts, blocks, pairs = cache
        found = []
        for r, (layout, weights) in enumerate(zip(layouts, blocks, strict=True)):
            d_own, own_q, own_k, own_v = (heads_of(x, r, layouts) for x in (dout, q, k, v))
            keep = dropped_of(pairs, r, layouts)
            found.append(block_sparse_attention_backward(d_own, own_q, own_k, own_v, weights, layout, keep=keep))
        dq, dk, dv = (interleaved([grads[i] for grads in found]) for i in range(3))
        return dq, dk, dv, {}, {}

    def as_full(self, mask: Mask, heads: int, queries: Array, m: int) -> Mask:
        key = get_xp(queries).arange(m)
        seen = [pattern.sees(queries, key, m) for pattern in self.patterns(mask.causal, heads)]
        if len(seen) > 1:
            seen = [get_xp(queries).concatenate([seen[head % len(seen)] for head in range(heads)], axis=-3)]
        return replace(mask, allowed=seen[0])


def heads_of(x: Array, r: int, layouts: list[BlockLayout]) -> Array:
    """The heads that the r-th layout is for. Shapes: (..., h, n, d) -> (..., some of h, n, d)."""
    return x[..., r :: len(layouts), :, :]


def dropped_of(pairs: PairMask | None, r: int, layouts: list[BlockLayout]) -> PairMask | None:
    """What these heads drop: the same as among all heads."""
    return None if pairs is None else pairs._replace(heads=(r, len(layouts)))


def interleaved(parts: list[Array]) -> Array:
    """The inverse of `heads_of`, of all layouts. Shapes: for each (..., some of h, n, d) -> (..., h, n, d)."""
    if len(parts) == 1:
        return parts[0]
    *lead, _, n, d = parts[0].shape
    found = get_xp(*parts).empty((*lead, sum(x.shape[-3] for x in parts), n, d), dtype=parts[0].dtype)
    for r, x in enumerate(parts):
        found[..., r :: len(parts), :, :] = x
    return found
