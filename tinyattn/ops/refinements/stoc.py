"""M_stoc: rows of scores as normal distributions, compared by their distance (Liu et al. 2024, section 2.3)."""

import math

from ...backend import Array
from ..attention.wasserstein_scores import wasserstein_scores, wasserstein_scores_backward
from ..root_elu import root_elu, root_elu_backward
from ..shapes import expect, expect_given, expect_onto, transpose_last, unbroadcast
from .lags import by_lag
from .simp import maps_of, root


def refine_stoc(
    A: Array, W_mu: Array, W_sigma: Array, scale: float | None = None, lags: bool = False
) -> tuple[Array, Array, Array]:
    """b_kt = -c (|μ_k - μ_t|² + |σ_k - σ_t|²), with μ = A W_μ, σ = √(ELU(A W_Σ) + 1), c = `scale`, by default 1 / √r.

    The bracket is the square of the 2-Wasserstein distance of two normal distributions, as in STOSA. A row is also
    compared with itself, at a distance of 0, so the diagonal is the largest. With `lags`, A is indexed by lag,
    Ã_kr = A_{k,k-r}. B depends on later tokens where it does in `refine_simp`.
    Shapes: A (..., n, m), W_mu and W_sigma onto (..., m, r), with lags n = m -> B (..., n, n), mean, dev (..., n, r):
    μ and σ. Raises ValueError for shapes that do not fit, TypeError for dtypes.
    """
    expect_given(A=A, W_mu=W_mu, W_sigma=W_sigma)
    expect("...nn" if lags else "...nm", A=A)
    expect("...mr ...mr", W_mu=W_mu, W_sigma=W_sigma)
    expect_onto(maps_of(A, W_mu), A.dtype, like=A, W_mu=W_mu, W_sigma=W_sigma)
    A = by_lag(A, lags)
    mean, dev = A @ W_mu, root_elu(A @ W_sigma)
    return wasserstein_scores(mean, dev, mean, dev) * _times(W_mu, scale), mean, dev


def refine_stoc_backward(
    dB: Array, A: Array, W_mu: Array, W_sigma: Array, B: Array, mean: Array, dev: Array,
    scale: float | None = None, lags: bool = False,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """dμ_k = -2 c Σ_t (dB_kt + dB_tk) (μ_k - μ_t), dσ alike; dA = dμ W_μᵀ + dz W_Σᵀ, dW_μ = Aᵀ dμ, dW_Σ = Aᵀ dz.

    dz is `root_elu_backward` of dσ.
    Shapes: as in `refine_stoc`, and dB like B -> dA, dW_mu, dW_sigma like A, W_mu, W_sigma.
    Every row was a query and a key, and the two gradients add.
    """
    expect_given(A=A, W_mu=W_mu, W_sigma=W_sigma)
    expect("...nn ...nn ...nr ...nr ...nm", dB=dB, B=B, mean=mean, dev=dev, A=A)
    expect("...mr ...mr", W_mu=W_mu, W_sigma=W_sigma)
    expect_onto(maps_of(A, W_mu), A.dtype, like=A, W_mu=W_mu, W_sigma=W_sigma)
    ds = dB * _times(W_mu, scale)
    of_queries_mean, of_queries_dev, dmean, ddev = wasserstein_scores_backward(ds, mean, dev, mean, dev, B)
    dmean, dz = dmean + of_queries_mean, root_elu_backward(ddev + of_queries_dev, dev)
    dA = dmean @ transpose_last(W_mu)
    dA += dz @ transpose_last(W_sigma)
    AT = transpose_last(by_lag(A, lags))
    dW_mu, dW_sigma = (unbroadcast(AT @ d, W.shape) for d, W in ((dmean, W_mu), (dz, W_sigma)))
    return by_lag(dA, lags), dW_mu, dW_sigma


def _times(W: Array, scale: float | None) -> float:
    """c √r, because `wasserstein_scores` divides distances by √r."""
    return root(W, scale) * math.sqrt(W.shape[-1])
