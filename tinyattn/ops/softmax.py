"""Softmax over the last axis: scores become weights that sum to 1."""

from ..backend import Array, get_xp
from .shapes import expect, expect_onto, row_sum


def softmax(s: Array, mask: Array | None = None) -> Array:
    """p_ij = exp(s_ij) / Σ_k exp(s_ik), over the entries of a row that the mask allows.

    Shapes: s (..., m); mask boolean, True = may look, any shape that broadcasts to s -> p (..., m).
    A row with nothing allowed is all zeros. Logits of any finite size are safe: only differences to the
    row's largest enter the exponential. An entry of -inf counts as not allowed.
    Raises ValueError for a mask that does not broadcast, TypeError for dtypes (s float32 / float64, mask bool).
    """
    expect("...m", s=s)
    expect_onto(s.shape, bool, like=s, mask=mask)
    xp = get_xp(s)
    if s.shape[-1] == 0:
        return xp.zeros_like(s)
    if mask is not None:
        s = xp.where(mask, s, -xp.inf)
    row_max = xp.max(s, axis=-1, keepdims=True)                 # (..., 1)
    row_max = xp.where(row_max == -xp.inf, 0.0, row_max)        # nothing allowed: -inf minus -inf would be NaN
    p = s - row_max                                             # (..., m), at most 0
    xp.exp(p, out=p)                                            # in 0..1
    denominator = row_sum(p)                                    # (..., 1), at least 1, or 0 where nothing is allowed
    p /= xp.where(denominator == 0, 1.0, denominator)
    return p


def softmax_backward(dp: Array, p: Array) -> Array:
    """ds = p ⊙ (dp - Σ_k dp_k p_k).

    From ∂p_j/∂s_k = p_j (1[j = k] - p_k). Raising all logits of a row together changes nothing, so each row
    of ds sums to 0; and where p is 0, for a masked entry or an empty row, ds is 0: no mask is needed here.
    Shapes: dp, p (..., m) -> ds (..., m).
    """
    expect("...m ...m", dp=dp, p=p)
    ds = dp * p
    ds -= p * row_sum(ds)                                       # p ⊙ dp - p Σ(dp ⊙ p)
    return ds
