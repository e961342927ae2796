"""Linear attention: attention by features φ(x) = ELU(x) + 1 (Katharopoulos et al. 2020, equations 4 to 12).

The sum, its three forms and its backward are in `by_features`; here is φ.
"""

from ...backend import Array, get_xp
from ..shapes import expect, expect_onto
from .by_features import FLOOR, attend, attend_backward, weights_of


def linear_attention(
    q: Array, k: Array, v: Array, causal: bool = True, keys: Array | None = None, form: str = "chunked"
) -> tuple[Array, Array]:
    """out_i = Σ_j (φ(q_i)·φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j) over keys j <= i (not causal: over all), φ(x) = ELU(x) + 1.

    Shapes: q (..., n, d), k (..., m, d), v (..., m, e), causal: m = n; `keys` (boolean, True = a real key, not
    padding) broadcasts to (..., m) -> out (..., n, e), denominator (..., n, 1), up to a factor that cancels in `out`.
    `form` is that of `causal_sum`; to rounding the result is the same. A query that may look at nothing gets zeros.
    Raises ValueError for shapes that do not fit and for an unknown form, TypeError for dtypes.
    """
    expect("...nd ...nd ...ne" if causal else "...nd ...md ...me", q=q, k=k, v=v)
    expect_onto(k.shape[:-1], bool, like=k, keys=keys)
    return attend(query_features(q), key_features(k, keys), v, causal, form)


def linear_attention_backward(
    dout: Array, q: Array, k: Array, v: Array, out: Array, denominator: Array, causal: bool = True,
    keys: Array | None = None, form: str = "chunked",
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Gradients of `linear_attention`. Shapes: as there, and dout like out -> dq, dk, dv like q, k, v.

    `attend_backward` gives those of the features; φ' is 1 where φ > 1, and elsewhere φ itself, the exponential.
    """
    expect("...ne ...nd ...md ...me ...ne ...no", dout=dout, q=q, k=k, v=v, out=out, denominator=denominator)
    a, b = query_features(q), key_features(k, keys)
    dq, dk, dv = attend_backward(dout, a, b, v, out, denominator, causal, form)
    dq *= _slope(a)                                          # a = φ(q)
    dk *= _slope(b)                                          # b = φ(k), and 0 for padding
    return dq, dk, dv


def linear_weights(q: Array, k: Array, causal: bool = True, keys: Array | None = None) -> Array:
    """The attention weights, which `linear_attention` does not compute: out = weights v.

    Shapes: q (..., n, d), k (..., m, d), keys as there -> weights (..., n, m). Rows sum to 1, or to 0 where nothing
    may be looked at.
    """
    expect("...nd ...nd" if causal else "...nd ...md", q=q, k=k)
    expect_onto(k.shape[:-1], bool, like=k, keys=keys)
    return weights_of(query_features(q), key_features(k, keys), causal)


def query_features(q: Array) -> Array:
    """φ(q). If all entries of a query are negative, φ is divided by its largest, so that out does not become 0 / 0."""
    xp = get_xp(q)
    return key_features(q - xp.minimum(xp.max(q, axis=-1, keepdims=True), 0)) if q.size else key_features(q)


def _slope(features: Array) -> Array:
    """φ' from φ: 1 where x > 0, exp(x) below, and 0 for padding."""
    return get_xp(features).clip(features - FLOOR, 0, 1)


def key_features(x: Array, keys: Array | None = None) -> Array:
    """φ(x) = ELU(x) + 1: x + 1 above 0, exp(x) below; and 0 for padding."""
    xp = get_xp(x)
    features = xp.exp(xp.minimum(x, 0))
    features += xp.maximum(x, 0) + FLOOR
    if keys is not None:
        features = xp.where(xp.broadcast_to(keys, x.shape[:-1])[..., None], features, 0)       # a product might be 0 ∞
    return features
