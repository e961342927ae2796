"""Full attention in tiles: the weights are the only array of n m numbers, and long sequences do not keep them."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from ..backend import Array, get_xp, is_numpy
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
from ..ops.shapes import rows, transpose_last
from ..random import PairMask, pair_mask
from . import kernels
from .kernels_device import ALL, ARRAY, CAUSAL

# With this many keys or more, weights are recomputed, not kept; benchmarks/results/long_attention.md has the cost.
LONG, LONG_WITH_DROPOUT = 2048, 512
WHOLE = 1 << 28          # bytes of scores: with more, kernels recompute weights, too (docs/gpu.md has the arithmetic)


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


class WeightsCache(NamedTuple):
    """What `by_kernels` remembers. Shapes: weights (..., h, n, m), before dropout."""

    q: Array
    k: Array
    v: Array
    weights: Array
    dropped: Array
    keep: kernels.HashedMask | None
    scale: float

    def backward(self, dout: Array) -> tuple[Array, Array, Array]:
        """-> dq, dk, dv."""
        dv, dp = transpose_last(self.dropped) @ dout, dout @ transpose_last(self.v)
        dp = dp if self.keep is None else self.keep.drop(dp)
        kernels.by_rows("weigh_back", rows(self.weights), dp.dtype.type(self.scale), rows(dp))            # now ds
        return dp @ self.k, transpose_last(dp) @ self.q, dv


class Weighing(NamedTuple):
    """Attention by products, and a kernel for scale, mask and softmax. As a cache it has no array of n m numbers."""

    q: Array
    k: Array
    v: Array
    mask: Mask
    keep: kernels.HashedMask | None

    @property
    def groups(self) -> "Iterator[tuple[slice, Weighing]]":
        """As many sequences each as have WHOLE bytes of scores; none has more."""
        (B, h, n, _), (lengths, allowed) = self.q.shape, (self.mask.lengths, self.mask.allowed)
        some = WHOLE // (h * n * self.k.shape[-2] * self.q.itemsize)
        for at in (slice(i, min(i + some, B)) for i in range(0, B, some)):
            theirs = allowed[at] if allowed is not None and allowed.ndim == 4 and len(allowed) > 1 else allowed
            mask = replace(self.mask, lengths=None if lengths is None else lengths[at], allowed=theirs)
            keep = None if self.keep is None else self.keep._replace(rows=self.keep.rows[at])
            yield at, Weighing(self.q[at], self.k[at], self.v[at], mask, keep)

    @property
    def weights(self) -> Array:
        """(B, h, n, m), before dropout: computed on demand."""
        return self._replace(keep=None).computed().weights

    def computed(self) -> WeightsCache:
        q, k, v, mask, keep = self
        scores, scale = q @ transpose_last(k), 1 / math.sqrt(q.shape[-1])
        s = scores.reshape(*(1,) * (4 - scores.ndim), *scores.shape)
        allowed = None if mask.only_causal else mask.array(q.shape[-2], k.shape[-2], like=q)
        kind = CAUSAL if mask.only_causal else ALL if allowed is None else ARRAY
        lanes, side = kernels.sides(s.shape[-1])
        allowed = s if allowed is None else allowed.reshape(*(1,) * (4 - allowed.ndim), *allowed.shape)
        kernels.launch("weigh", s, -(-len(rows(s)) // side), (lanes, side), allowed, kind, s.dtype.type(scale), s)
        return WeightsCache(q, k, v, scores, scores if keep is None else keep.drop(scores), keep, scale)

    def backward(self, dout: Array) -> tuple[Array, Array, Array]:
        """-> dq, dk, dv, from scores that are computed again."""
        gradients = tuple(get_xp(x).empty_like(x) for x in (self.q, self.k, self.v))
        for at, group in self.groups:
            for whole, part in zip(gradients, group.computed().backward(dout[at]), strict=True):
                whole[at] = part
        return gradients


def by_kernels(q: Array, k: Array, v: Array, mask: Mask, rate: float, rng: Any) -> Any:
    """`Full.forward` without terms. Beyond WHOLE bytes, scores are those of some sequences at a time, and not kept."""
    dropping = rng is not None and rate > 0
    if not (kernels.suits(q, k, v) and 1 < q.ndim <= 4 and (kernels.has_keys(rng) or not dropping)):
        return NotImplemented
    size = math.prod(q.shape[:-1]) * k.shape[-2] * q.itemsize
    if (size if q.ndim < 4 else size // len(q)) > WHOLE:
        return NotImplemented
    keep = kernels.HashedMask(next(rng.rng), rng.rows, rate) if dropping else None
    weighing = Weighing(q, k, v, mask, keep)
    if size <= WHOLE:
        cache = weighing.computed()
        return cache.dropped @ v, cache
    out = get_xp(q).empty((*q.shape[:-1], v.shape[-1]), dtype=q.dtype)
    for at, group in weighing.groups:
        out[at] = group.computed().dropped @ group.v
    return out, weighing


def full_attention(
    mechanism: Any, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
) -> Any:
    """`Full.forward` without terms; without kernels, with dropout only for long sequences."""
    dropping = rng is not None and rate > 0
    if not (terms or is_numpy(get_xp(q))) and (found := by_kernels(q, k, v, mask, rate, rng)) is not NotImplemented:
        return found
    if terms or (dropping and k.shape[-2] < LONG_WITH_DROPOUT):
        return NotImplemented
    return in_tiles(q, k, v, mask, pair_mask(rng, rate) if dropping else None)
