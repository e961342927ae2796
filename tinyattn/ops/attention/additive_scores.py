"""Additive scores: a small network of query and key gives their score (Bahdanau, Cho & Bengio 2015, A.1.2)."""

import math
from collections.abc import Iterator

from ...backend import Array, get_xp
from ..shapes import expect, rows


def additive_scores(q: Array, k: Array, w: Array) -> Array:
    """s_ij = w · tanh(q_i + k_j).

    With q_i = h_i W and k_j = h_j U this is the alignment model of Bahdanau et al. (2015); a softmax of s and a product
    with values follow. The argument of tanh, an array (..., n, m, d), is computed for one query at a time, and again
    in the backward, so that memory is only that of the scores. Forward and backward evaluate tanh n m d times each,
    where dot products take n m d multiplications. So later models use dot products (Luong et al. 2015, Vaswani et al.
    2017, section 3.2.1).

    Shapes: q (..., n, d), k (..., m, d), w (d,) -> s (..., n, m).
    Raises ValueError for shapes that do not fit, TypeError for dtypes other than float32 / float64.
    """
    expect("...nd ...md d", q=q, k=k, w=w)
    n, m = q.shape[-2], k.shape[-2]
    s = get_xp(q).empty((math.prod(q.shape[:-2]), n, m), dtype=q.dtype)
    for i, _, t in squashed(q, k):
        s[:, i] = (rows(t) @ w).reshape(len(s), m)
    return s.reshape(*q.shape[:-1], m)


def additive_scores_backward(ds: Array, q: Array, k: Array, w: Array) -> tuple[Array, Array, Array]:
    """dq_i = Σ_j du_ij, and dk_j = Σ_i du_ij, with du_ij = ds_ij w ⊙ (1 - t_ij²), and t_ij = tanh(q_i + k_j).

    Shapes: as in `additive_scores`, and ds like s -> dq, dk, dw = Σ_ij ds_ij t_ij. The sum q_i + k_j inside tanh
    passes its gradient to both of its terms.
    """
    expect("...nm ...nd ...md d", ds=ds, q=q, k=k, w=w)
    xp, (n, d), m = get_xp(ds), q.shape[-2:], k.shape[-2]
    ds = ds.reshape(math.prod(q.shape[:-2]), n, m)
    dq, dk = xp.empty((len(ds), n, d), dtype=q.dtype), xp.zeros((len(ds), m, d), dtype=q.dtype)
    dw = xp.zeros_like(w)
    for i, _, t in squashed(q, k):
        row = ds[:, i]
        dw += row.reshape(-1) @ rows(t)
        t *= t
        xp.subtract(1, t, out=t)
        t *= row[..., None]                                     # ds (1 - t²)
        dq[:, i] = xp.sum(t, axis=1)
        dk += t
    dq *= w
    dk *= w
    return dq.reshape(q.shape), dk.reshape(k.shape), dw


def squashed(q: Array, k: Array, causal: bool = False) -> Iterator[tuple[int, int, Array]]:
    """For each query i: how many keys it sees, and t = tanh(q_i + k_j), (N, seen, d), which may be written into."""
    xp, (n, d), m = get_xp(q), q.shape[-2:], k.shape[-2]
    N = math.prod(q.shape[:-2])
    q, k = q.reshape(N, n, d), k.reshape(N, m, d)
    for i in range(n):
        seen = i + 1 if causal else m
        t = q[:, i : i + 1] + k[:, :seen]
        yield i, seen, xp.tanh(t, out=t)
