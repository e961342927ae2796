"""Pointwise attention: each pair is weighed by itself, without softmax (Zhai et al. 2024, HSTU, equation 2)."""

from ...backend import Array, get_xp
from ..shapes import expect, expect_onto, transpose_last, unbroadcast
from ..sigmoid import sigmoid


def pointwise_attention(
    q: Array, k: Array, v: Array, mask: Array | None = None, bias: Array | None = None
) -> tuple[Array, Array]:
    """out_i = (1 / N_i) Σ_j silu(s_ij) v_j, with s = q kᵀ + bias and silu(s) = s σ(s).

    The sum runs over the N_i keys that query i may look at. Softmax makes the keys of a query compete, as its weights
    sum to 1. Here a weight depends on its pair and on N_i alone, and may be negative: a second key of the same score
    does not halve the first one's weight.

    Equation 2 of the paper has no division; the authors' released code divides by the padded length, the same for every
    query. Here N_i counts keys, so that padding changes nothing. In HSTU a norm of out follows (equation 3), which
    removes any factor of a row, up to its eps.

    Shapes: q (..., n, d), k (..., m, d), v (..., m, e); mask (boolean, True = may look) and bias (same dtype as q)
    broadcast to (..., n, m) -> out (..., n, e), s (..., n, m). A query without keys gets zeros. Hidden entries must be
    finite: 0 · NaN is NaN. Raises ValueError for shapes that do not fit, TypeError for dtypes.
    Source: Zhai et al. 2024, Actions Speak Louder than Words (arXiv 2402.17152), section 3.
    """
    expect("...nd ...md ...me", q=q, k=k, v=v)
    s = q @ transpose_last(k)                           # (..., n, d) @ (..., d, m) -> (..., n, m)
    if bias is not None:
        expect_onto(s.shape, s.dtype, like=s, bias=bias)
        s += bias                                       # in place: s was made above
    return pointwise_weights(s, mask) @ v, s            # (..., n, m) @ (..., m, e) -> (..., n, e)


def pointwise_weights(s: Array, mask: Array | None = None) -> Array:
    """a_ij = silu(s_ij) / N_i, and 0 where the mask hides key j. Shapes: s (..., n, m) -> a (..., n, m)."""
    expect("...nm", s=s)
    return s * sigmoid(s) * shares(s, mask)


def shares(s: Array, mask: Array | None) -> Array:
    """1 / N_i for the N_i keys that query i may look at, and 0 for others. Shapes: s (..., n, m) -> onto s."""
    expect_onto(s.shape, bool, like=s, mask=mask)
    xp, m = get_xp(s), s.shape[-1]
    if mask is None:
        return xp.full((1, 1), 1 / max(m, 1), dtype=s.dtype)
    if mask.shape[-1:] != (m,):
        mask = xp.broadcast_to(mask, (*mask.shape[:-1], m))                 # one entry stands for all keys
    seen = xp.sum(mask, axis=-1, keepdims=True)
    return mask / xp.maximum(seen, 1).astype(s.dtype)


def pointwise_attention_backward(
    dout: Array, q: Array, k: Array, v: Array, s: Array, mask: Array | None = None, bias: Array | None = None
) -> tuple[Array, Array, Array, Array | None]:
    """dv = aᵀ dout, ds = da ⊙ c ⊙ σ(s) ⊙ (1 + s ⊙ (1 - σ(s))), dq = ds k, dk = dsᵀ q, dbias = ds, with da = dout vᵀ.

    The weights are a = c ⊙ silu(s), where c_ij = 1 / N_i for a key that query i may look at, and 0 for others; and
    silu'(s) = σ(s) (1 + s (1 - σ(s))) by the product rule. Softmax's ds subtracts Σ_k da_k a_k, because the keys of a
    row compete. Here nothing is subtracted, because a weight depends on no other score.

    Shapes: as in `pointwise_attention`, and dout like out -> dq, dk, dv, dbias like q, k, v, bias (or None). dbias is
    summed over axes along which bias was broadcast.
    """
    expect("...ne ...nd ...md ...me ...nm", dout=dout, q=q, k=k, v=v, s=s)
    gate, c = sigmoid(s), shares(s, mask)
    dv = transpose_last(s * gate * c) @ dout                       # out = a @ v              (..., m, n) @ (..., n, e)
    da = dout @ transpose_last(v)                                  #                                        (..., n, m)
    ds = da * c * gate * (1 + s * (1 - gate))                      # a = c silu(s)                          (..., n, m)
    dbias = None if bias is None else unbroadcast(ds, bias.shape)  # s = q kᵀ + bias
    return ds @ k, transpose_last(ds) @ q, dv, dbias
