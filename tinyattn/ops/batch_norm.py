"""Batch normalisation: each feature is centred and scaled over the rows of a batch (Ioffe & Szegedy 2015)."""

import math

from ..backend import Array, get_xp
from .shapes import column_sum, expect


def batch_norm(
    x: Array, gamma: Array, beta: Array, eps: float = 1e-5, mean: Array | None = None, var: Array | None = None
) -> tuple[Array, Array, Array]:
    """y = x_hat ⊙ γ + β, with x_hat = (x - mean) ⊙ inv_std and inv_std = 1 / √(var + eps).

    Mean and (biased) variance of each feature are over all rows of x: over every axis but the last. So each row depends
    on all others, unlike LayerNorm's tokens. This is algorithm 1 of Ioffe & Szegedy 2015. If `mean` and `var` are
    given, as from running statistics in evaluation, they are constants, and each row is mapped alone. The library
    keeps no running statistics. Without any rows, mean and variance count as 0.
    Shapes: x (..., d), gamma, beta, mean and var (d,) -> y (..., d), x_hat (..., d), inv_std (d,).
    Raises ValueError for shapes that do not fit and for one of mean and var without the other, TypeError for dtypes
    other than float32 / float64.
    """
    expect("...d d d d d", x=x, gamma=gamma, beta=beta, mean=mean, var=var)
    if (mean is None) != (var is None):
        raise ValueError(f"batch_norm: {'mean' if mean is None else 'var'} is None, expected mean and var or neither")
    n = _rows(x)
    x_hat = x - (column_sum(x) / n if mean is None else mean)           # centred, not yet scaled
    inv_std = 1 / get_xp(x).sqrt((column_sum(x_hat * x_hat) / n if var is None else var) + float(eps))
    x_hat *= inv_std
    y = x_hat * gamma
    y += beta
    return y, x_hat, inv_std


def batch_norm_backward(
    dy: Array, x_hat: Array, inv_std: Array, gamma: Array, mean: Array | None = None
) -> tuple[Array, Array, Array]:
    """dx = γ ⊙ inv_std ⊙ (dy - mean(dy) - x_hat ⊙ mean(dy ⊙ x_hat)); dγ = Σ dy ⊙ x_hat and dβ = Σ dy over rows.

    Shapes: dy, x_hat (..., d), inv_std, gamma and mean (d,) -> dx (..., d), dgamma (d,), dbeta (d,).

    Means are over rows. This is LayerNorm's backward for columns instead of rows. Adding one number to a column of x
    changes nothing, so the part of dy along (1, .., 1), its mean, is taken out. Multiplying the column by a number
    changes (almost) nothing, so the part along x_hat is taken out. γ is one number for the whole column, so it
    factors out, and the two means are dβ and dγ divided by the number of rows. Ioffe & Szegedy (section 3) derive the
    same through the gradients of variance and mean. If the forward took a `mean`, pass it here, too: then mean
    and variance do not move with x, and dx = γ ⊙ inv_std ⊙ dy.
    """
    expect("...d ...d d d d", dy=dy, x_hat=x_hat, inv_std=inv_std, gamma=gamma, mean=mean)
    dgamma = column_sum(dy * x_hat)                                     # y = x_hat ⊙ γ + β
    dbeta = column_sum(dy)
    slope = gamma * inv_std
    if mean is not None:
        return dy * slope, dgamma, dbeta                                # x_hat = (x - mean) ⊙ inv_std
    n = _rows(dy)
    dx = dy - dbeta / n                                                 # through mean(x)
    dx -= x_hat * (dgamma / n)                                          # through var(x)
    dx *= slope
    return dx, dgamma, dbeta


def _rows(x: Array) -> int:
    """The number of rows that the statistics are over; 1 where there are none, as every sum is then 0."""
    return max(math.prod(x.shape[:-1]), 1)
