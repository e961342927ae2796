"""Longformer: a window, and global tokens with projections of their own (Beltagy et al. 2020, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ...backend import Array, get_xp
from ...ops import (
    BlockLayout,
    Mask,
    attention,
    attention_backward,
    block_sparse_attention,
    block_sparse_attention_backward,
    dense_weights,
)
from ...ops.attention.patterns import NearAndGlobal, Pattern
from ...options import option
from ...random import PairMask, pair_mask
from ..dropout_mask import dropout_mask
from ..readable import is_readable
from .patterned import Patterned

PROJECTIONS = ("global_query", "global_key", "global_value")


class Part(NamedTuple):
    """Some of the queries, what they have been compared with, and their weights."""

    q: Array
    k: Array
    v: Array
    layout: BlockLayout | None                # None in the readable form
    weights: Any                         # as `block_sparse_attention` gives them; readable: (..., h, n, m)
    keep: Any                            # dropout of the weights: a `PairMask`; readable: boolean, like weights
    rate: float

    @property
    def dense(self) -> Array:
        return self.weights if self.layout is None else dense_weights(self.weights, self.layout)

    def backward(self, dout: Array) -> tuple[Array, Array, Array]:
        q, k, v, layout, weights, keep, rate = self
        if layout is None:
            return attention_backward(dout, q, k, v, weights, keep=keep, rate=rate)[:3]
        return block_sparse_attention_backward(dout, q, k, v, weights, layout, keep=keep)[:3]


class LongformerCache(NamedTuple):
    near: Part                           # all queries; the global ones look at nothing here
    of_globals: Part                     # the global queries
    rows: int                            # so many tokens have second projections

    @property
    def weights(self) -> Array:
        """(..., h, n, n), before dropout."""
        found, more = self.near.dense.copy(), self.of_globals.dense
        *_, first, m = more.shape
        found[..., :first, :m] = more                           # `near` has zeros there
        return found


@dataclass(frozen=True)
class Longformer(Patterned):
    """Tokens look at those near them and at the first G; these look at all, by other projections.

        out_i = attention(q_i, k, v)  of near and global tokens    for i >= G
        out_i = attention(q'_i, k', v')  of all tokens             for i < G

    q', k' and v' are made by W'_q, W'_k and W'_v. With a causal mask nobody looks ahead, and global tokens do not,
    either: they see the global tokens before them.
    """

    window: int = option(
        16, "keys that a query looks at: its own and the N - 1 before it; not causal: N - 1 on either side",
        at_least=1, at_most=100_000,
    )  # fmt: skip
    global_tokens: int = option(
        1, "number of global tokens, the first of each sequence, with projections of their own: all look at them, and "
        "they at all (causal: both ways only back)",
        at_least=0,
    )  # fmt: skip

    name = "longformer"
    has_scores = False               # of two kinds, by two sets of projections

    @property
    def second_projections(self) -> tuple[str, ...]:
        return PROJECTIONS if self.global_tokens else ()

    def second_rows(self, n: int, mask: Mask) -> int:
        return min(self.global_tokens, n) if mask.causal else n

    def refuse_length(self, longest: int) -> None:
        if self.global_tokens > longest:
            raise ValueError(f"global_tokens is {self.global_tokens}, expected at most maxlen, which is {longest}")

    def patterns(self, causal: bool, heads: int) -> list[Pattern]:
        return [NearAndGlobal(causal, self.window, self.global_tokens)]

    def forward(
        self, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
    ) -> tuple[Array, Any]:
        if not self.global_tokens:
            return super().forward(p, q, k, v, mask, terms, rate, rng)
        (_, n), rows = self.own_tokens(q, k), terms["global_query"].shape[-2]
        pattern = NearAndGlobal(mask.causal, self.window, self.global_tokens)
        layout = pattern.of_globals(n)
        gq, gk, gv = (terms[name] for name in PROJECTIONS)
        gq, gk, gv = gq[..., : layout.n, :], gk[..., : layout.m, :], gv[..., : layout.m, :]
        if is_readable():
            seen = Patterned.as_full(self, mask, q.shape[-3], get_xp(q).arange(n)[None, :, None], n)
            allowed: Any = seen.array(n, n, like=q)
            keep = dropout_mask(q, (*q.shape[:-1], n), rate, rng)
            ordinary = get_xp(q).arange(n)[:, None] >= layout.n
            out, near = _readable(q, k, v, allowed & ordinary, keep, rate)
            some = None if keep is None else keep[..., : layout.n, : layout.m]
            more, part = _readable(gq, gk, gv, allowed[..., : layout.n, : layout.m], some, rate)
        else:
            pairs = None if rng is None or rate == 0 else pair_mask(rng, rate)
            real = mask.keys(n, like=q)
            out, near = _in_blocks(q, k, v, pattern.layout(n), real, pairs)
            more, part = _in_blocks(gq, gk, gv, layout, None if real is None else real[..., : layout.m], pairs)
        out[..., : layout.n, :] = more
        return out, LongformerCache(near, part, rows)

    def backward(
        self, p: Any, dout: Array, cache: Any
    ) -> tuple[Array, Array, Array, dict[str, Array], dict[str, Any]]:
        if not isinstance(cache, LongformerCache):
            return super().backward(p, dout, cache)
        dq, dk, dv = cache.near.backward(dout)                  # the global rows have looked at nothing there
        first = cache.of_globals.q.shape[-2]
        gradients = cache.of_globals.backward(dout[..., :first, :])
        terms = {name: _longer(d, cache.rows) for name, d in zip(PROJECTIONS, gradients, strict=True)}
        return dq, dk, dv, terms, {}

    @property
    def extends(self) -> bool:
        return not self.global_tokens

    def as_full(self, mask: Mask, heads: int, queries: Array, m: int) -> Mask | None:  # type: ignore[override]
        return None if self.global_tokens else super().as_full(mask, heads, queries, m)


def _in_blocks(q: Array, k: Array, v: Array, layout: BlockLayout, real: Array | None, pairs: PairMask | None) -> Any:
    out, weights = block_sparse_attention(q, k, v, layout, real, keep=pairs)
    return out, Part(q, k, v, layout, weights, pairs, 0.0)


def _readable(q: Array, k: Array, v: Array, allowed: Array, keep: Array | None, rate: float) -> Any:
    out, weights = attention(q, k, v, allowed, keep=keep, rate=rate)
    return out, Part(q, k, v, None, weights, keep, rate)


def _longer(x: Array, rows: int) -> Array:
    """With zeros for rows that were not read. Shapes: (..., some, d) -> (..., rows, d)."""
    xp, (*lead, n, d) = get_xp(x), x.shape
    return x if n == rows else xp.concatenate([x, xp.zeros((*lead, rows - n, d), dtype=x.dtype)], axis=-2)
