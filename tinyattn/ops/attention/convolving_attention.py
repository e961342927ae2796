"""Convolution by attention: K² heads that each look at one neighbour (Cordonnier, Loukas & Jaggi 2020, theorem 1).

A K × K convolution adds up linear maps of K² neighbours. A head of attention with a quadratic relative bias of strength
α looks at one of them, so K² heads, whose values are the tokens and whose output projection is the kernel, are that
convolution as α grows. The error falls like e^(-α), the weight of the four tokens around the neighbour. At the edges
it does not: for a missing neighbour convolution reads a zero, and attention the nearest token, as its weights sum to 1.
"""

from ...backend import Array, get_xp
from ..positions.quadratic import kernel_shifts, quadratic_bias
from ..shapes import expect
from .attention import attention


def convolving_attention(x: Array, W: Array, alpha: float) -> tuple[Array, Array]:
    """y = Σ_h softmax(-α |δ - Δ_h|²) x W_h, over the K² places Δ_h of the kernel.

    As α grows, it becomes `conv2d(x, W)` away from the edges. Queries and keys are 0, so only positions matter. It is
    for inspection, not for speed: each head has n² weights.
    Shapes: x (..., h, w, i), W (K, K, i, o), n = h w -> y (..., h, w, o), weights (..., K², n, n).
    Raises ValueError for shapes that do not fit, an even K, and an α that is negative or infinite; TypeError for
    dtypes.
    """
    expect("...hwi klio", x=x, W=W)
    if W.shape[0] != W.shape[1]:
        raise ValueError(f"convolving_attention: W has shape {W.shape}, expected a square kernel, (K, K, i, o)")
    xp, (*lead, height, width, i), (K, _, _, o) = get_xp(x), x.shape, W.shape
    n, heads = height * width, K * K
    bias = quadratic_bias(height, width, kernel_shifts(K), alpha, like=x)                 # (K², n, n)
    nothing = xp.zeros((*lead, heads, n, 1), dtype=x.dtype)
    tokens = xp.broadcast_to(x.reshape(*lead, 1, n, i), (*lead, heads, n, i))
    out, weights = attention(nothing, nothing, tokens, bias=bias)                         # (..., K², n, i)
    y = xp.sum(out @ W.reshape(heads, i, o), axis=-3)                                     # the output projection
    return y.reshape(*lead, height, width, o), weights
