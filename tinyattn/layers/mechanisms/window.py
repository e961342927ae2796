"""A sliding window: every query looks at its neighbours only (Beltagy et al. 2020, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ...backend import Array
from ...ops import AttentionCache, Mask, attention, window_attention, window_attention_backward, window_weights
from ...ops.attention.window_attention import distance_slots, laid_out, whole
from ...options import option
from ..dropout_mask import dropout_mask
from ..readable import is_readable
from .full import Full, FullCache
from .mechanism import Mechanism


class WindowCache(NamedTuple):
    q: Array
    k: Array
    v: Array
    banded: Array               # (..., h, chunks, c, width), as `window_attention` gives them
    causal: bool
    keep: Array | None          # (..., h, n, S): dropout of the weights, by query and distance
    rate: float

    @property
    def weights(self) -> Array:
        """(..., h, n, n), before dropout: 0 outside of the window."""
        return window_weights(self.banded, self.q.shape[-2])


@dataclass(frozen=True)
class Window(Mechanism):
    """Full attention under |i - j| < `window`, causal 0 <= i - j < `window`, in time and memory of n · window."""

    window: int = option(
        16, "keys that a query looks at: its own and the N - 1 before it; not causal: N - 1 on either side",
        at_least=1, at_most=100_000,
    )  # fmt: skip

    name = "window"
    has_scores = True
    takes = frozenset({"causal", "lengths", "dropout"})

    def forward(
        self, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
    ) -> tuple[Array, WindowCache | FullCache]:
        n = q.shape[-2]
        keep = dropout_mask(q, (*q.shape[:-1], distance_slots(n, self.window, mask.causal)), rate, rng)
        if is_readable():                                       # what it is, and not how little of it is computed
            allowed, keep = replace(mask, window=self.window).array(n, n, like=q), _by_pairs(keep, n, mask.causal)
            out, weights = attention(q, k, v, allowed, keep=keep, rate=rate)
            return out, FullCache(AttentionCache(q, k, v, None, plain=weights), None, keep, rate)
        out, banded = window_attention(q, k, v, self.window, mask.causal, mask.keys(k.shape[-2], like=k), keep, rate)
        return out, WindowCache(q, k, v, banded, mask.causal, keep, rate)

    def backward(
        self, p: Any, dout: Array, cache: WindowCache
    ) -> tuple[Array, Array, Array, dict[str, Array], dict[str, Any]]:
        if isinstance(cache, FullCache):                        # of the readable form
            return Full().backward(p, dout, cache)
        q, k, v, banded, causal, keep, rate = cache
        return *window_attention_backward(dout, q, k, v, banded, self.window, causal, keep, rate), {}, {}

    @property
    def keeps(self) -> int:  # type: ignore[override]
        """The token that comes next looks at these, and at itself."""
        return self.window - 1

    def as_full(self, mask: Mask, heads: int, queries: Array, m: int) -> Mask:
        return replace(mask, window=self.window)


def _by_pairs(keep: Array | None, n: int, causal: bool) -> Array | None:
    """The entries by query and distance as one for each query and key: (..., n, W) -> (..., n, n)."""
    c = max(n, 1)                                               # one chunk, which has no neighbours
    return None if keep is None else whole(laid_out(keep, c, c, causal), n)
