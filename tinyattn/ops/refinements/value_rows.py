"""M_value by rows: attention in which the rows of scores are the tokens (after Liu et al. 2024, equation 3)."""

from ...backend import Array
from ..attention.attention import attention, attention_backward
from ..shapes import expect, expect_given, expect_onto, transpose_last, unbroadcast
from .lags import by_lag
from .simp import maps_of


def refine_value_rows(
    A: Array, W_Q: Array, W_K: Array, W_V: Array, mask: Array | None = None, scale: float | None = None,
    lags: bool = False,
) -> tuple[Array, Array, Array, Array, Array]:  # fmt: skip
    """B = softmax(c X Yᵀ, mask) Z, with X = A W_Q, Y = A W_K, Z = A W_V and c = `scale`, by default 1 / √r.

    Each row of B is a mean of the rows of Z that the mask allows; equation 3 as printed averages columns
    (`refine_value_literal`). Under a causal mask no later row is read. With `lags`, A and the mean are indexed by lag,
    Ã_kr = A_{k,k-r}, and B by token again.
    Shapes: A (..., n, n), W_Q and W_K onto (..., n, r), W_V onto (..., n, n), mask onto (..., n, n), True = may look
    -> B (..., n, n), X, Y (..., n, r), Z, weights (..., n, n). Raises what `attention` raises.
    """
    expect_given(A=A, W_Q=W_Q, W_K=W_K, W_V=W_V)
    expect("...nn", A=A)
    expect("...nr ...nr", W_Q=W_Q, W_K=W_K)
    expect_onto(maps_of(A, W_Q), A.dtype, like=A, W_Q=W_Q, W_K=W_K)
    expect_onto(A.shape, A.dtype, like=A, W_V=W_V)
    A = by_lag(A, lags)
    X, Y, Z = A @ W_Q, A @ W_K, A @ W_V
    B, weights = attention(X, Y, Z, mask, scale=scale)
    return by_lag(B, lags), X, Y, Z, weights


def refine_value_rows_backward(
    dB: Array, A: Array, W_Q: Array, W_K: Array, W_V: Array, X: Array, Y: Array, Z: Array, weights: Array,
    scale: float | None = None, lags: bool = False,
) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    """dA = dX W_Qᵀ + dY W_Kᵀ + dZ W_Vᵀ and dW_Q = Aᵀ dX, dW_K and dW_V alike.

    dX, dY and dZ are those of `attention_backward`.

    Shapes: as in `refine_value_rows`, and dB like B -> dA, dW_Q, dW_K, dW_V.
    """
    expect_given(A=A, W_Q=W_Q, W_K=W_K, W_V=W_V)
    expect("...nn ...nn ...nr ...nr ...nn ...nn", dB=dB, A=A, X=X, Y=Y, Z=Z, weights=weights)
    expect("...nr ...nr", W_Q=W_Q, W_K=W_K)
    expect_onto(maps_of(A, W_Q), A.dtype, like=A, W_Q=W_Q, W_K=W_K)
    expect_onto(A.shape, A.dtype, like=A, W_V=W_V)
    dX, dY, dZ, _ = attention_backward(by_lag(dB, lags), X, Y, Z, weights, scale=scale)
    AT = transpose_last(by_lag(A, lags))
    pairs = ((dX, W_Q), (dY, W_K), (dZ, W_V))
    dA = dX @ transpose_last(W_Q) + dY @ transpose_last(W_K) + dZ @ transpose_last(W_V)
    dW_Q, dW_K, dW_V = (unbroadcast(AT @ d, W.shape) for d, W in pairs)
    return by_lag(dA, lags), dW_Q, dW_K, dW_V
