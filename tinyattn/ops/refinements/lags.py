"""Scores by lag: column r of row k is about the token r steps before k, and not about the r-th of the sequence."""

from ...backend import Array, get_xp


def by_lag(A: Array, lags: bool) -> Array:
    """Ã_kr = A_{k,k-r} for r = 0 to k, and 0 for the rest, which would be later tokens; A itself without `lags`.

    The first k + 1 entries of row k are reversed. A second time restores them, and the Jacobian, which moves or drops
    entries, is symmetric: backward is the same function. Shapes: A (..., n, n) -> (..., n, n).
    """
    if not lags:
        return A
    xp, n = get_xp(A), A.shape[-1]
    k, r = xp.arange(n)[:, None], xp.arange(n)
    flat = A.reshape(*A.shape[:-2], n * n)                      # one index, as graphs of ONNX have it
    return xp.where(r <= k, flat[..., (n + 1) * k - r], 0)      # beyond the diagonal it is of another row, and dropped
