"""Linear map: every token is a row, so y = x W + b."""

from ..backend import Array
from .shapes import column_sum, expect, rows


def linear(x: Array, W: Array, b: Array | None = None) -> Array:
    """y = x W + b, the same map for every token.

    Shapes: x (..., i), W (i, o), b (o,) or None -> y (..., o).
    Raises ValueError for shapes that do not fit, TypeError for dtypes other than float32 / float64.
    """
    expect("...i io o", x=x, W=W, b=b)
    y = rows(x) @ W                                     # (N, i) @ (i, o) -> (N, o): one matrix product, not N
    if b is not None:
        y += b                                          # in place: y was made above
    return y.reshape(*x.shape[:-1], W.shape[1])


def linear_backward(dy: Array, x: Array, W: Array) -> tuple[Array, Array, Array]:
    """Gradients of `linear`. Shapes: dy (..., o), x (..., i), W (i, o) -> dx (..., i), dW (i, o), db (o,).

    A small step changes y by δy = δx W + x δW + δb, and the loss by <dy, δy>. Moving W and x to the other
    side of <,> gives <dy Wᵀ, δx> + <xᵀ dy, δW> + <1ᵀ dy, δb>. W and b serve every token, so their gradients
    are sums over all tokens. (db is returned whether or not there was a b.)
    """
    expect("...o ...i io", dy=dy, x=x, W=W)
    x, d = rows(x), rows(dy)                            # (N, i), (N, o)
    dx = d @ W.T                                        # y = x W + b:  (N, o) @ (o, i) -> (N, i)
    dW = x.T @ d                                        #               (i, N) @ (N, o) -> (i, o)
    db = column_sum(d)                                  #               (N, o) -> (o,)
    return dx.reshape(*dy.shape[:-1], W.shape[0]), dW, db
