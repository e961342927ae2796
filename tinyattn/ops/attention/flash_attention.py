"""Attention in tiles, without storing the weights (Dao et al. 2022, in the form of Dao 2023).

`attention` computes n m scores and keeps n m weights for its backward. Here scores are computed for a tile of queries
and keys at a time, used, and dropped: besides q, k, v and out only one number per query is kept.

    online softmax    softmax needs a row's largest score m and the sum l of its exponentials before any weight is
                      known. Both are kept for the keys so far, with the sum `out` of exp(s - m) v. When a tile raises
                      m to m', the sums so far are too large by e^(m' - m):

                          l' = e^(m - m') l + Σ e^(s - m'),   out' = e^(m - m') out + e^(s - m') v

                      and after the last tile out / l is the result (Milakov & Gimelshein 2018)
    recomputation     L = m + log l is kept for each row. The backward computes each tile of scores again, and its
                      weights as P = e^(s - L)
    tiles skipped     a tile without an allowed pair is not computed: under a causal mask, half of all
"""

import itertools
import math
from collections.abc import Iterator

from ...backend import Array, get_xp, is_numpy
from ...random import PairMask
from ..masks import Mask, as_mask
from ..shapes import expect, expect_mask, row_sum, transpose_last, with_ones

TILE = (256, 512)     # queries and keys: in float32 the scores of a tile and their gradient take 1 MB


def flash_attention(
    q: Array, k: Array, v: Array, mask: Mask | Array | None = None, keep: PairMask | None = None,
    scale: float | None = None, tile: tuple[int, int] = TILE,
) -> tuple[Array, Array]:  # fmt: skip
    """out = dropout(softmax(s, mask)) v, with s = c q kᵀ.

    c is `scale`, by default 1 / √d. The result is that of `attention`, to rounding, for every tiling; memory grows with
    n + m. Any mask is allowed, but an array has n m entries, and a `Mask` has a few numbers. The dropout mask is a
    `PairMask`, which is one integer.

    Shapes: q (..., n, d), k (..., m, d), v (..., m, e), mask onto (..., n, m), `tile` queries by keys
    -> out (..., n, e), L (..., n, 1), the logarithm of Σ exp(c q kᵀ) over the keys that a query may look at.
    A query that may look at nothing gets zeros, and L = -∞ there. Raises ValueError for shapes that do not fit and for
    a tile below 1, TypeError for dtypes.
    """
    expect("...nd ...md ...me", q=q, k=k, v=v)
    mask = as_mask(mask)
    expect_mask((*q.shape[:-1], k.shape[-2]), mask, like=q)
    plan, xp = _Plan(q, k, mask, keep, scale, tile), get_xp(q)
    out, room = xp.zeros((*q.shape[:-1], v.shape[-1]), dtype=q.dtype), plan.room()
    L, kT = xp.full((*q.shape[:-1], 1), -math.inf, dtype=q.dtype), plan.columns(k)

    for at, queries in itertools.product(plan.heads, plan.queries):
        cq, o = q[at][..., queries, :] * plan.c, out[at][..., queries, :]
        l = xp.zeros((*cq.shape[:-1], 1), dtype=q.dtype)
        m = L[at][..., queries, :]                                                 # -∞ so far
        for keys, allowed in plan.keys_of(at, queries):
            s = plan.scores(cq, kT[at][..., keys], allowed, room)
            new = xp.maximum(m, xp.max(s, axis=-1, keepdims=True))             # m'
            finite = xp.where(new == -math.inf, 0, new)                        # nothing allowed yet: e^(-∞ - 0) = 0
            s -= finite
            before, m = xp.exp(m - finite), new                                # e^(m - m')
            l *= before
            o *= before
            p = xp.exp(s, out=s)                                               # e^(s - m')
            l += row_sum(p)                                                    # the denominator, before dropout
            o += plan.dropped(p, at, queries, keys) @ v[at][..., keys, :]
        empty = l == 0
        l += empty                                                            # where nothing is allowed out is 0
        o /= l
        L[at][..., queries, :] = xp.where(empty, -math.inf, m + xp.log(l))
    return out, L


def flash_attention_backward(
    dout: Array, q: Array, k: Array, v: Array, out: Array, L: Array, mask: Mask | Array | None = None,
    keep: PairMask | None = None, scale: float | None = None, tile: tuple[int, int] = TILE,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """dv = (P M)ᵀ dout, ds = P ((dout vᵀ) M - D), dq = c ds k and dk = c dsᵀ q.

    Shapes: as in `flash_attention`, and dout like out -> dq, dk, dv like q, k, v.
    P = exp(s - L) are the weights, computed again, and M is dropout's factor. These are the gradients of `attention`,
    with dP = (dout vᵀ) M. Softmax's gradient subtracts D_i = Σ_j P_ij dP_ij, which can be computed without the weights:
    D_i = dout_i · Σ_j P_ij M_ij v_j = dout_i · out_i.
    s and L are rounded before they are subtracted, so weights have a relative error of |L| ε: in float32 1e-3 for
    logits of 1e4.
    """
    expect("...ne ...nd ...md ...me ...ne ...nz", dout=dout, q=q, k=k, v=v, out=out, L=L)
    mask = as_mask(mask)
    expect_mask((*q.shape[:-1], k.shape[-2]), mask, like=q)
    plan, xp = _Plan(q, k, mask, keep, scale, tile), get_xp(q)
    dq, dk, dv, D = *(xp.zeros_like(x) for x in (q, k, v)), row_sum(dout * out)
    L = xp.where(L == -math.inf, 0, L)  # noqa: SIM300                         # nothing allowed: s is -∞, so P is 0
    cq_L, gD = xp.concatenate([q * plan.c, -L], axis=-1), xp.concatenate([dout, -D], axis=-1)
    k1T, v1T = plan.columns(with_ones(k)), plan.columns(with_ones(v))            # [c q, -L] [k, 1]ᵀ is s - L at once
    room, other = plan.room(), plan.room()
    for at, queries in itertools.product(plan.heads, plan.queries):
        cqL, dq_, g = cq_L[at][..., queries, :], dq[at][..., queries, :], dout[at][..., queries, :]
        for keys, allowed in plan.keys_of(at, queries):
            s = plan.scores(cqL, k1T[at][..., keys], allowed, room)
            p = xp.exp(s, out=s)                                                                       # e^(s - L)
            if keep is None:
                ds = _product(gD[at][..., queries, :], v1T[at][..., keys], other)                      # dP - D
            else:
                ds = plan.dropped(_product(g, v1T[at][..., :-1, keys], other), at, queries, keys)
                ds -= D[at][..., queries, :]
            dv[at][..., keys, :] += transpose_last(plan.dropped(p, at, queries, keys)) @ g             # out = (P M) v
            ds *= p
            dk[at][..., keys, :] += transpose_last(ds) @ cqL[..., :-1]                                 # s = (c q) kᵀ
            dq_ += ds @ k[at][..., keys, :]
        dq_ *= plan.c
    return dq, dk, dv


class _Plan:
    """How the work is divided: on the host head by head, and each head into tiles of queries and keys."""

    def __init__(
        self, q: Array, k: Array, mask: Mask, keep: PairMask | None, scale: float | None, tile: tuple[int, int]
    ) -> None:
        if min(tile) < 1:
            raise ValueError(f"flash_attention: tile is {tile}, expected at least 1 query and 1 key")
        if keep is not None and not isinstance(keep, PairMask):
            raise TypeError(f"flash_attention: keep is a {type(keep).__name__}, expected a PairMask, from `pair_mask`")
        *lead, n, d = q.shape
        self.shape, self.like, self.keep, self.mask = (*lead, n, k.shape[-2]), q, keep, mask
        self.c = 1 / math.sqrt(max(d, 1)) if scale is None else float(scale)
        host = is_numpy(get_xp(q))
        self.heads = list(itertools.product(*map(range, lead))) if host else [()]      # a device takes all at once
        self.together = () if host else tuple(lead)
        self.tile, self.queries = tile, _cut(0, n, tile[0])

    def keys_of(self, at: tuple[int, ...], queries: slice) -> Iterator[tuple[slice, Array | bool]]:
        """The tiles of keys that any of these queries may look at, and which pairs of each are allowed."""
        reach = self.mask.reach(queries, self.shape[-1])
        # all queries see the keys before `bend`
        bend = min(queries.start, reach.stop) if self.mask.causal else reach.stop
        for keys in (*_cut(reach.start, bend, self.tile[1]), *_cut(bend, reach.stop, self.tile[1])):
            allowed = self.mask.tile(queries, keys, self.shape, self.like, at)
            if allowed is not False:
                yield keys, allowed

    def room(self) -> Array:
        """Memory for a tile of scores, reused for each tile. Shapes: -> (..., a, b)."""
        size = (min(self.tile[0], self.shape[-2]), min(self.tile[1], self.shape[-1]))
        return get_xp(self.like).empty((*self.together, *size), dtype=self.like.dtype)

    def scores(self, cq: Array, kT: Array, allowed: Array | bool, room: Array) -> Array:
        """s = c q kᵀ, and -∞ where a query must not look. Shapes: cq (..., a, d), kT (..., d, b) -> (..., a, b)."""
        s = _product(cq, kT, room)
        if allowed is not True:
            get_xp(s).copyto(s, -math.inf, where=~allowed)
        return s

    def columns(self, x: Array) -> Array:
        """The transpose, made contiguous: products run faster. Shapes: (..., m, d) -> (..., d, m)."""
        return get_xp(x).ascontiguousarray(transpose_last(x))

    def dropped(self, x: Array, at: tuple[int, ...], queries: slice, keys: slice) -> Array:
        """A tile of weights, or of their gradient, times dropout's factor."""
        if self.keep is None:
            return x
        lead = self.shape[:-2]
        kept = self.keep.tile(lead, queries, keys, self.like, at if is_numpy(get_xp(x)) else None)
        return x * kept * (1 / (1 - self.keep.rate))


def _product(x: Array, y: Array, room: Array) -> Array:
    """x y, written into `room`. Shapes: (..., a, d), (..., d, b) -> (..., a, b), at most as large as room."""
    return get_xp(x).matmul(x, y, out=room[..., : x.shape[-2], : y.shape[-1]])


def _cut(start: int, stop: int, size: int) -> list[slice]:
    return [slice(first, min(first + size, stop)) for first in range(start, stop, size)]
