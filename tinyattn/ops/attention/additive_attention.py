"""Additive attention: each weight is a small network of query and key, without softmax (Li et al. 2017)."""

import math

from ...backend import Array, get_xp
from ..shapes import expect, rows
from .additive_scores import squashed


def additive_attention(q: Array, k: Array, v: Array, w: Array, causal: bool = True) -> tuple[Array, Array]:
    """out_i = Σ_j a_ij v_j, with a_ij = w · σ(q_i + k_j), over keys j <= i (not causal: over all).

    The weights need not be positive, nor sum to 1. With q_t = A_1 h_t, k_j = A_2 h_j and values h_j this is the local
    encoder of NARM (Li et al. 2017, section 3.4). Bahdanau's attention (2015) has tanh for σ, and a softmax.
    The argument of σ, an array (..., n, m, d), is computed for one query at a time, and again in the backward, so that
    memory is only that of the weights, (..., n, m). Forward and backward evaluate σ n m d times each; causal: half as
    often. σ(u) = (1 + tanh(u / 2)) / 2 does not overflow: a weight is ½ Σ w plus half the additive score of q / 2 and
    k / 2.

    Shapes: q (..., n, d), k (..., m, d), v (..., m, e), w (d,), causal: m = n -> out (..., n, e), weights (..., n, m).
    Raises ValueError for shapes that do not fit, TypeError for dtypes other than float32 / float64.
    """
    expect("...nd ...nd ...ne d" if causal else "...nd ...md ...me d", q=q, k=k, v=v, w=w)
    xp, (*lead, n, _), m = get_xp(q), q.shape, k.shape[-2]
    N = math.prod(lead)
    weights = xp.zeros((N, n, m), dtype=q.dtype)
    for i, seen, t in squashed(0.5 * q, 0.5 * k, causal):
        weights[:, i, :seen] = (rows(t) @ w).reshape(N, seen)
    weights += xp.sum(w)                                        # w · (1 + t) / 2
    weights *= 0.5
    weights = _allowed(weights, causal).reshape(*lead, n, m)
    return weights @ v, weights


def additive_attention_backward(
    dout: Array, q: Array, k: Array, v: Array, w: Array, weights: Array, causal: bool = True
) -> tuple[Array, Array, Array, Array]:
    """dq_i = Σ_j du_ij, and dk_j = Σ_i du_ij, with du_ij = da_ij σ_ij (1 - σ_ij) ⊙ w, and da_ij = dout_i · v_j.

    Shapes: as in `additive_attention`, and dout like out -> dq, dk, dv, dw like q, k, v, w.
    out = weights v gives dv and the gradient of the weights, a_ij. Let t = tanh((q_i + k_j) / 2), so that
    σ = (1 + t) / 2 and σ' = σ (1 - σ) = (1 - t²) / 4. Then w receives Σ da_ij (1 + t) / 2, and the sum q_i + k_j
    receives da_ij w ⊙ (1 - t²) / 4, as do both of its terms.
    """
    expect("...ne ...nd ...md ...me d ...nm", dout=dout, q=q, k=k, v=v, w=w, weights=weights)
    xp, (n, d), m = get_xp(dout), q.shape[-2:], k.shape[-2]
    dv = weights.swapaxes(-1, -2) @ dout                        # out = weights v
    da = dout @ v.swapaxes(-1, -2)
    da = _allowed(da.reshape(math.prod(q.shape[:-2]), n, m), causal)
    dq, dk = xp.empty((len(da), n, d), dtype=q.dtype), xp.zeros((len(da), m, d), dtype=q.dtype)
    dw = xp.broadcast_to(xp.sum(da), (d,)).copy()               # the 1 of 1 + t
    for i, seen, t in squashed(0.5 * q, 0.5 * k, causal):
        row = da[:, i, :seen]
        dw += row.reshape(-1) @ rows(t)
        t *= t
        xp.subtract(1, t, out=t)
        t *= row[..., None]                                     # da (1 - t²)
        dq[:, i] = xp.sum(t, axis=1)
        dk[:, :seen] += t
    dw *= 0.5
    dq *= w * 0.25
    dk *= w * 0.25
    return dq.reshape(q.shape), dk.reshape(k.shape), dv, dw


def _allowed(x: Array, causal: bool) -> Array:
    """Set x (N, n, m) to 0 for keys after the query, in place."""
    if causal:
        x *= get_xp(x).tri(*x.shape[-2:], dtype=bool)
    return x
