"""M_value without its leak: equation 3 of Liu et al. 2024 for each row k, computed from rows 0 to k alone.

As printed (`refine_value_literal`), each row of B depends on all rows of the scores. Here row k is the last row that
the printed equation gives for a sequence that ends with token k, so it depends on no later token:

    L^(k) = Σ_{i <= k} x_iᵀ y_i        each k adds one row of X and of Y
    S^(k) = softmax(L^(k))             of its first k + 1 rows and columns
    b_k   = z_k S^(k)ᵀ

with X = tril(W_Q) A, Y and Z alike: row i of W may mix the rows of A up to i.
"""

from ...backend import Array, get_xp
from ..shapes import expect, expect_given, expect_onto, transpose_last
from ..softmax import softmax, softmax_backward
from .value_literal import left_maps_backward


def refine_value(
    A: Array, W_Q: Array, W_K: Array, W_V: Array
) -> tuple[Array, Array, Array, Array, list[Array]]:
    """b_k = z_k softmax(Σ_{i <= k} x_iᵀ y_i)ᵀ, with X = tril(W_Q) tril(A), Y and Z alike.

    Entries above the diagonal of A, W_Q, W_K and W_V are not read, and those of B are 0. The weights of all k, about
    n³ / 3 numbers a head, are kept for the backward. Time is that of n softmaxes, of 1 to n rows.
    Shapes: A (..., n, n), W_Q, W_K, W_V onto it -> B, X, Y, Z (..., n, n), weights: n of (..., k + 1, k + 1).
    Raises ValueError for shapes that do not fit, TypeError for dtypes.
    """
    expect_given(A=A, W_Q=W_Q, W_K=W_K, W_V=W_V)
    expect("...nn", A=A)
    expect_onto(A.shape, A.dtype, like=A, W_Q=W_Q, W_K=W_K, W_V=W_V)
    xp, weights = get_xp(A), []
    A = xp.tril(A)
    X, Y, Z = (xp.tril(W) @ A for W in (W_Q, W_K, W_V))
    B, L = xp.zeros_like(A), xp.zeros_like(A)
    for k in range(A.shape[-1]):
        seen = slice(k + 1)
        L[..., seen, seen] += X[..., k, seen, None] * Y[..., k, None, seen]     # row k has nothing beyond column k
        weights.append(softmax(L[..., seen, seen]))                             # (..., k + 1 of t, k + 1 of j)
        B[..., k, seen] = (weights[k] @ Z[..., k, seen, None])[..., 0]
    return B, X, Y, Z, weights


def refine_value_backward(
    dB: Array, A: Array, W_Q: Array, W_K: Array, W_V: Array, X: Array, Y: Array, Z: Array, weights: list[Array]
) -> tuple[Array, Array, Array, Array]:
    """dz_k = db_k S^(k), dx_k = y_k dL^(k)ᵀ, dy_k = x_k dL^(k), with dL^(k) = dL^(k+1) + softmax's gradient in row k.

    Rows are taken from the last to the first: L^(k) is part of all later sums, so dL adds up the gradients of rows k
    and later. Then dA = tril(W_Q)ᵀ dX + tril(W_K)ᵀ dY + tril(W_V)ᵀ dZ and dW_Q = dX Aᵀ, dW_K and dW_V alike, on and
    below the diagonal. Shapes: as in `refine_value`, and dB like B -> dA, dW_Q, dW_K, dW_V.
    """
    expect_given(A=A, W_Q=W_Q, W_K=W_K, W_V=W_V)
    expect("...nn ...nn ...nn ...nn ...nn", dB=dB, X=X, Y=Y, Z=Z, A=A)
    expect_onto(A.shape, A.dtype, like=A, W_Q=W_Q, W_K=W_K, W_V=W_V)
    xp = get_xp(dB)
    dX, dY, dZ, dL = (xp.zeros_like(X) for _ in range(4))
    for k in reversed(range(A.shape[-1])):
        seen = slice(k + 1)
        db, z = dB[..., k, seen, None], Z[..., k, None, seen]
        dZ[..., k, seen] = (transpose_last(weights[k]) @ db)[..., 0]            # b = S z
        dL[..., seen, seen] += softmax_backward(db * z, weights[k])             # S = softmax(L)
        dX[..., k, seen] = (dL[..., seen, seen] @ Y[..., k, seen, None])[..., 0]                     # L += xᵀ y
        dY[..., k, seen] = (X[..., k, None, seen] @ dL[..., seen, seen])[..., 0, :]
    W = (xp.tril(W) for W in (W_Q, W_K, W_V))
    dA, dW_Q, dW_K, dW_V = (xp.tril(d) for d in left_maps_backward(dX, dY, dZ, xp.tril(A), *W))
    return dA, dW_Q, dW_K, dW_V
