"""LayerNorm and the linear map after it, as one op: γ and β are folded into the map's weights.

    LN(x) W + b  =  (x_hat ⊙ γ + β) W + b  =  x_hat (γ ⊙ W) + (β W + b)

γ scales the rows of W, and β shifts the bias. Both are applied to the few weights, (i, o), and not to the many tokens,
(N, i). Several maps of the same x, such as queries, keys and values, become one product when their weights stand side
by side in W. Tests compare it with `linear(layer_norm(x))`.
"""

from ..backend import Array
from .layer_norm import normalise
from .shapes import column_sum, expect, row_sum, rows


def norm_linear(
    x: Array, gamma: Array, beta: Array, W: Array, b: Array | None = None, eps: float = 1e-5
) -> tuple[Array, Array, Array]:
    """y = LN(x) W + b, with LN as in `layer_norm`.

    Shapes: x (..., i), gamma and beta (i,), W (i, o), b (o,) or None -> y (..., o), x_hat (..., i), rstd (..., 1).
    Raises ValueError for shapes that do not fit, TypeError for dtypes other than float32 / float64.
    """
    expect("...i i i io o", x=x, gamma=gamma, beta=beta, W=W, b=b)
    x_hat, rstd = normalise(x, eps)
    y = rows(x_hat) @ (gamma[:, None] * W)              # (N, i) @ (i, o)
    y += beta @ W if b is None else beta @ W + b
    return y.reshape(*x.shape[:-1], W.shape[1]), x_hat, rstd


def norm_linear_backward(
    dy: Array, x_hat: Array, rstd: Array, gamma: Array, beta: Array, W: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """Gradients of `norm_linear`. Shapes: dy (..., o) -> dx (..., i), dgamma, dbeta (i,), dW (i, o), db (o,).

    With V = γ ⊙ W and c = β W + b the forward is y = x_hat V + c, a linear map with the gradients dV = x_hatᵀ dy and
    dc = 1ᵀ dy. The gradients of γ, W, β and b follow from these. `layer_norm_backward` subtracts from dx_hat = dy Vᵀ
    its mean over each token. That mean is dy times the mean of V's rows, so here this mean is subtracted from V's rows.
    """
    expect("...o ...i ...r i i io", dy=dy, x_hat=x_hat, rstd=rstd, gamma=gamma, beta=beta, W=W)
    n_in, d, x = W.shape[0], rows(dy), rows(x_hat)
    dV, db = x.T @ d, column_sum(d)                     # y = x_hat V + c;  c = β W + b
    dgamma = row_sum(dV * W)[:, 0]                      # V = γ ⊙ W
    dbeta = W @ db
    dW = gamma[:, None] * dV
    dW += beta[:, None] * db
    V = gamma[:, None] * W
    V -= column_sum(V) / n_in
    dx = d @ V.T                                        # dx_hat - mean(dx_hat)
    dx -= x * (row_sum(dx * x) / n_in)                  # the rest as in `layer_norm_backward`
    dx *= rows(rstd)
    return dx.reshape(x_hat.shape), dgamma, dbeta, dW, db
