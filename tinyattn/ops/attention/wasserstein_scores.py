"""Scores of queries and keys that are distributions: how near each pair is (Fan et al. 2022, STOSA)."""

import math

from ...backend import Array, get_xp
from ..shapes import expect, expect_not_negative, row_sum, transpose_last


def wasserstein_scores(q_mean: Array, q_dev: Array, k_mean: Array, k_dev: Array, root: bool = False) -> Array:
    """s_ij = -(|μ_i - μ'_j|² + |σ_i - σ'_j|²) / √d.

    The bracket is the square of the 2-Wasserstein distance between two normal distributions with diagonal covariances:
    μ, σ are the mean and the standard deviations of query i, μ', σ' those of key j. With `root` the distance itself is
    taken, as the paper prints it. It satisfies the triangle inequality; its square, which the released code has, does
    not (points 0, 1, 2: 4 > 1 + 1).
    |a - b|² = |a|² - 2 a · b + |b|² is one product of matrices, without an array (..., n, m, d). It loses digits if a
    and b are far from 0 and near each other. So the first key, which no causal mask hides, is subtracted from both, and
    scores that rounding makes positive are set to 0.

    Shapes: q_mean, q_dev (..., n, d), k_mean, k_dev (..., m, d), with m of at least 1 -> s (..., n, m), at most 0.
    A deviation of 0, a point, is allowed. Raises ValueError for shapes that do not fit, for queries without a key, and,
    on the host, for a negative deviation; TypeError for dtypes.
    """
    expect("...nd ...nd ...md ...md", q_mean=q_mean, q_dev=q_dev, k_mean=k_mean, k_dev=k_dev)
    expect_not_negative(q_dev=q_dev, k_dev=k_dev)
    if not k_mean.shape[-2] and q_mean.shape[-2]:
        raise ValueError(f"wasserstein_scores: k_mean has shape {k_mean.shape}, expected at least one key")
    xp, c = get_xp(q_mean), 1 / math.sqrt(max(q_mean.shape[-1], 1))
    q, k = _points(q_mean, q_dev, k_mean, k_dev)
    left = xp.concatenate([2 * q, xp.ones_like(q[..., :1]), row_sum(q * q)], axis=-1)    # [2 a, 1, |a|²]
    right = xp.concatenate([k, -row_sum(k * k), -xp.ones_like(k[..., :1])], axis=-1)     # [b, -|b|², -1]
    left *= 1.0 if root else c
    s = left @ transpose_last(right)
    xp.clip(s, -math.inf, 0, out=s)
    return -xp.sqrt(-s) * c if root else s


def wasserstein_scores_backward(
    ds: Array, q_mean: Array, q_dev: Array, k_mean: Array, k_dev: Array, s: Array, root: bool = False
) -> tuple[Array, Array, Array, Array]:
    """dμ_i = 2 Σ_j g_ij (μ_i - μ'_j), and dμ'_j = 2 Σ_i g_ij (μ'_j - μ_i), with g_ij = -ds_ij / √d.

    Shapes: as in `wasserstein_scores`, and ds like s -> dq_mean, dq_dev, dk_mean, dk_dev like the arguments.
    g is the gradient by the squared distance D, which has the gradient 2 (a - b) by a, and the opposite by b. The
    gradients of deviations have the same form. With `root`, s = -√(D / d) has the derivative 1 / (2 d s) by D. Where D
    is 0 there is none, and g is taken as 0.
    """
    expect("...nm ...nd ...nd ...md ...md ...nm", ds=ds, q_mean=q_mean, q_dev=q_dev, k_mean=k_mean, k_dev=k_dev, s=s)
    xp, d = get_xp(ds), q_mean.shape[-1]
    g = ds / xp.where(s < 0, 2 * d * s, math.inf) if root else ds * (-1 / math.sqrt(max(d, 1)))
    q, k = _points(q_mean, q_dev, k_mean, k_dev)           # only their differences have a gradient
    dq, dk = _pulled(g, q, k), _pulled(transpose_last(g), k, q)
    return dq[..., :d], dq[..., d:], dk[..., :d], dk[..., d:]


def _points(q_mean: Array, q_dev: Array, k_mean: Array, k_dev: Array) -> tuple[Array, Array]:
    """[μ, σ] of queries and of keys, less the first key's: distributions are as far apart as these points.

    Shapes: (..., n, d) twice, (..., m, d) twice -> (..., n, 2 d), (..., m, 2 d).
    """
    xp = get_xp(q_mean)
    first = xp.concatenate([k_mean[..., :1, :], k_dev[..., :1, :]], axis=-1)
    q, k = xp.concatenate([q_mean, q_dev], axis=-1), xp.concatenate([k_mean, k_dev], axis=-1)
    q -= first
    k -= first
    return q, k


def _pulled(g: Array, a: Array, b: Array) -> Array:
    """2 Σ_j g_ij (a_i - b_j). Shapes: g (..., n, m), a (..., n, e), b (..., m, e) -> (..., n, e)."""
    pulled = row_sum(g) * a
    pulled -= g @ b
    pulled *= 2
    return pulled
