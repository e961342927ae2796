"""Layer normalisation: each token is centred and scaled by its mean and variance (Ba et al. 2016)."""

from ..backend import Array, get_xp
from .shapes import column_sum, expect, row_sum


def layer_norm(x: Array, gamma: Array, beta: Array, eps: float = 1e-5) -> tuple[Array, Array, Array]:
    """y = x_hat ⊙ γ + β, with x_hat = (x - mean) · rstd and rstd = 1 / √(variance + eps).

    Mean and (biased) variance are over the last axis: tokens do not see one another. The variance is taken
    of the centred values, in a second pass: E[x²] - mean² would lose everything to rounding for large means.
    Shapes: x (..., d), gamma and beta (d,) -> y (..., d), x_hat (..., d), rstd (..., 1).
    Raises ValueError for shapes that do not fit, TypeError for dtypes other than float32 / float64.
    """
    expect("...d d d", x=x, gamma=gamma, beta=beta)
    x_hat, rstd = normalise(x, eps)
    y = x_hat * gamma
    y += beta
    return y, x_hat, rstd


def normalise(x: Array, eps: float) -> tuple[Array, Array]:
    """What LayerNorm does before γ and β. Shapes: x (..., d) -> x_hat (..., d), rstd (..., 1)."""
    xp, d = get_xp(x), x.shape[-1]
    x_hat = x - row_sum(x) / d                          # centred, not yet scaled
    rstd = 1 / xp.sqrt(row_sum(x_hat * x_hat) / d + float(eps))
    x_hat *= rstd
    return x_hat, rstd


def layer_norm_backward(dy: Array, x_hat: Array, rstd: Array, gamma: Array) -> tuple[Array, Array, Array]:
    """dx = rstd · (g - mean(g) - x_hat · mean(g ⊙ x_hat)), with g = dy ⊙ γ; dγ = Σ dy ⊙ x_hat, dβ = Σ dy.

    Shapes: dy, x_hat (..., d), rstd (..., 1), gamma (d,) -> dx (..., d), dgamma (d,), dbeta (d,).

    Adding one number to all of x changes nothing, so the part of g along (1, .., 1), its mean, is taken out.
    Multiplying x by a number changes (almost) nothing, so the part of g along x_hat is taken out. The rest is
    multiplied by rstd, as x was. γ and β serve every token: their gradients are sums over all tokens.
    """
    expect("...d ...d ...r d", dy=dy, x_hat=x_hat, rstd=rstd, gamma=gamma)
    d = dy.shape[-1]
    along_x_hat = dy * x_hat
    dgamma = column_sum(along_x_hat)                    # y = x_hat ⊙ γ + β
    dbeta = column_sum(dy)
    dx = dy * gamma                                     # g
    dx -= row_sum(dx) / d
    dx -= x_hat * (row_sum(along_x_hat, gamma) / d)     # g ⊙ x_hat
    dx *= rstd                                          # x_hat = (x - mean) · rstd
    return dx, dgamma, dbeta
