"""Attention under a pattern: only the pattern's blocks of pairs are computed."""

from typing import Any, NamedTuple

from ..backend import Array, get_xp
from ..layers.mechanisms.grid_windows import GridWindowsCache
from ..layers.mechanisms.longformer import LongformerCache
from ..ops import (
    BlockLayout,
    Mask,
    block_sparse_attention,
    block_sparse_attention_backward,
    bucket_bias,
    dense_weights,
    relative_index,
)
from ..ops.attention.patterns import NearAndGlobal
from ..random import PairMask, pair_mask


class BlocksCache(NamedTuple):
    q: Array
    k: Array
    v: Array
    layouts: list[BlockLayout]           # one for all heads, or several: head i has number i % len
    blocks: list[tuple[Array, ...]]      # the weights of each layout, as `block_sparse_attention` returns them
    keep: PairMask | None                # dropout of the weights

    @property
    def weights(self) -> Array:
        """(..., h, n, m), before dropout: 0 outside of the pattern."""
        return interleaved([dense_weights(w, layout) for w, layout in zip(self.blocks, self.layouts, strict=True)])

    def backward(self, dout: Array) -> tuple[Array, Array, Array]:
        """-> dq, dk, dv."""
        q, k, v, layouts, blocks, pairs = self
        grads = []
        for r, (layout, weights) in enumerate(zip(layouts, blocks, strict=True)):
            d_r, q_r, k_r, v_r = (heads_of(x, r, layouts) for x in (dout, q, k, v))
            keep = dropped_of(pairs, r, layouts)
            grads.append(block_sparse_attention_backward(d_r, q_r, k_r, v_r, weights, layout, keep=keep))
        dq, dk, dv = (interleaved([g[i] for g in grads]) for i in range(3))
        return dq, dk, dv


def in_blocks(
    q: Array, k: Array, v: Array, layouts: list[BlockLayout], real: Array | None, pairs: PairMask | None
) -> tuple[Array, BlocksCache]:
    """Attention in which head i has layout i % len(layouts). `real`: which keys are no padding; `pairs`: dropout."""
    outs, blocks = [], []
    for r, layout in enumerate(layouts):
        q_r, k_r, v_r = (heads_of(x, r, layouts) for x in (q, k, v))
        out, weights = block_sparse_attention(q_r, k_r, v_r, layout, real, keep=dropped_of(pairs, r, layouts))
        outs.append(out)
        blocks.append(weights)
    return interleaved(outs), BlocksCache(q, k, v, layouts, blocks, pairs)


def patterned(
    mechanism: Any, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
) -> tuple[Array, BlocksCache]:
    """`Patterned.forward`."""
    heads, n = mechanism.heads_and_tokens(q, k)
    layouts = [pattern.layout(n) for pattern in mechanism.patterns(mask.causal, heads)]
    return in_blocks(q, k, v, layouts, mask.keys(n, like=q), _pairs(rate, rng))


def longformer(
    mechanism: Any, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
) -> Any:
    """`Longformer.forward` with global tokens."""
    if not mechanism.global_tokens:
        return NotImplemented
    n, first, gq, gk, gv = mechanism.global_heads(q, k, mask, terms)
    pattern, real = NearAndGlobal(mask.causal, mechanism.window, mechanism.global_tokens), mask.keys(n, like=q)
    pairs = _pairs(rate, rng)                                   # the same for both parts
    out, near = in_blocks(q, k, v, [pattern.layout(n)], real, pairs)
    real = None if real is None else real[..., : gk.shape[-2]]
    more, of_globals = in_blocks(gq, gk, gv, [pattern.of_globals(n)], real, pairs)
    out[..., :first, :] = more
    return out, LongformerCache(near, of_globals, terms["global_query"].shape[-2])


def grid_windows(
    mechanism: Any, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
) -> tuple[Array, GridWindowsCache]:
    """`GridWindows.forward`."""
    bias = bucket_bias(p["table"], relative_index(mechanism.window, like=q))[:, None]
    out, blocks = block_sparse_attention(q, k, v, mechanism.layout, bias=bias)
    return out, GridWindowsCache(q, k, v, blocks, bias, mechanism.layout)


def _pairs(rate: float, rng: Any) -> PairMask | None:
    return None if rng is None or rate == 0 else pair_mask(rng, rate)


def heads_of(x: Array, r: int, layouts: list[BlockLayout]) -> Array:
    """The heads that the r-th layout is for. Shapes: (..., h, n, d) -> (..., some of h, n, d)."""
    return x[..., r :: len(layouts), :, :]


def dropped_of(pairs: PairMask | None, r: int, layouts: list[BlockLayout]) -> PairMask | None:
    """The dropout mask of these heads: a part of the mask of all heads."""
    return None if pairs is None else pairs._replace(heads=(r, len(layouts)))


def interleaved(parts: list[Array]) -> Array:
    """The inverse of `heads_of`, of all layouts. Shapes: for each (..., some of h, n, d) -> (..., h, n, d)."""
    if len(parts) == 1:
        return parts[0]
    *lead, _, n, d = parts[0].shape
    whole = get_xp(*parts).empty((*lead, sum(x.shape[-3] for x in parts), n, d), dtype=parts[0].dtype)
    for r, x in enumerate(parts):
        whole[..., r :: len(parts), :, :] = x
    return whole
