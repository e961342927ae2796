"""A vector for every distance, multiplied by queries or added to values (Shaw et al. 2018, equations 3 and 4).

A vector for each pair would take n m d numbers. But there are only 2 K + 1 vectors, so every query is multiplied by
each of them once, and the products, one per distance, are moved to their keys (the skew of Huang et al. 2018, section
3.4.1):

    by distance    -2 -1  0  1  2        by key     0  1  2        row i moves left by i: when the flat array
    query 0         .  .  a  b  c                   a  b  c        is cut into rows one number shorter,
    query 1         .  d  e  f  .                   d  e  f        each key has one column
    query 2         g  h  i  .  .                   g  h  i

The backward of each op makes the move of the other.
"""

from ...backend import Array, get_xp
from ..shapes import expect, expect_onto, transpose_last, unbroadcast


def relative_scores(q: Array, a: Array, m: int) -> Array:
    """s_ij = q_i · a_r, with r = clip(j - i, -K, K) + K.

    Shapes: q (..., n, d), a onto (..., 2 K + 1, d), m keys -> (..., n, m).
    Raises ValueError for an even number of rows in `a` and shapes that do not fit, TypeError for dtypes.
    """
    expect("...nd", q=q)
    expect("...rd", a=a)
    expect_onto(_fits("relative_scores", q, a, q.shape[-1]), q.dtype, like=q, a=a)
    return _by_key(q @ transpose_last(a), m)


def relative_scores_backward(ds: Array, q: Array, a: Array) -> tuple[Array, Array]:
    """dq_i = Σ_j ds_ij a_r, and da_r = Σ ds_ij q_i over pairs of that distance.

    Shapes: ds (..., n, m), q and a as in `relative_scores` -> dq, da like q and a.
    """
    expect("...nm ...nd", ds=ds, q=q)
    expect("...rd", a=a)
    expect_onto(_fits("relative_scores_backward", q, a, q.shape[-1]), q.dtype, like=q, a=a)
    by_distance = _by_distance(ds, a.shape[-2])                     # (..., n, 2 K + 1)
    return by_distance @ a, unbroadcast(transpose_last(by_distance) @ q, a.shape)


def relative_values(w: Array, a: Array) -> Array:
    """out_i = Σ_j w_ij a_r, with r = clip(j - i, -K, K) + K.

    Shapes: w (..., n, m), a onto (..., 2 K + 1, d) -> (..., n, d). Raises what `relative_scores` raises.
    """
    expect("...nm", w=w)
    expect("...rd", a=a)
    expect_onto(_fits("relative_values", w, a, a.shape[-1]), w.dtype, like=w, a=a)
    return _by_distance(w, a.shape[-2]) @ a


def relative_values_backward(dout: Array, w: Array, a: Array) -> tuple[Array, Array]:
    """dw_ij = dout_i · a_r, and da_r = Σ w_ij dout_i over pairs of that distance.

    Shapes: dout (..., n, d), w and a as in `relative_values` -> dw, da like w and a.
    """
    expect("...nd ...nm", dout=dout, w=w)
    expect("...rd", a=a)
    expect_onto(_fits("relative_values_backward", w, a, dout.shape[-1]), w.dtype, like=w, a=a)
    by_distance = _by_distance(w, a.shape[-2])
    dw = _by_key(dout @ transpose_last(a), w.shape[-1])
    return dw, unbroadcast(transpose_last(by_distance) @ dout, a.shape)


def _by_key(x: Array, m: int) -> Array:
    """s_ij = x_ir: from distances to keys. Shapes: (..., n, 2 K + 1) -> (..., n, m)."""
    xp, (*lead, n, rows) = get_xp(x), x.shape
    before, left, right = _reach(n, m, rows)
    parts = [
        xp.repeat(x[..., :1], before - left, axis=-1),              # distances beyond K share the last vector
        x[..., rows // 2 - left : rows // 2 + right + 1],
        xp.repeat(x[..., -1:], m - right, axis=-1),
    ]
    flat = xp.concatenate(parts, axis=-1).reshape(*lead, n * (before + 1 + m))
    moved = flat[..., before : before + n * (before + m)]           # rows one number shorter
    return moved.reshape(*lead, n, before + m)[..., :m]


def _by_distance(x: Array, rows: int) -> Array:
    """x_ir = Σ x_ij over keys of that distance: `_by_key` transposed. Shapes: (..., n, m) -> (..., n, 2 K + 1)."""
    xp, (*lead, n, m) = get_xp(x), x.shape
    before, left, right = _reach(n, m, rows)
    moved, flat = (xp.zeros((*lead, *shape), dtype=x.dtype) for shape in ((n, before + m), (n * (before + 1 + m),)))
    moved[..., :m] = x
    flat[..., before : before + n * (before + m)] = moved.reshape(*lead, n * (before + m))
    whole = flat.reshape(*lead, n, before + 1 + m)                  # by distance, -before to m
    found = xp.zeros((*lead, n, rows), dtype=x.dtype)
    found[..., rows // 2 - left : rows // 2 + right + 1] = whole[..., before - left : before + right + 1]
    found[..., 0] += xp.sum(whole[..., : before - left], axis=-1)
    found[..., -1] += xp.sum(whole[..., before + right + 1 :], axis=-1)
    return found


def _reach(n: int, m: int, rows: int) -> tuple[int, int, int]:
    """The largest distance before a query; how many distances before and after have separate vectors."""
    before = max(n - 1, 0)
    return before, min(rows // 2, before), min(rows // 2, m)


def _fits(name: str, x: Array, a: Array, d: int) -> tuple[int, ...]:
    """The shape that `a` may broadcast to."""
    if a.shape[-2] % 2 == 0:
        raise ValueError(f"{name}: a has {a.shape[-2]} rows, expected an odd number, 2 K + 1: one for each distance")
    return (*x.shape[:-2], a.shape[-2], d)
