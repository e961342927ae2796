"""Scores by lag: column r of row k is the score of the token r steps before k, not of the r-th token."""

from ...backend import Array, get_xp


def by_lag(A: Array, lags: bool) -> Array:
    """Ã_kr = A_{k,k-r} for r <= k, and 0 for r > k, where there is no token; A itself without `lags`.

    The first k + 1 entries of row k are reversed, and the scores of later tokens are dropped. The Jacobian is
    symmetric, so the backward is the same function. Shapes: A (..., n, n) -> (..., n, n).
    """
    if not lags:
        return A
    xp, n = get_xp(A), A.shape[-1]
    k, r = xp.arange(n)[:, None], xp.arange(n)
    flat = A.reshape(*A.shape[:-2], n * n)                      # one index, which an ONNX graph can express
    return xp.where(r <= k, flat[..., (n + 1) * k - r], 0)      # for r > k the index is in another row
