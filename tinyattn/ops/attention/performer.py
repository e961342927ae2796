"""Performer: softmax attention by random features, in time that grows with n (Choromanski et al. 2021, FAVOR+).

`by_features` replaces exp(q·k / √d) by a product of features. No finite features have exactly that product, but
random ones have it on average (lemma 1 there): for w drawn from a standard normal distribution,
E exp(w·z) = exp(|z|²/2), and with z = q̂ + k̂, q̂ = q d^(-1/4), completing the square,

    E[ exp(w·q̂ - |q̂|²/2) exp(w·k̂ - |k̂|²/2) ]  =  exp(|q̂ + k̂|²/2 - |q̂|²/2 - |k̂|²/2)  =  exp(q̂·k̂)  =  exp(q·k / √d)

For m draws, the rows of W, let φ(x) = exp(W x̂ - |x̂|²/2) / √m. All of it is positive, and E[φ(q)·φ(k)] = exp(q·k / √d).
The kernel is unbiased, and its error falls with 1 / √m; with orthogonal rows it is smaller still (section 2.4 there).
Attention is a quotient of two such sums and hence biased: its bias falls with 1 / m, its error with 1 / √m. Large q and
k need many features: the variance grows with exp(|q̂ + k̂|²).

Exponents are shifted, so that exp neither overflows nor vanishes. A shift of a query's exponents cancels in the
quotient: the largest of them is subtracted. A shift of a key's exponents changes the key's weight, so it must be the
same for all keys that a query sees, and must not depend on later keys or padding. (The authors' code subtracts the
largest exponent of all keys, in causal attention too: then a later token changes earlier outputs, and may make them
0 / 0.) The bound k̂·w - |k̂|²/2 <= |w|²/2 depends on no key and prevents overflow, but with it all features of a long key
vanish. So the running exponent g of `by_features` is subtracted: g_s is the largest exponent of the real keys up to s.
The sums up to t have the scale exp(-g_t); when g grows, they shrink by exp(g_{t-1} - g_t).
"""

import math
from typing import Any

from ...backend import Array, get_xp
from ..shapes import expect, expect_onto, row_sum, transpose_last
from .by_features import FLOOR, attend, attend_backward, running_max, weights_of


def performer_attention(
    q: Array, k: Array, v: Array, W: Array, causal: bool = True, keys: Array | None = None, form: str = "chunked"
) -> tuple[Array, Array]:
    """out_i = Σ_j (φ(q_i)·φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j), with φ(x) = exp(W x_hat - |x_hat|²/2) / √m and
    x_hat = x / √(√d).

    Sums are over keys j <= i (not causal: over all). The products' mean over W is exp(q_i·k_j / √d). W, from
    `orthogonal_features`, has no gradient.
    Features of keys are at least 1e-30 times the largest so far. If all products of a query are below that, which
    happened with entries up to 30 but not with entries up to 10, the query gets the mean of the keys with the largest
    features, not 0 / 0.

    Shapes: q (..., n, d), k (..., m, d), v (..., m, e), W (features, d), causal: m = n; `keys` (boolean, True = a real
    key, not padding) broadcasts to (..., m) -> out (..., n, e), denominator (..., n, 1), up to a factor
    that cancels in `out`. `form` is that of `causal_sum`. A query that may look at nothing gets zeros.
    Raises ValueError for shapes that do not fit, W without rows and an unknown form, TypeError for dtypes.
    """
    expect("...nd ...nd ...ne fd" if causal else "...nd ...md ...me fd", q=q, k=k, v=v, W=W)
    expect_onto(k.shape[:-1], bool, like=k, keys=keys)
    b, g, _ = _key_features(k, W, causal, keys)
    return attend(_query_features(q, W), b, v, causal, form, g)


def performer_attention_backward(
    dout: Array, q: Array, k: Array, v: Array, W: Array, out: Array, denominator: Array, causal: bool = True,
    keys: Array | None = None, form: str = "chunked",
) -> tuple[Array, Array, Array]:  # fmt: skip
    """dq = (da ⊙ a) W / √(√d), and dk = (u W - k_hat Σ u) / √(√d), with u = db ⊙ b.

    Shapes: as in `performer_attention`, and dout like out -> dq, dk, dv like q, k, v.

    With a = φ(q) and b = φ(k), `attend_backward` gives da, db and dv. When k̂ = k_hat moves by δ, its feature r moves by
    b_r (w_r - k̂) · δ. So with u = db ⊙ b, dk̂ = Σ_r u_r (w_r - k̂) = u W - (Σ u) k̂, and dk = d^(-1/4) dk̂. For a query
    the last term is 0: a common factor of its features does not change `out`, so Σ da ⊙ a = 0. For the same reason
    g has no gradient.
    """
    expect("...ne ...nd ...md ...me fd ...ne ...no", dout=dout, q=q, k=k, v=v, W=W, out=out, denominator=denominator)
    a, (b, g, exponentials) = _query_features(q, W), _key_features(k, W, causal, keys)
    dq, dk, dv = attend_backward(dout, a, b, v, out, denominator, causal, form, g)
    dq *= a                                                         # a = exp(W q̂ ..)
    dk *= exponentials                                              # b = exp(W k̂ - |k̂|²/2 ..) + FLOOR
    dq = dq @ W
    dk = dk @ W - row_sum(dk) * _scaled(k)
    return _scaled(dq), _scaled(dk), dv                             # q̂ = q d^(-1/4), k̂ = k d^(-1/4)


def performer_weights(q: Array, k: Array, W: Array, causal: bool = True, keys: Array | None = None) -> Array:
    """The attention weights, which `performer_attention` does not compute: out = weights v.

    Shapes: q (..., n, d), k (..., m, d), W (features, d), keys as there -> weights (..., n, m). Rows sum to 1, or to 0
    where nothing may be looked at.
    """
    expect("...nd ...nd fd" if causal else "...nd ...md fd", q=q, k=k, W=W)
    expect_onto(k.shape[:-1], bool, like=k, keys=keys)
    b, g, _ = _key_features(k, W, causal, keys)
    return weights_of(_query_features(q, W), b, causal, g)


def positive_features(x: Array, W: Array) -> Array:
    """φ(x) = exp(W x̂ - |x̂|²/2) / √m, x̂ = x d^(-1/4), for W with m rows: E[φ(q)·φ(k)] = exp(q·k / √d).

    These are the paper's, for demonstrations; `performer_attention` also shifts the exponents.
    Shapes: x (..., n, d), W (m, d) -> (..., n, m).
    """
    expect("...nd fd", x=x, W=W)
    return get_xp(x).exp(_exponents(x, W)) / math.sqrt(len(W))


def orthogonal_features(rng: Any, features: int, width: int) -> Array:
    """W: rows distributed like standard normal vectors, and in each block of `width` rows orthogonal to one another.

    Orthogonal directions come from the QR decomposition of a normal matrix, with the signs that make them uniform.
    Their lengths are drawn separately from χ_d, the distribution of a normal vector's length. Each row alone is then a
    normal vector, so the kernel stays unbiased; together they are spread more evenly, so its variance is lower
    (Choromanski et al. 2021, theorem 2).

    `rng` is a generator, the numbers are float64 on the host. Shapes: -> (features, width).
    Raises ValueError for features or width below 1.
    """
    for name, size in (("features", features), ("width", width)):
        if size < 1:
            raise ValueError(f"orthogonal_features: {name} is {size}, expected at least 1")
    blocks = math.ceil(features / width)
    normal = rng.standard_normal((2, blocks, width, width))
    xp = get_xp(normal)
    directions, R = xp.linalg.qr(normal[0])                                     # columns, orthogonal to one another
    directions *= xp.where(xp.diagonal(R, axis1=-2, axis2=-1) < 0, -1.0, 1.0)[:, None, :]
    W = xp.sqrt(row_sum(normal[1] ** 2)) * transpose_last(directions)           # (blocks, width, width)
    return W.reshape(blocks * width, width)[:features]


def _scaled(x: Array) -> Array:
    """x̂ = x d^(-1/4), so that q̂·k̂ = q·k / √d."""
    return x * max(x.shape[-1], 1) ** -0.25


def _exponents(x: Array, W: Array) -> Array:
    """W x̂ - |x̂|²/2. Shapes: x (..., n, d), W (features, d) -> (..., n, features)."""
    x = _scaled(x)
    exponents = x @ W.T
    exponents -= row_sum(x * x) / 2
    return exponents


def _query_features(q: Array, W: Array) -> Array:
    """φ(q) divided by its largest entry."""
    xp = get_xp(q)
    exponents = _scaled(q) @ W.T
    return xp.exp(exponents - xp.max(exponents, axis=-1, keepdims=True))


def _key_features(k: Array, W: Array, causal: bool, keys: Array | None) -> tuple[Array, Array, Array]:
    """b_s = exp(-g_s) φ(k_s) + FLOOR, the running exponent g, and exp(-g_s) φ(k_s) alone; 0 for padding.

    Not causal, g is the largest exponent of all real keys.
    """
    if not len(W):
        raise ValueError(f"performer_attention: W has shape {W.shape}, expected at least one row, a feature")
    xp, exponents = get_xp(k), _exponents(k, W)
    largest = xp.max(exponents, axis=-1, keepdims=True)                        # (..., m, 1)
    if keys is not None:
        keys = xp.broadcast_to(keys, k.shape[:-1])[..., None]
        largest = xp.where(keys, largest, float(xp.finfo(k.dtype).min))        # padding does not raise g
    g = running_max(largest)
    g = g if causal else g[..., -1:, :]
    exponentials = xp.exp(xp.minimum(exponents - g, 0))                        # only padding is above g
    b = exponentials + FLOOR
    if keys is not None:
        exponentials, b = xp.where(keys, exponentials, 0), xp.where(keys, b, 0)     # a product might be 0 ∞
    return b, g, exponentials
