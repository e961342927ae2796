"""The matrices of recurrences, for inspection: y = M x without a state, and with n² numbers per channel.

A recurrence that is linear in its values is a product with a lower triangular matrix, which it never forms: entry
(t, j) is the weight of token j in output t, like an attention weight.
"""

from ...backend import Array, get_xp
from ..masks import causal_mask
from ..shapes import expect
from ..softmax import softmax


def wkv_weights(k: Array, w: Array, u: Array) -> Array:
    """p_ts = exp(l_ts) / Σ_r exp(l_tr), l_tt = k_t + u and l_ts = k_s - (t - 1 - s) w.

    The weights of `wkv`, channel by channel: y_t = Σ_s p_ts v_s over s <= t. Its rows sum to 1, and only differences
    of keys count: adding 800 to all k is safe.
    Shapes: k (..., n, d), w (d,) >= 0, u (d,) -> p (..., d, n, n).
    Raises ValueError for shapes that do not fit, TypeError for dtypes other than float32 / float64.
    Source: Peng et al. (2023), equation 16.
    """
    expect("...nd d d", k=k, w=w, u=u)
    xp, n = get_xp(k), k.shape[-2]
    t = xp.arange(n, dtype=k.dtype)
    age = xp.maximum(t[:, None] - 1 - t, 0)                     # (n, n): how often the weight of s has lost w at t
    k, w, u = k.swapaxes(-1, -2), w[:, None, None], u[:, None, None]
    logits = k[..., None, :] - age * w                          # (..., d, n, n)
    logits += xp.eye(n, dtype=k.dtype) * u
    return softmax(logits, causal_mask(n, like=k))


def scan_matrix(delta: Array, A: Array, B: Array, C: Array, D: Array, exact: bool = False) -> Array:
    """M_tj = Σ_N C_t exp((Δ_{j+1} + .. + Δ_t) A) Δ_j B_j + D [j = t].

    The matrix of `selective_scan` from a state of zeros, channel by channel: y_t = Σ_j M_tj x_j over j <= t. Its
    entries may be negative, and its rows need not sum to 1. With `exact`, (exp(Δ_j A) - 1) / A replaces Δ_j. Row after
    row is computed: what earlier tokens wrote decays, and the next token writes.
    Shapes: delta (..., n, d), A (N, d), B and C (..., n, N), D (d,) -> M (..., d, n, n).
    Raises ValueError for shapes that do not fit, TypeError for dtypes other than float32 / float64.
    Source: Gu & Dao (2023), equations 2 to 4.
    """
    expect("...nd md ...nm ...nm d", delta=delta, A=A, B=B, C=C, D=D)
    xp, (*lead, n, d), N = get_xp(delta), delta.shape, len(A)
    z = delta[..., None, :] * A                                 # (..., n, N, d)
    decay, length = xp.exp(z), xp.broadcast_to(delta[..., None, :], z.shape)
    if exact:
        length = xp.where(A == 0, length, xp.expm1(z) / xp.where(A == 0, 1, A))
    written = length * B[..., None]
    M = xp.zeros((*lead, d, n, n), dtype=delta.dtype)
    left = xp.zeros((*lead, n, N, d), dtype=delta.dtype)        # each token's remainder in the state
    for t in range(n):
        left *= decay[..., t, None, :, :]
        left[..., t, :, :] = written[..., t, :, :]
        read = C[..., t, None, None, :] @ left                  # (..., n, 1, d)
        M[..., t, :] = read[..., 0, :].swapaxes(-1, -2)
    M += xp.eye(n, dtype=delta.dtype) * D[:, None, None]
    return M


def delta_matrix(q: Array, k: Array, beta: Array, a: Array | None = None) -> Array:
    """M_tj = β_j q_t P_t ... P_{j+1} k_jᵀ, with P_i = exp(a_i) (I - β_i k_iᵀ k_i).

    The matrix of `delta_rule` from a state of zeros, for all columns of v: y_t = Σ_j M_tj v_j over j <= t. Row after
    row is computed: the earlier tokens' keys decay and lose their part along the new key, which is then added.
    Shapes: q and k (..., n, N), beta (..., n), a (..., n) or None for no decay -> M (..., n, n).
    Raises ValueError for shapes that do not fit, TypeError for dtypes other than float32 / float64.
    Source: Yang et al. (2024); Yang, Kautz & Hatamizadeh (2025).
    """
    expect("...nm ...nm ...n ...n", q=q, k=k, beta=beta, a=a)
    xp, n = get_xp(q), q.shape[-2]
    M = xp.zeros((*q.shape[:-1], n), dtype=q.dtype)
    left = xp.zeros_like(k)                                     # a row for each token
    for t in range(n):
        if a is not None:
            left *= xp.exp(a[..., t, None, None])
        key, rate = k[..., t, :, None], beta[..., t, None, None]
        left -= rate * (left @ key) * key[..., 0][..., None, :]
        left[..., t, :] = rate[..., 0] * key[..., 0]
        M[..., t, :] = (left @ q[..., t, :, None])[..., 0]
    return M
