"""Full attention in tiles: the weights are the only array of n m numbers, and long sequences do not keep them."""

from typing import Any, NamedTuple

from ..backend import Array
from ..ops import (
    AttentionCache,
    Mask,
    as_mask,
    attention,
    flash_attention,
    flash_attention_backward,
    fused_attention,
    fused_attention_backward,
)
from ..random import PairMask, pair_mask

# With this many keys or more, weights are recomputed, not kept; benchmarks/results/long_attention.md has the cost.
LONG, LONG_WITH_DROPOUT = 2048, 512


class FusedCache(AttentionCache):
    """What `fused_attention` saves."""

    def backward(self, dout: Array, into: tuple[Array, Array, Array] | None = None) -> tuple[Array, Array, Array]:
        """-> dq, dk, dv, which are written into the three arrays of `into`, if given."""
        return fused_attention_backward(dout, self, into)


class FlashCache(NamedTuple):
    q: Array
    k: Array
    v: Array
    out: Array
    L: Array
    mask: Mask
    keep: PairMask | None = None  # dropout of the weights
    scale: float | None = None

    @property
    def weights(self) -> Array:
        """(..., h, n, m), before dropout: computed on demand."""
        allowed = self.mask.array(self.q.shape[-2], self.k.shape[-2], like=self.q)
        return attention(self.q, self.k, self.v, allowed, scale=self.scale)[1]

    def backward(self, dout: Array, into: tuple[Array, Array, Array] | None = None) -> tuple[Array, Array, Array]:
        """-> dq, dk, dv, which are written into the three arrays of `into`, if given."""
        gradients = flash_attention_backward(dout, *self)
        for target, gradient in zip(into or (), gradients, strict=False):
            target[...] = gradient
        return gradients


def in_tiles(
    q: Array, k: Array, v: Array, mask: Mask | Array | None, keep: PairMask | None = None, scale: float | None = None
) -> tuple[Array, FusedCache | FlashCache]:
    """`attention` without bias. Weights of short sequences are kept for the backward, those of long ones recomputed."""
    if keep is None and k.shape[-2] < LONG:
        out, cache = fused_attention(q, k, v, mask, scale)
        return out, FusedCache(*cache)
    mask = as_mask(mask)
    out, L = flash_attention(q, k, v, mask, keep, scale)
    return out, FlashCache(q, k, v, out, L, mask, keep, scale)


def full_attention(
    mechanism: Any, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
) -> Any:
    """`Full.forward` without terms, and with dropout only for long sequences."""
    dropping = rng is not None and rate > 0
    if terms or (dropping and k.shape[-2] < LONG_WITH_DROPOUT):
        return NotImplemented
    return in_tiles(q, k, v, mask, pair_mask(rng, rate) if dropping else None)
