"""Attention that computes only blocks of pairs, so that the cost of a pattern is the cost of its blocks.

Each block is an ordinary `attention` of the rows that it gathers:

    out[queries of z] = attention(q[queries of z], k[keys of z], v[keys of z], allowed of z)

Blocks of one size are one call, like the sequences of a batch. A query is in at most one block, so row i of `out`
is read from the place of query i. A key may be in several blocks, and its gradient is a sum. Gradients are gathered and
summed in a fixed order, together for keys in equally many blocks, so that the result is always the same to the bit.
(Child et al. 2019, section 5; Zaheer et al. 2020, appendix D.)
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...random import PairMask
from ..shapes import expect, expect_onto, transpose_last
from .attention import attention, attention_backward
from .blocks import BlockLayout


def block_sparse_attention(
    q: Array, k: Array, v: Array, layout: BlockLayout, keys: Array | None = None, bias: Array | None = None,
    keep: PairMask | None = None, scale: float | None = None,
) -> tuple[Array, tuple[Array, ...]]:  # fmt: skip
    """out_z = dropout(softmax(c q_z k_zᵀ + bias, looks_z)) v_z over blocks.

    c is `scale`, by default 1 / √d, and looks_z are the allowed pairs of block z. The result is that of `attention`
    under `layout.mask`, but only `layout.pairs` scores are computed, not n m.
    Shapes: q (..., n, d), k (..., m, d), v (..., m, e); `keys` (boolean, True = a real key, not padding)
    broadcasts to (..., m); in a group of z blocks of a queries and b keys, `bias` broadcasts to (..., z, a, b)
    -> out (..., n, e), weights of each group (..., z, a, b), before dropout. `dense_weights` makes them (..., n, m).
    `keep` says which pairs dropout keeps: the same as `keep_mask` of all pairs, but computed for the blocks alone.
    A query that is in no block, or may look at nothing, gets zeros.
    Raises ValueError for a layout of other sizes, a bias where the layout has several groups, and shapes that do not
    fit; TypeError for dtypes.
    """
    expect("...nd ...md ...me", q=q, k=k, v=v)
    expect_onto(k.shape[:-1], bool, like=k, keys=keys)
    _expect_layout(layout, q, k, bias)
    xp, blocks, weights = get_xp(q), [], []
    plan = _plan(layout, xp)
    if keys is not None:
        keys = xp.broadcast_to(keys, (*keys.shape[:-1], layout.m))
    for group in plan.groups:
        out, w = attention(
            _rows(q, group.queries), _rows(k, group.keys), _rows(v, group.keys), _mask(group, keys), bias,
            _kept(keep, group, q), 0.0 if keep is None else keep.rate, scale,
        )  # fmt: skip
        blocks.append(out)
        weights.append(w)
    return _put_back(blocks, plan.of_queries, plan.missing, v), tuple(weights)


def block_sparse_attention_backward(
    dout: Array, q: Array, k: Array, v: Array, weights: tuple[Array, ...], layout: BlockLayout,
    bias: Array | None = None, keep: PairMask | None = None, scale: float | None = None,
) -> tuple[Array, Array, Array, Array | None]:  # fmt: skip
    """dq_z = c ds_z k_z, dk_j = Σ dk_zj over blocks with key j, and dv_j = Σ dv_zj over blocks with key j.

    Gradients of `block_sparse_attention`. Shapes: as there, and dout like out -> dq, dk, dv, dbias (or None).
    Each block runs `attention_backward`. dq is put back as out was. A key was read by several blocks, and their
    gradients are added. No mask is needed: hidden keys and empty places have weight 0.
    """
    expect("...ne ...nd ...md ...me", dout=dout, q=q, k=k, v=v)
    _expect_layout(layout, q, k, bias)
    plan, found, dbias = _plan(layout, get_xp(q)), [], None
    for group, w in zip(plan.groups, weights, strict=True):
        *grads, dbias = attention_backward(
            _rows(dout, group.queries), _rows(q, group.queries), _rows(k, group.keys), _rows(v, group.keys), w, bias,
            _kept(keep, group, q), 0.0 if keep is None else keep.rate, scale,
        )  # fmt: skip
        found.append(grads)
    dq = _put_back([dq for dq, _, _ in found], plan.of_queries, plan.missing, q)
    dk, dv = _add_up([dk for _, dk, _ in found], plan, k), _add_up([dv for _, _, dv in found], plan, v)
    return dq, dk, dv, dbias


class _Group(NamedTuple):
    """A group of blocks, in arrays of NumPy or CuPy; an empty place, -1, reads the last row, and is hidden."""

    queries: Array              # (z, a)
    keys: Array                 # (z, b)
    looks: Array | None         # (z, a, b)


class _Plan(NamedTuple):
    """The index arrays of a layout. Rows are numbered through all blocks of all groups."""

    groups: list[_Group]
    of_queries: Array           # (n,): the row of each query; one beyond the last for a query in no block
    missing: bool               # is there such a query?
    of_keys: list[Array]        # for each c: (u, c), the rows of the u keys that are in c blocks
    order: Array                # (m,): the index of each key's sum, when the sums of `of_keys` are concatenated
    unread: bool                # are there keys in no block? Their index is after all sums


@lru_cache(512)
def _plan(layout: BlockLayout, xp: Any) -> _Plan:
    groups = []
    for group in layout.groups:
        looks = None if group.looks.all() else xp.asarray(group.looks)
        groups.append(_Group(xp.asarray(group.queries), xp.asarray(group.keys), looks))
    queries = np.concatenate([np.zeros(0, int), *(group.queries.reshape(-1) for group in layout.groups)])
    of_queries = np.full(layout.n, len(queries))
    of_queries[queries[queries >= 0]] = np.flatnonzero(queries >= 0)
    keys = np.concatenate([np.zeros(0, int), *(group.keys.reshape(-1) for group in layout.groups)])
    rows = np.argsort(keys, kind="stable")[np.sum(keys < 0) :]               # the rows of key 0, then of key 1, ..
    count = np.bincount(keys[rows], minlength=layout.m)
    first = np.cumsum(count) - count
    of_keys, order, place = [], np.zeros(layout.m, int), 0
    for c in np.unique(count[count > 0]).tolist():
        alike = np.flatnonzero(count == c)
        of_keys.append(xp.asarray(rows[first[alike][:, None] + np.arange(c)]))
        order[alike] = place + np.arange(len(alike))
        place += len(alike)
    order[count == 0] = place
    missing, unread = bool(np.any(of_queries == len(queries))), bool(np.any(count == 0))
    return _Plan(groups, xp.asarray(of_queries), missing, of_keys, xp.asarray(order), unread)


def _rows(x: Array, positions: Array) -> Array:
    """(..., n, d), (z, a) -> (..., z, a, d)."""
    xp, (*lead, n, d) = get_xp(x), x.shape
    if not n:                                                                # all places are empty
        return xp.zeros((*lead, *positions.shape, d), dtype=x.dtype)
    return xp.take(x, positions, axis=-2)


def _mask(group: _Group, keys: Array | None) -> Array | None:
    """The allowed pairs of each block. Shapes: keys (..., m) -> onto (..., z, a, b), or None for all."""
    if keys is None:
        return group.looks
    real = transpose_last(_rows(keys[..., None], group.keys))                # (..., z, 1, b)
    return real if group.looks is None else real & group.looks


def _kept(keep: PairMask | None, group: _Group, q: Array) -> Array | None:
    """What dropout keeps of each block's weights. Shapes: q (..., n, d) -> (..., z, a, b)."""
    return None if keep is None else keep.pairs(q.shape[:-2], group.queries, group.keys, like=q)


def _side_by_side(blocks: list[Array], extra: bool, like: Array) -> Array:
    """The rows of all blocks, concatenated; with `extra`, a row of zeros at the end: (..., z, a, d) -> (..., R, d)."""
    xp, (*lead, _, d) = get_xp(like), like.shape
    parts = [x.reshape(*lead, x.shape[-3] * x.shape[-2], d) for x in blocks]
    if extra or not parts:
        parts.append(xp.zeros((*lead, int(extra), d), dtype=like.dtype))
    return parts[0] if len(parts) == 1 else xp.concatenate(parts, axis=-2)


def _put_back(blocks: list[Array], where: Array, missing: bool, like: Array) -> Array:
    """Undo `_rows` of the queries. Shapes: for each group (..., z, a, d), where (n,) -> (..., n, d)."""
    return get_xp(like).take(_side_by_side(blocks, missing, like), where, axis=-2)


def _add_up(blocks: list[Array], plan: _Plan, like: Array) -> Array:
    """The backward of `_rows` for keys: the sum over a key's copies. Shapes: (..., z, b, d) -> (..., m, d)."""
    xp, (*lead, _, d) = get_xp(like), like.shape
    rows, sums = _side_by_side(blocks, False, like), []
    for copies in plan.of_keys:
        if copies.shape[1] > _FEW:
            sums.append(xp.sum(xp.take(rows, copies, axis=-2), axis=-2))     # (..., u, c, d) -> (..., u, d)
            continue
        total = xp.take(rows, copies[:, 0], axis=-2)
        for c in range(1, copies.shape[1]):
            total += xp.take(rows, copies[:, c], axis=-2)
        sums.append(total)
    if plan.unread:
        sums.append(xp.zeros((*lead, 1, d), dtype=like.dtype))
    if not sums:
        return xp.zeros_like(like)
    return xp.take(sums[0] if len(sums) == 1 else xp.concatenate(sums, axis=-2), plan.order, axis=-2)


_FEW = 16                       # up to so many copies are added one by one, which needs less memory


def _expect_layout(layout: BlockLayout, q: Array, k: Array, bias: Array | None) -> None:
    given, expected = (q.shape[-2], k.shape[-2]), (layout.n, layout.m)
    if given != expected:
        raise ValueError(f"block_sparse_attention: (n, m) is {given}, and the layout is for {expected}")
    if bias is not None and len(layout.groups) != 1:
        raise ValueError(f"block_sparse_attention: a bias needs a layout of one group, this has {len(layout.groups)}")
