"""`attention`, arranged for a CPU: the same numbers to rounding, with fewer passes over the scores.

Between the two matrix products, `attention` goes over all (n, m) scores many times. Here there are two passes in the
forward and one in the backward, by three changes:

    tiles     64 queries at a time, up to the last key that any of them may look at: under a causal mask little more
              than half of all pairs, in pieces that stay in a core's cache
    exp(s)    the row's largest score is not subtracted first, as that changes no weight. Only rows whose sum of
              exponentials is outside of e^±50 are computed again, with it subtracted
    1 / Σ     divides the result and not the weights: out = (P v) / l with P = exp(s), l = P 1. In the backward l
              divides dout, and with D = Σ dout ⊙ out (which is Σ weights ⊙ dweights) the softmax has the gradient
              ds = P ⊙ ([dout / l, -D / l] [v, 1]ᵀ): subtracting D is one more column of the product

The tiles and the rearranged backward are those of FlashAttention (Dao et al. 2022, section 3.1), without its
recomputation. On a device `attention` is called.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from ...backend import Array, get_xp, is_numpy, overflow_is_meant
from ..masks import Mask, as_mask
from ..shapes import expect, expect_mask, row_sum, transpose_last
from .attention import attention, attention_backward

TILE = 64
LARGEST = math.exp(50)     # largest sum of exponentials, so that later products stay far inside float32's range


class AttentionCache(NamedTuple):
    """What `fused_attention_backward` needs. Shapes: as in `attention`, and weights (..., n, m)."""

    q: Array
    k: Array
    v: Array
    scale: float | None        # c
    cq: Array = None           # c q
    out: Array = None
    denominator: Array = None  # (..., n, 1): l
    tiles: Sequence[Any] = ()  # [(queries, keys, P)]: slices, and (..., queries, keys)
    plain: Array = None        # the weights, if `attention` was called

    @property
    def weights(self) -> Array:
        """(..., n, m), as `attention` returns them."""
        if self.plain is not None:
            return self.plain
        weights = get_xp(self.q).zeros((*self.q.shape[:-1], self.k.shape[-2]), dtype=self.q.dtype)
        for queries, keys, p in self.tiles:
            weights[..., queries, keys] = p / self.denominator[..., queries, :]
        return weights


def fused_attention(
    q: Array, k: Array, v: Array, mask: Mask | Array | None = None, scale: float | None = None
) -> tuple[Array, AttentionCache]:
    """out = softmax(c q kᵀ, mask) v, with c = `scale`, by default 1 / √d.

    Under a `Mask` that is only causal it is computed in tiles, under any other in one piece.
    Shapes: as in `attention` -> out (..., n, e), AttentionCache. Raises what `attention` raises.
    """
    expect("...nd ...md ...me", q=q, k=k, v=v)
    xp, (n, m), mask = get_xp(q, k, v), (q.shape[-2], k.shape[-2]), as_mask(mask)
    expect_mask((*q.shape[:-1], m), mask)
    if not is_numpy(xp):
        out, weights = attention(q, k, v, mask.array(n, m, like=q), scale=scale)
        return out, AttentionCache(q, k, v, scale, plain=weights)
    scale = 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else float(scale)
    cq = q if scale == 1 else q * scale
    kT = xp.ascontiguousarray(transpose_last(k))     # contiguous: the product runs faster
    out = xp.empty((*q.shape[:-1], v.shape[-1]), dtype=q.dtype)
    denominator, tiles = xp.empty((*q.shape[:-1], 1), dtype=q.dtype), []
    for queries, keys, hidden in _tiles(mask, (*q.shape[:-1], m), q):
        scores = partial(_scores, cq[..., queries, :], kT[..., keys], hidden)
        p, denominator[..., queries, :] = _exponentials(scores)
        xp.matmul(p, v[..., keys, :], out=out[..., queries, :])
        tiles.append((queries, keys, p))
    denominator[denominator == 0] = 1                               # all keys are hidden: out is 0
    out /= denominator
    return out, AttentionCache(q, k, v, scale, cq, out, denominator, tiles)


def _scores(cq: Array, kT: Array, hidden: tuple[slice, Array] | None) -> Array:
    s = cq @ kT                                                     # (..., 64, d) @ (..., d, keys)
    if hidden is not None:
        columns, hide = hidden
        get_xp(s).copyto(s[..., columns], -math.inf, where=hide)
    return s


def _exponentials(scores: Callable[[], Array]) -> tuple[Array, Array]:
    """exp(s - shift) and its sum over each row, with a shift that depends on the row alone, and is nearly always 0."""
    s = scores()
    xp = get_xp(s)
    with overflow_is_meant():                                       # rows that overflow are computed again below
        xp.exp(s, out=s)
    denominator = row_sum(s)
    if not s.size:
        return s, denominator
    near = (denominator > 1 / LARGEST) & (denominator < LARGEST)
    if not xp.all(near):                                            # scores far from 0, or rows with all keys hidden
        again = scores()
        row_max = xp.max(again, axis=-1, keepdims=True)
        again -= xp.where(row_max == -math.inf, 0.0, row_max)
        xp.exp(again, out=again)
        s, denominator = xp.where(near, s, again), xp.where(near, denominator, row_sum(again))
    return s, denominator


def fused_attention_backward(
    dout: Array, cache: AttentionCache, into: tuple[Array, Array, Array] | None = None
) -> tuple[Array, Array, Array]:
    """Gradients of `fused_attention`. Shapes: dout like out -> dq, dk, dv like q, k, v.

    If `into` is given, they are written into its three arrays.
    """
    q, k, v, scale, cq, out, denominator, tiles, plain = cache
    expect("...ne ...nd ...md ...me", dout=dout, q=q, k=k, v=v)
    if plain is not None:
        parts = attention_backward(dout, q, k, v, plain, scale=scale)[:3]
        for there, part in zip(into or (), parts, strict=False):
            there[...] = part
        return into or parts
    xp, e = get_xp(dout, out), v.shape[-1]
    gD = xp.empty((*dout.shape[:-1], e + 1), dtype=dout.dtype)      # [dout / l, -D / l]
    g = xp.divide(dout, denominator, out=gD[..., :e])
    gD[..., e:] = -row_sum(g * out)
    v1T = xp.empty((*v.shape[:-2], e + 1, v.shape[-2]), dtype=v.dtype)
    v1T[..., :e, :], v1T[..., e:, :] = transpose_last(v), 1
    dq, dk, dv = into or (xp.empty(q.shape, q.dtype), xp.empty(k.shape, k.dtype), xp.empty(v.shape, v.dtype))
    written = 0                                                     # dk and dv of keys below this have values
    for queries, keys, p in sorted(tiles, key=lambda tile: -tile[1].stop):          # first the tile with most keys
        ds = gD[..., queries, :] @ v1T[..., keys]                   # (dweights - D) / l
        ds *= p
        xp.matmul(ds, k[..., keys, :], out=dq[..., queries, :])     # s = c q kᵀ
        if not written:
            written = keys.stop
            xp.matmul(transpose_last(ds), cq[..., queries, :], out=dk[..., keys, :])
            xp.matmul(transpose_last(p), g[..., queries, :], out=dv[..., keys, :])  # out = (p v) / l
        else:
            dk[..., keys, :] += transpose_last(ds) @ cq[..., queries, :]
            dv[..., keys, :] += transpose_last(p) @ g[..., queries, :]
    dk[..., written:, :] = dv[..., written:, :] = 0                 # hidden from all queries
    if scale != 1:
        dq *= scale
    return dq, dk, dv


def _tiles(mask: Mask, shape: tuple[int, ...], like: Array) -> list[tuple[slice, slice, Any]]:
    """[(queries, keys, hidden)]: two slices, and hidden = (slice of keys, True where they are hidden), or None."""
    n, m = shape[-2:]
    if not mask.only_causal or not n * m:
        allowed = mask.array(n, m, like)
        return [(slice(0, n), slice(0, m), None if allowed is None else (slice(0, m), ~allowed))]
    found = []
    for first in range(0, n, TILE):
        stop = min(first + TILE, n)
        last = min(stop, m)                                         # one past the last key that any query may look at
        begin = first + 1                                           # the first key that not all queries may look at
        hidden = (slice(begin, last), _later(get_xp(like), stop - first, last - begin)) if begin < last else None
        found.append((slice(first, stop), slice(0, last), hidden))
    return found


@lru_cache(256)
def _later(xp: Any, queries: int, keys: int) -> Array:
    """True where a key is later than the query, if the first key follows the first query. Never written into."""
    return ~xp.tri(queries, keys, -1, dtype=bool)
