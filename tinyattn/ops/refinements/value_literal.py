"""M_value as printed: every row of scores depends on all rows, later ones too (Liu et al. 2024, equation 3)."""

from ...backend import Array, get_xp
from ..shapes import expect, expect_given, expect_onto, transpose_last, unbroadcast
from ..softmax import softmax, softmax_backward


def refine_value_literal(
    A: Array, W_Q: Array, W_K: Array, W_V: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """B = Z Sᵀ, with S = softmax(Xᵀ Y), X = W_Q A, Y = W_K A and Z = W_V A.

    The columns of A are taken as items, and W mixes its rows: the convention of SAGAN (Zhang et al. 2019), in which
    the softmax runs over the items that are looked at. The paper names no axis and no scale; this is the reading that
    fits. Z, and the sum in Xᵀ Y, run over all rows of A, so each entry of B depends on every token: **no mask of A or
    of B can undo that**. It is here for tests of causality to find. `refine_value` sums over the past alone.
    Shapes: A (..., n, n), W_Q, W_K, W_V onto it -> B, X, Y, Z, S (..., n, n); row t of S has item t's weights over the
    items. Raises ValueError for shapes that do not fit, TypeError for dtypes.
    """
    expect_given(A=A, W_Q=W_Q, W_K=W_K, W_V=W_V)
    expect("...nn", A=A)
    expect_onto(A.shape, A.dtype, like=A, W_Q=W_Q, W_K=W_K, W_V=W_V)
    X, Y, Z = W_Q @ A, W_K @ A, W_V @ A
    S = softmax(transpose_last(X) @ Y)                          # (..., n of t, n of j)
    return Z @ transpose_last(S), X, Y, Z, S


def refine_value_literal_backward(
    dB: Array, A: Array, W_Q: Array, W_K: Array, W_V: Array, X: Array, Y: Array, Z: Array, S: Array
) -> tuple[Array, Array, Array, Array]:
    """dZ = dB S, dX = Y dLᵀ and dY = X dL, with dL = S ⊙ (dS - Σ_j dS_tj S_tj) and dS = dBᵀ Z.

    Then dA = W_Qᵀ dX + W_Kᵀ dY + W_Vᵀ dZ, and dW_Q = dX Aᵀ, dW_K and dW_V alike.
    Shapes: as in `refine_value_literal`, and dB like B -> dA, dW_Q, dW_K, dW_V.
    """
    expect_given(A=A, W_Q=W_Q, W_K=W_K, W_V=W_V)
    expect("...nn ...nn ...nn ...nn ...nn ...nn", dB=dB, X=X, Y=Y, Z=Z, S=S, A=A)
    expect_onto(A.shape, A.dtype, like=A, W_Q=W_Q, W_K=W_K, W_V=W_V)
    dL = softmax_backward(transpose_last(dB) @ Z, S)            # B = Z Sᵀ, S = softmax(L)
    dX, dY, dZ = Y @ transpose_last(dL), X @ dL, dB @ S         # L = Xᵀ Y
    return left_maps_backward(dX, dY, dZ, A, W_Q, W_K, W_V)


def left_maps_backward(
    dX: Array, dY: Array, dZ: Array, A: Array, W_Q: Array, W_K: Array, W_V: Array
) -> tuple[Array, Array, Array, Array]:
    """X = W_Q A, Y = W_K A, Z = W_V A: A was read three times. -> dA, dW_Q, dW_K, dW_V."""
    pairs, AT = ((dX, W_Q), (dY, W_K), (dZ, W_V)), transpose_last(A)
    dA = get_xp(A).zeros_like(A)
    for d, W in pairs:
        dA += transpose_last(W) @ d
    return dA, *(unbroadcast(d @ AT, W.shape) for d, W in pairs)
