"""M_simp: rows of scores, compared by dot products, as attention compares tokens (Liu et al. 2024, equation 2)."""

import math

from ...backend import Array
from ..shapes import expect, expect_given, expect_onto, transpose_last, unbroadcast
from .lags import by_lag


def refine_simp(
    A: Array, W_Q: Array, W_K: Array, scale: float | None = None, lags: bool = False
) -> tuple[Array, Array, Array]:
    """B = c X Yᵀ, with X = A W_Q, Y = A W_K and c = `scale`, by default 1 / √r.

    Row k of A has the scores of query k; b_kt says how alike rows k and t are, after a linear map of each. The paper
    prints (A_k : W)ᵀ (A_t : W), which is not a number for rows; here is the product whose shapes fit. The paper divides
    by the root of the attention's d, though the sum has r terms. With `lags`, A is indexed by lag, Ã_kr = A_{k,k-r}, so
    that W does not depend on positions in the sequence.

    b_kt reads rows k and t of A, and no other. If row i of A has zeros for tokens after i, or with `lags`, the entries
    of B with t <= k do not depend on tokens after k. The other entries do, and must be masked (again).
    Shapes: A (..., n, m), W_Q and W_K onto (..., m, r), with lags n = m -> B (..., n, n), X, Y (..., n, r).
    Raises ValueError for shapes that do not fit, TypeError for dtypes.
    """
    expect_given(A=A, W_Q=W_Q, W_K=W_K)
    expect("...nn" if lags else "...nm", A=A)
    expect("...mr ...mr", W_Q=W_Q, W_K=W_K)
    expect_onto(maps_of(A, W_Q), A.dtype, like=A, W_Q=W_Q, W_K=W_K)
    A = by_lag(A, lags)
    X, Y = A @ W_Q, A @ W_K                                     # (..., n, m) @ (..., m, r)
    return (X * root(W_Q, scale)) @ transpose_last(Y), X, Y     # (..., n, r) @ (..., r, n)


def refine_simp_backward(
    dB: Array, A: Array, W_Q: Array, W_K: Array, X: Array, Y: Array, scale: float | None = None, lags: bool = False
) -> tuple[Array, Array, Array]:
    """dA = dX W_Qᵀ + dY W_Kᵀ, dW_Q = Aᵀ dX and dW_K = Aᵀ dY, with dX = c dB Y and dY = c dBᵀ X.

    Shapes: as in `refine_simp`, and dB like B -> dA, dW_Q, dW_K like A, W_Q, W_K.
    A was read twice, and both readings add to its gradient. B depends on W_Q and W_K only through W_Q W_Kᵀ, so
    W_Qᵀ dW_Q = (W_Kᵀ dW_K)ᵀ.
    """
    expect_given(A=A, W_Q=W_Q, W_K=W_K)
    expect("...nn ...nr ...nr ...nm", dB=dB, X=X, Y=Y, A=A)
    expect("...mr ...mr", W_Q=W_Q, W_K=W_K)
    expect_onto(maps_of(A, W_Q), A.dtype, like=A, W_Q=W_Q, W_K=W_K)
    c, A = root(W_Q, scale), by_lag(A, lags)
    dX = dB @ Y                                                 # B = c X Yᵀ         (..., n, n) @ (..., n, r)
    dX *= c
    dY = transpose_last(dB) @ (X * c)
    dA = dX @ transpose_last(W_Q)                               # X = A W_Q          (..., n, r) @ (..., r, m)
    dA += dY @ transpose_last(W_K)                              # Y = A W_K
    AT = transpose_last(A)
    dW_Q, dW_K = (unbroadcast(AT @ d, W.shape) for d, W in ((dX, W_Q), (dY, W_K)))
    return by_lag(dA, lags), dW_Q, dW_K                         # from lags back to tokens


def maps_of(A: Array, W: Array) -> tuple[int, ...]:
    """The shape to which a map W of A's rows may broadcast."""
    return (*A.shape[:-2], A.shape[-1], W.shape[-1])


def root(W: Array, scale: float | None) -> float:
    """The constant c, as a Python float: a NumPy one would turn float32 arrays into float64."""
    return 1 / math.sqrt(max(W.shape[-1], 1)) if scale is None else float(scale)
