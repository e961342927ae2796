"""Attention that averages distributions: their means, and their covariances (Fan et al. 2022, STOSA)."""

from ...backend import Array, get_xp
from ..shapes import expect, expect_not_negative, expect_onto, transpose_last
from ..softmax import softmax, softmax_backward


def gaussian_attention(s: Array, v_mean: Array, v_cov: Array, mask: Array | None = None) -> tuple[Array, Array]:
    """out = [p v_mean, (p ⊙ p) v_cov], with p = softmax(s, mask).

    For independent X_j with means μ_j and variances v_j, Σ_j p_ij X_j has the mean Σ_j p_ij μ_j and the variance
    Σ_j p_ij² v_j: weights of variances are squared, so an average of many has a smaller variance than each.
    The logits s may be any; STOSA's are `wasserstein_scores`.

    Shapes: s (..., n, m), v_mean (..., m, e), v_cov (..., m, f), mask boolean, True = may look, onto (..., n, m) ->
    out (..., n, e + f), means first, and the weights (..., n, m). A query that may look at nothing gets zeros.
    A variance of 0, a point, is allowed. Raises ValueError for shapes that do not fit, and, on the host, for a negative
    variance; TypeError for dtypes.
    """
    expect("...nm ...me ...mf", s=s, v_mean=v_mean, v_cov=v_cov)
    expect_onto(s.shape, bool, like=s, mask=mask)
    expect_not_negative(v_cov=v_cov)
    weights = softmax(s, mask)
    out = get_xp(s).concatenate([weights @ v_mean, (weights * weights) @ v_cov], axis=-1)
    return out, weights


def gaussian_attention_backward(
    dout: Array, v_mean: Array, v_cov: Array, weights: Array
) -> tuple[Array, Array, Array]:
    """dp = dmean v_meanᵀ + 2 p ⊙ (dcov v_covᵀ), with dout = [dmean, dcov].

    Shapes: as in `gaussian_attention`, and dout like out -> ds, dv_mean, dv_cov like s, v_mean, v_cov.
    mean = p v_mean gives dv_mean = pᵀ dmean, and cov = (p ⊙ p) v_cov gives dv_cov = (p ⊙ p)ᵀ dcov. The 2 in dp is from
    the square of p. No mask is needed: at hidden pairs p is 0, and so is ds.
    """
    expect("...no ...me ...mf ...nm", dout=dout, v_mean=v_mean, v_cov=v_cov, weights=weights)
    e = v_mean.shape[-1]
    dmean, dcov = dout[..., :e], dout[..., e:]
    dv_mean = transpose_last(weights) @ dmean
    dv_cov = transpose_last(weights * weights) @ dcov
    dp = dcov @ transpose_last(v_cov)
    dp *= weights
    dp *= 2
    dp += dmean @ transpose_last(v_mean)
    return softmax_backward(dp, weights), dv_mean, dv_cov
