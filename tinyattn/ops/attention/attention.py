"""Scaled dot-product attention: a soft look-up (Vaswani et al. 2017, equation 1)."""

import math

from ...backend import Array
from ..dropout import dropout, dropout_backward
from ..shapes import expect, expect_onto, transpose_last, unbroadcast
from ..softmax import softmax, softmax_backward


def attention(
    q: Array, k: Array, v: Array, mask: Array | None = None, bias: Array | None = None, keep: Array | None = None,
    rate: float = 0.0, scale: float | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """out = dropout(softmax(c q kᵀ + bias, mask)) v, with c = `scale`, by default 1 / √d.

    Each of n queries is compared with m keys; the weights say how much of each value it takes. The dot product
    of two random d-vectors has variance d; c brings it back to 1, where softmax still has a gradient.

    Shapes: q (..., n, d), k (..., m, d), v (..., m, e); mask (boolean, True = may look), bias (same dtype as q)
    and keep (boolean, from `keep_mask`) broadcast to (..., n, m) -> out (..., n, e), weights (..., n, m).
    Weights are those before dropout. A query without keys gets zeros. Hidden entries must be finite: 0 · NaN is NaN.
    Raises ValueError for shapes that do not fit, and a rate outside of 0 <= rate < 1; TypeError for dtypes.
    """
    expect("...nd ...md ...me", q=q, k=k, v=v)
    c = _scale(q, scale)
    s = (q * c) @ transpose_last(k)                     # (..., n, d) @ (..., d, m) -> (..., n, m)
    if bias is not None:
        expect_onto(s.shape, s.dtype, like=s, bias=bias)
        s += bias                                       # in place: s was made above
    weights = softmax(s, mask)                          # (..., n, m)
    return dropout(weights, keep, rate) @ v, weights    # (..., n, m) @ (..., m, e) -> (..., n, e)


def attention_backward(
    dout: Array, q: Array, k: Array, v: Array, weights: Array, bias: Array | None = None, keep: Array | None = None,
    rate: float = 0.0, scale: float | None = None,
) -> tuple[Array, Array, Array, Array | None]:  # fmt: skip
    """dv = pᵀ dout, ds = p ⊙ (dp - Σ_k dp_k p_k), dq = c ds k, dk = c dsᵀ q and dbias = ds, with dp = dout vᵀ.

    p are the weights. Dropout multiplies dp, and the p of dv. dbias is summed over axes along which bias was broadcast.
    Shapes: as in `attention`, and dout like out -> dq, dk, dv, dbias like q, k, v, bias (or None).

    Each line undoes one of the forward's, from the last to the first. No mask is needed: at hidden pairs
    the weight is 0, and softmax_backward gives 0 there. The constant c multiplied the scores, so it multiplies
    their gradients.
    """
    expect("...ne ...nd ...md ...me ...nm", dout=dout, q=q, k=k, v=v, weights=weights)
    c = _scale(q, scale)
    dv = transpose_last(dropout(weights, keep, rate)) @ dout       # out = dropped @ v        (..., m, n) @ (..., n, e)
    dp = dropout_backward(dout @ transpose_last(v), keep, rate)    # dropped = dropout(weights)         (..., n, m)
    ds = softmax_backward(dp, weights)                             # weights = softmax(s)               (..., n, m)
    dbias = None if bias is None else unbroadcast(ds, bias.shape)  # s = c q kᵀ + bias
    dq = ds @ k                                                    # s = (c q) kᵀ             (..., n, m) @ (..., m, d)
    dq *= c
    dk = transpose_last(ds) @ (q * c)                              #                          (..., m, n) @ (..., n, d)
    return dq, dk, dv, dbias


def _scale(q: Array, scale: float | None) -> float:
    """The constant c, as a Python float: a NumPy one would turn float32 arrays into float64."""
    return 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else float(scale)
