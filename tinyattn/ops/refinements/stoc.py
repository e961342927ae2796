"""M_stoc: rows of scores as normal distributions, compared by their distance (Liu et al. 2024, section 3.4)."""

from ...backend import Array, get_xp
from ..shapes import expect, expect_onto, transpose_last, unbroadcast
from .lags import by_lag
from .simp import maps_of, root


def refine_stoc(
    A: Array, W_mu: Array, W_sigma: Array, scale: float | None = None, lags: bool = False
) -> tuple[Array, Array]:
    """b_kt = -c (|μ_k - μ_t|² + |σ_k - σ_t|²), with μ = A W_μ, σ = √(ELU(A W_Σ) + 1) and c = `scale`, by default 1 / √r.

    In brackets is the square of the 2-Wasserstein distance of two normal distributions with the means μ and the
    diagonal covariances σ², which are positive: ELU(z) + 1 is e^z left of 0 and 1 + z right of it. Its root is taken
    in one step, σ = e^{z / 2} or √(1 + z): in two, e^z would be 0 in float32 from z = -104 on, and the root would have
    no gradient there. A row is compared with itself, too, and nothing is nearer to it: the diagonal is 0, the largest.
    With `lags` the rows of A are read by the lag, Ã_kr = A_{k,k-r}.
    Shapes: A (..., n, m), W_mu and W_sigma onto (..., m, r), with lags n = m -> B (..., n, n), x (..., n, 2 r): μ and
    σ side by side. Raises ValueError for shapes that do not fit, TypeError for dtypes.
    """
    expect("...nn" if lags else "...nm", A=A)
    expect_onto(maps_of(A, W_mu), A.dtype, like=A, W_mu=W_mu, W_sigma=W_sigma)
    A, xp = by_lag(A, lags), get_xp(A)
    z = A @ W_sigma
    sigma = xp.where(z < 0, xp.exp(0.5 * xp.minimum(z, 0)), xp.sqrt(1 + xp.maximum(z, 0)))
    x = xp.concatenate([A @ W_mu, sigma], axis=-1)
    B = _squared_distances(x)
    B *= -root(W_mu, scale)
    return B, x


def refine_stoc_backward(
    dB: Array, A: Array, W_mu: Array, W_sigma: Array, x: Array, scale: float | None = None, lags: bool = False
) -> tuple[Array, Array, Array]:
    """Gradients of `refine_stoc`. Shapes: as there, and dB like B -> dA, dW_mu, dW_sigma.

    Both ends of a distance are rows: D_kt = |x_k - x_t|² gives dx_k = 2 Σ_t (dD_kt + dD_tk) (x_k - x_t). The slope of
    σ is σ / 2 where z < 0, which is where σ < 1, and 1 / (2 σ) elsewhere: the smaller of the two.
    """
    expect("...nn ...nq", dB=dB, x=x)
    xp, r, A = get_xp(dB), W_mu.shape[-1], by_lag(A, lags)
    dD = (dB + transpose_last(dB)) * (-2 * root(W_mu, scale))   # twice the sum of both ends
    dx = xp.sum(dD, axis=-1, keepdims=True) * x
    dx -= dD @ x
    sigma = x[..., r:]
    dmu, dz = dx[..., :r], dx[..., r:] * xp.minimum(sigma, 1 / xp.maximum(sigma, 1)) * 0.5
    dA = dmu @ transpose_last(W_mu)
    dA += dz @ transpose_last(W_sigma)
    AT = transpose_last(A)
    dW_mu, dW_sigma = (unbroadcast(AT @ d, W.shape) for d, W in ((dmu, W_mu), (dz, W_sigma)))
    return by_lag(dA, lags), dW_mu, dW_sigma


def _squared_distances(x: Array) -> Array:
    """D_kt = |x_k - x_t|² = |x_k|² + |x_t|² - 2 x_k · x_t. Shapes: x (..., n, q) -> (..., n, n).

    |x_k|² is taken from the product's own diagonal, so that D_kk is 0; where rounding would make another one negative,
    it is 0, too.
    """
    xp = get_xp(x)
    D = x @ transpose_last(x)
    size = xp.diagonal(D, axis1=-2, axis2=-1)
    size = size[..., :, None] + size[..., None, :]
    D *= -2
    D += size
    return xp.maximum(D, 0)
