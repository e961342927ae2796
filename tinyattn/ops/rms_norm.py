"""Root-mean-square normalisation: each token is scaled by its size, and not centred (Zhang & Sennrich 2019)."""

from ..backend import Array, get_xp
from .shapes import column_sum, expect, row_sum


def rms_norm(x: Array, gamma: Array, eps: float = 1e-5) -> tuple[Array, Array, Array]:
    """y = x_hat ⊙ γ, with x_hat = x · r and r = 1 / √(mean(x²) + eps).

    LayerNorm without mean and β: the mean square of x_hat is 1 (but for eps), and its mean is left in. This is equation
    4 of Zhang & Sennrich 2019 with an eps, which keeps tokens of zeros finite. Tokens do not see one another.
    Shapes: x (..., d), gamma (d,) -> y (..., d), x_hat (..., d), r (..., 1).
    Raises ValueError for shapes that do not fit, TypeError for dtypes other than float32 / float64.
    """
    expect("...d d", x=x, gamma=gamma)
    r = 1 / get_xp(x).sqrt(row_sum(x * x) / x.shape[-1] + float(eps))
    x_hat = x * r
    return x_hat * gamma, x_hat, r


def rms_norm_backward(dy: Array, x_hat: Array, r: Array, gamma: Array) -> tuple[Array, Array]:
    """dx = r · (g - x_hat · mean(g ⊙ x_hat)), with g = dy ⊙ γ; dγ = Σ dy ⊙ x_hat over tokens.

    Shapes: dy, x_hat (..., d), r (..., 1), gamma (d,) -> dx (..., d), dgamma (d,).

    When x moves by δ, the mean square moves by 2 mean(x ⊙ δ) and r by -r³ mean(x ⊙ δ) = -r² mean(x_hat ⊙ δ). So x_hat
    moves by r δ - x_hat r mean(x_hat ⊙ δ), and the loss by the product of this with g, summed over the token. The sum
    is Σ dx ⊙ δ, because Σ g ⊙ x_hat mean(x_hat ⊙ δ) = Σ mean(g ⊙ x_hat) x_hat ⊙ δ. Multiplying x by a number changes
    (almost) nothing, so the part of g along x_hat is taken out. Adding a number to x changes y, so the mean of g stays.
    """
    expect("...d ...d ...r d", dy=dy, x_hat=x_hat, r=r, gamma=gamma)
    along_x_hat = dy * x_hat
    dgamma = column_sum(along_x_hat)                                    # y = x_hat ⊙ γ
    dx = dy * gamma                                                     # g
    dx -= x_hat * (row_sum(along_x_hat, gamma) / dy.shape[-1])          # g ⊙ x_hat
    dx *= r                                                             # x_hat = x · r
    return dx, dgamma
