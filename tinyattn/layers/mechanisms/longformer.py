"""Longformer: a window, and global tokens with separate projections (Beltagy et al. 2020, section 3.1)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...forms import replaceable
from ...ops import Mask, attention, attention_backward
from ...ops.attention.patterns import NearAndGlobal, Pattern
from ...options import option, with_default
from ..dense import DenseCache, dense, dense_backward, dense_init
from ..dropout_mask import dropout_mask
from ..heads import for_each_head, merge, split, sum_of_groups
from .patterned import Patterned
from .window import Window

PROJECTIONS = ("global_query", "global_key", "global_value")


class ProjectionsCache(NamedTuple):
    rows: int                            # how many tokens are projected, from the first
    kv_heads: int
    projected: tuple[DenseCache, ...]
    position: Any                        # the position scheme, and its cache
    placed: Any


class Part(NamedTuple):
    """Some of the queries, the keys and values that they look at, and their weights."""

    q: Array
    k: Array
    v: Array
    weights: Array                       # (..., h, n, m), before dropout
    keep: Array | None                   # dropout of the weights
    rate: float

    def backward(self, dout: Array) -> tuple[Array, Array, Array]:
        """-> dq, dk, dv."""
        return attention_backward(dout, *self[:4], keep=self.keep, rate=self.rate)[:3]


class LongformerCache(NamedTuple):
    near: Any                            # a `Part` of all queries, with zeros for the global ones
    of_globals: Any                      # a `Part` of the global queries
    rows: int                            # how many tokens have second projections

    @property
    def weights(self) -> Array:
        """(..., h, n, n), before dropout."""
        weights, more = self.near.weights.copy(), self.of_globals.weights
        *_, first, m = more.shape
        weights[..., :first, :m] = more                         # `near` has zeros there
        return weights


@dataclass(frozen=True)
class Longformer(Patterned):
    """Every token looks at near tokens and at the first G. These look at all tokens, through separate projections.

        out_i = attention(q_i, k, v)  of near and global tokens    for i >= G
        out_i = attention(q'_i, k', v')  of all tokens             for i < G

    q', k' and v' are projections by W'_q, W'_k and W'_v. With a causal mask no token looks ahead, so global tokens look
    only at global tokens.
    """

    window: int = with_default(16, Window, "window")
    global_tokens: int = option(
        1, "number of global tokens, the first of each sequence, with separate projections: they and all others look "
        "at each other (causal: only back)",
        at_least=0,
    )  # fmt: skip

    name = "longformer"
    has_scores = False               # two sets of projections make two kinds of scores

    def init_projections(self, rng: np.random.Generator, dim: int, kv_dim: int, bias: bool) -> dict[str, Any]:
        if not self.global_tokens:
            return {}
        return {name: dense_init(rng, dim, d, bias) for name, d in zip(PROJECTIONS, (dim, kv_dim, kv_dim), strict=True)}

    def project(
        self, p: Any, x: Array, memory: Array, mask: Mask, heads: int, kv_heads: int, position: Any,
        slots: Array | None,
    ) -> tuple[dict[str, Array], Any]:  # fmt: skip
        """Queries, keys and values of the tokens that global ones may look at; with a causal mask only the first G."""
        if not self.global_tokens:
            return {}, None
        rows = min(self.global_tokens, x.shape[-2]) if mask.causal else x.shape[-2]
        tokens, counts = [y[..., :rows, :] for y in (x, memory, memory)], (heads, kv_heads, kv_heads)
        made, caches = zip(*(dense(p[name], y) for name, y in zip(PROJECTIONS, tokens, strict=True)), strict=True)
        q, k, v = (for_each_head(split(y, h), heads) for y, h in zip(made, counts, strict=True))
        slots = None if slots is None else slots[..., :rows]
        q, k, _, placed = position.enter(p.get("position"), q, k, slots)     # the terms are known already
        cache = ProjectionsCache(rows, kv_heads, caches, position, placed)
        return dict(zip(PROJECTIONS, (q, k, v), strict=True)), cache

    def project_backward(
        self, p: Any, dterms: dict[str, Array], cache: ProjectionsCache | None, dx: Array, dmemory: Array
    ) -> dict[str, Any]:
        if cache is None:
            return {}
        dq, dk, dv = (dterms[name] for name in PROJECTIONS)
        dq, dk, _ = cache.position.enter_backward(p.get("position"), dq, dk, {}, cache.placed)
        dk, dv = sum_of_groups(dk, cache.kv_heads), sum_of_groups(dv, cache.kv_heads)
        grads = {}
        for name, d, dense_cache, total in zip(
            PROJECTIONS, (dq, dk, dv), cache.projected, (dx, dmemory, dmemory), strict=True
        ):
            d_tokens, grads[name] = dense_backward(p[name], merge(d), dense_cache)
            total[..., : cache.rows, :] += d_tokens
        return grads

    def refuse_length(self, longest: int) -> None:
        if self.global_tokens > longest:
            raise ValueError(f"global_tokens is {self.global_tokens}, expected at most maxlen, which is {longest}")

    def patterns(self, causal: bool, heads: int) -> list[Pattern]:
        return [NearAndGlobal(causal, self.window, self.global_tokens)]

    @replaceable
    def forward(
        self, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
    ) -> tuple[Array, Any]:
        if not self.global_tokens:
            return super().forward(p, q, k, v, mask, terms, rate, rng)
        n, first, gq, gk, gv = self.global_heads(q, k, mask, terms)
        queries = get_xp(q).arange(n)[:, None]
        allowed: Any = Patterned.as_full(self, mask, q.shape[-3], queries[None], n).array(n, n, like=q)
        keep = dropout_mask(q, (*q.shape[:-1], n), rate, rng)
        m = gk.shape[-2]
        near = q, k, v, allowed & (queries >= first), keep
        of_globals = gq, gk, gv, allowed[..., :first, :m], None if keep is None else keep[..., :first, :m]
        (out, near_part), (more, global_part) = (_attended(*part, rate) for part in (near, of_globals))
        out[..., :first, :] = more
        return out, LongformerCache(near_part, global_part, terms["global_query"].shape[-2])

    def global_heads(
        self, q: Array, k: Array, mask: Mask, terms: dict[str, Array]
    ) -> tuple[int, int, Array, Array, Array]:
        """-> n, the number of global queries, and their queries, keys and values by the second projections."""
        _, n = self.heads_and_tokens(q, k)
        layout = NearAndGlobal(mask.causal, self.window, self.global_tokens).of_globals(n)
        gq, gk, gv = (terms[name] for name in PROJECTIONS)
        return n, layout.n, gq[..., : layout.n, :], gk[..., : layout.m, :], gv[..., : layout.m, :]

    def backward(self, p: Any, dout: Array, cache: Any) -> tuple[Array, Array, Array, dict[str, Array], dict[str, Any]]:
        if not isinstance(cache, LongformerCache):
            return super().backward(p, dout, cache)
        dq, dk, dv = cache.near.backward(dout)                  # the global rows are 0 there
        first = cache.of_globals.q.shape[-2]
        gradients = cache.of_globals.backward(dout[..., :first, :])
        terms = {name: _longer(d, cache.rows) for name, d in zip(PROJECTIONS, gradients, strict=True)}
        return dq, dk, dv, terms, {}

    @property
    def extends(self) -> bool:
        return not self.global_tokens

    def as_full(self, mask: Mask, heads: int, queries: Array, m: int) -> Mask | None:  # type: ignore[override]
        return None if self.global_tokens else super().as_full(mask, heads, queries, m)


def _attended(q: Array, k: Array, v: Array, allowed: Array, keep: Array | None, rate: float) -> tuple[Array, Part]:
    out, weights = attention(q, k, v, allowed, keep=keep, rate=rate)
    return out, Part(q, k, v, weights, keep, rate)


def _longer(x: Array, rows: int) -> Array:
    """x with zeros for the rows that were not read. Shapes: (..., some, d) -> (..., rows, d)."""
    xp, (*lead, n, d) = get_xp(x), x.shape
    return x if n == rows else xp.concatenate([x, xp.zeros((*lead, rows - n, d), dtype=x.dtype)], axis=-2)
