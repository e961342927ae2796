"""Full attention under a pattern's mask."""

from dataclasses import replace
from typing import Any

from ...backend import Array, get_xp
from ...forms import replaceable
from ...ops import Mask, attention
from ...ops.attention.patterns import Pattern
from ..dropout_mask import dropout_mask
from .full import Full, FullCache


class Patterned(Full):
    """A mechanism with fixed `patterns`, which depend only on places."""

    looks_at_kept = False
    takes = frozenset({"causal", "lengths", "dropout"})

    def patterns(self, causal: bool, heads: int) -> list[Pattern]:
        """One pattern for all heads, or several: head i takes pattern i % (how many there are)."""
        raise NotImplementedError

    def heads_and_tokens(self, q: Array, k: Array) -> tuple[int, int]:
        """-> heads, n. Raises ValueError unless there are as many queries as keys: patterns are of one sequence."""
        heads, n = q.shape[-3:-1]
        if k.shape[-2] != n:
            raise ValueError(f"mechanism {self.name} has {n} queries and {k.shape[-2]} keys, expected as many of each")
        return heads, n

    @replaceable
    def forward(
        self, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
    ) -> tuple[Array, Any]:
        heads, n = self.heads_and_tokens(q, k)
        allowed = self.as_full(mask, heads, get_xp(q).arange(n)[None, :, None], n).array(n, n, like=q)
        keep = dropout_mask(q, (*q.shape[:-1], n), rate, rng)
        out, weights = attention(q, k, v, allowed, keep=keep, rate=rate)
        return out, FullCache(q, k, v, weights, None, keep, rate)

    def as_full(self, mask: Mask, heads: int, queries: Array, m: int) -> Mask:
        key = get_xp(queries).arange(m)
        seen = [pattern.sees(queries, key, m) for pattern in self.patterns(mask.causal, heads)]
        if len(seen) > 1:
            seen = [get_xp(queries).concatenate([seen[head % len(seen)] for head in range(heads)], axis=-3)]
        return replace(mask, allowed=seen[0])
