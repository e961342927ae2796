"""A sliding window: every query looks at its neighbours only (Beltagy et al. 2020, section 3.1)."""

from dataclasses import dataclass, replace
from typing import Any

from ...backend import Array
from ...forms import replaceable
from ...ops import Mask, attention
from ...ops.attention.window_attention import distance_slots, laid_out, whole
from ...options import option
from ..dropout_mask import dropout_mask
from .full import Full, FullCache


@dataclass(frozen=True)
class Window(Full):
    """Full attention under |i - j| < `window`, causal 0 <= i - j < `window`, in time and memory of n · window."""

    window: int = option(
        16, "keys that a query looks at: its own and the N - 1 before it; not causal: N - 1 on either side",
        at_least=1, at_most=100_000, items=True,
    )  # fmt: skip

    name = "window"
    takes = frozenset({"causal", "lengths", "dropout"})

    @replaceable
    def forward(
        self, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
    ) -> tuple[Array, Any]:
        n = q.shape[-2]
        keep = dropout_mask(q, (*q.shape[:-1], distance_slots(n, self.window, mask.causal)), rate, rng)
        allowed, keep = replace(mask, window=self.window).array(n, n, like=q), _by_pairs(keep, n, mask.causal)
        out, weights = attention(q, k, v, allowed, keep=keep, rate=rate)
        return out, FullCache(q, k, v, weights, None, keep, rate)

    @property
    def keeps(self) -> int:  # type: ignore[override]
        """The next token looks at these tokens, and at itself."""
        return self.window - 1

    def as_full(self, mask: Mask, heads: int, queries: Array, m: int) -> Mask:
        return replace(mask, window=self.window)


def _by_pairs(keep: Array | None, n: int, causal: bool) -> Array | None:
    """Entries by query and distance, moved to query and key: (..., n, W) -> (..., n, n)."""
    c = max(n, 1)                                               # one chunk, which has no neighbours
    return None if keep is None else whole(laid_out(keep, c, c, causal), n)
