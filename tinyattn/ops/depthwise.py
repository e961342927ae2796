"""Convolution of each channel alone: one kernel per channel, without mixing."""

from ..backend import Array, get_xp
from .shapes import expect


def depthwise_conv1d(x: Array, W: Array) -> Array:
    """y_t = Σ_j x_{t + j} ⊙ W_j.

    The kernel stays within x, so K - 1 tokens fewer come out. K - 1 tokens of zeros before a sequence make it causal.
    Shapes: x (..., n, d), W (K, d) -> y (..., n - K + 1, d).
    Raises ValueError for shapes that do not fit, an empty kernel, and fewer tokens than K - 1, TypeError for dtypes.
    """
    expect("...nd kd", x=x, W=W)
    n = _outputs("depthwise_conv1d", x, W)
    y = get_xp(x).zeros((*x.shape[:-2], n, x.shape[-1]), dtype=x.dtype)
    for j in range(len(W)):
        y += x[..., j : j + n, :] * W[j]
    return y


def depthwise_conv1d_backward(dy: Array, x: Array, W: Array) -> tuple[Array, Array]:
    """dx_s = Σ_j dy_{s - j} ⊙ W_j, and dW_j = Σ_t x_{t + j} ⊙ dy_t.

    Shapes: dy like y, x (..., n, d), W (K, d) -> dx like x, dW like W.
    Token s is read by y_t as x_{t + j}, with t = s - j.
    """
    expect("...md ...nd kd", dy=dy, x=x, W=W)
    xp, n, d = get_xp(x), _outputs("depthwise_conv1d_backward", x, W), x.shape[-1]
    if dy.shape[-2] != n:
        expected = f"(..., {n}, {x.shape[-1]})"
        raise ValueError(f"depthwise_conv1d_backward: dy has shape {dy.shape}, expected {expected}, that of y")
    dx, dW = xp.zeros_like(x), xp.empty_like(W)
    for j in range(len(W)):
        seen = x[..., j : j + n, :]
        dx[..., j : j + n, :] += dy * W[j]
        dW[j] = xp.sum((seen * dy).reshape(-1, d), axis=0)
    return dx, dW


def _outputs(op: str, x: Array, W: Array) -> int:
    """The number of output tokens."""
    if not len(W):
        raise ValueError(f"{op}: W has shape {W.shape}, expected (K, d), K >= 1")
    n = x.shape[-2] - len(W) + 1
    if n < 0:
        raise ValueError(f"{op}: x has {x.shape[-2]} tokens, expected at least {len(W) - 1}, for a kernel of {len(W)}")
    return n
