"""M_add: the mean of the scores and of their M_simp (Liu et al. 2024, equation 4)."""

from ...backend import Array
from ..shapes import expect, expect_given, expect_onto
from .simp import maps_of, refine_simp, refine_simp_backward


def refine_add(
    A: Array, W_Q: Array, W_K: Array, scale: float | None = None, lags: bool = False
) -> tuple[Array, Array, Array]:
    """B = (c X Yᵀ + A) / 2, with X = A W_Q, Y = A W_K and c = `scale`, by default 1 / √r.

    A residual around `refine_simp`, halved: where W is 0 the weights are softmax(A / 2), not softmax(A). The
    paper writes W_K for the first and W_Q for the second factor here, which only swaps their names. With
    `lags`, A is indexed by lag for X and Y, but not where it is added.
    Shapes: A (..., n, n), W_Q and W_K onto (..., n, r) -> B (..., n, n), X, Y (..., n, r). Raises what `refine_simp`
    raises.
    """
    expect_given(A=A, W_Q=W_Q, W_K=W_K)
    expect("...nn", A=A)
    expect("...mr ...mr", W_Q=W_Q, W_K=W_K)
    expect_onto(maps_of(A, W_Q), A.dtype, like=A, W_Q=W_Q, W_K=W_K)
    B, X, Y = refine_simp(A, W_Q, W_K, scale, lags)
    B += A
    B *= 0.5
    return B, X, Y


def refine_add_backward(
    dB: Array, A: Array, W_Q: Array, W_K: Array, X: Array, Y: Array, scale: float | None = None, lags: bool = False
) -> tuple[Array, Array, Array]:
    """dA = dB / 2 + dA', where dA', dW_Q and dW_K are `refine_simp_backward` of dB / 2.

    Shapes: as in `refine_add`, dB like B -> dA, dW_Q, dW_K like A, W_Q, W_K.
    """
    expect_given(A=A, W_Q=W_Q, W_K=W_K)
    expect("...nn ...nr ...nr ...nn", dB=dB, X=X, Y=Y, A=A)
    expect("...mr ...mr", W_Q=W_Q, W_K=W_K)
    expect_onto(maps_of(A, W_Q), A.dtype, like=A, W_Q=W_Q, W_K=W_K)
    half = dB * 0.5
    dA, dW_Q, dW_K = refine_simp_backward(half, A, W_Q, W_K, X, Y, scale, lags)
    return dA + half, dW_Q, dW_K
