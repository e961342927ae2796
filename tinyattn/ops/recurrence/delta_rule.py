"""The gated delta rule: a state in which a token replaces the value of its key (Yang, Kautz & Hatamizadeh 2025).

Linear attention adds kᵀ v to its state S for every token, so a key reads the sum of all values under similar keys. The
delta rule (Widrow & Hoff 1960; as attention Schlag et al. 2021) first reads the key's value, and adds the difference;
a decay exp(a) forgets:

    S_t = S' + β_t k_tᵀ (v_t - k_t S')            S' = exp(a_t) S_{t-1}            y_t = q_t S_t

With |k| = 1 and β = 1, k_t S_t is v_t, and values of orthogonal keys only decay. β = 0 writes nothing. A token is a
step of gradient descent, of rate β, on |k S - v|² / 2. For |k| = 1 the part of S along k is multiplied by 1 - β,
which is negative for β between 1 and 2 (Grazzi et al. 2025).
"""

import math
from typing import Any, NamedTuple

from ...backend import Array, get_xp
from ..shapes import expect, row_sum, transpose_last

CHUNK = 16              # L steps within chunks of L tokens, and n / L over chunks: fewest for an L near √n


class DeltaStates(NamedTuple):
    """What the backward needs, for M sequences in C chunks of L tokens, and the last state, for later tokens."""

    written: Array                     # (M, C, L, d): u_t; token t adds k_tᵀ u_t to the state
    begun: Array                       # (M, C, N, d): the state before each chunk
    last: Array                        # (..., N, d)


class _Pairs(NamedTuple):
    """Factors between tokens of a chunk, (M, C, L, L), and between tokens and the chunk's ends, (M, C, L, 1)."""

    decay: Array                       # D_tj = exp(a_{j+1} + ... + a_t) for j <= t, else 0
    keys: Array                        # k_t · k_j, below the diagonal
    queries: Array                     # q_t · k_j
    inverse: Array                     # T = (I + A)⁻¹, A = β D ⊙ K Kᵀ below the diagonal
    since: Array                       # exp(a_1 + ... + a_t)
    until: Array                       # exp(a_{t+1} + ... + a_L)
    left: Array                        # (M, C, 1, 1): exp(a_1 + ... + a_L)


def delta_rule(
    q: Array, k: Array, v: Array, beta: Array, a: Array | None = None, S0: Array | None = None, chunk: int = CHUNK
) -> tuple[Array, DeltaStates]:
    """y_t = q_t S_t, with S_t = S' + β_t k_tᵀ (v_t - k_t S') and S' = exp(a_t) S_{t-1}.

    With chunk = 1 this runs token by token. A chunk of L tokens is computed at once, by products of matrices (the WY
    form of products of I - β kᵀ k, Yang et al. 2024, with decays). Token t adds k_tᵀ u_t to the state, with
    u_t = β_t (v_t - k_t S'). So within a chunk that begins with S

        S_t = since_t S + Σ_{j <= t} D_tj k_jᵀ u_j            D_tj = exp(a_{j+1} + ... + a_t)
        u_t = β_t (v_t - since_t k_t S - Σ_{j < t} D_tj (k_t · k_j) u_j)

    with since_t = exp(a_1 + ... + a_t). The second line is (I + A) U = β (V - since K S), a triangular system with
    A_tj = β_t D_tj (k_t · k_j) below the diagonal. T = (I + A)⁻¹ is computed for all chunks at once. Then states are
    passed from chunk to chunk, and Y = since Q S + (D ⊙ Q Kᵀ) U, linear attention with the values U. A chunk of all n
    tokens is a matrix times V (`delta_matrix`).

    Shapes: q and k (..., n, N), v (..., n, d), beta (..., n), a (..., n), finite and at most 0, or None for no
    decay, S0 (..., N, d) or None for zeros -> y (..., n, d), states: `DeltaStates`.
    Raises ValueError for shapes that do not fit and a chunk below 1, TypeError for dtypes other than float32 / float64.
    """
    expect("...nm ...nm ...nd ...n ...n ...md", q=q, k=k, v=v, beta=beta, a=a, S0=S0)
    if chunk < 1:
        raise ValueError(f"delta_rule: chunk is {chunk}, expected at least 1")
    xp, (*lead, n, d), N = get_xp(q), v.shape, k.shape[-1]
    q_, k_, v_, beta_ = (_cut(x, n, chunk) for x in (q, k, v, beta[..., None]))
    pairs = _pairs(q_, k_, beta_, None if a is None else _cut(a[..., None], n, chunk))
    taken = pairs.inverse @ (beta_ * pairs.since * k_)          # U = T β V - taken S
    written = pairs.inverse @ (beta_ * v_)
    added = transpose_last(pairs.until * k_)
    M, C = v_.shape[:2]
    S = xp.zeros((M, N, d), dtype=v.dtype) if S0 is None else S0.reshape(M, N, d)
    begun = xp.empty((M, C, N, d), dtype=v.dtype)
    for c in range(C):
        begun[:, c] = S
        written[:, c] -= taken[:, c] @ S
        S = pairs.left[:, c] * S + added[:, c] @ written[:, c]
    y = (pairs.since * q_) @ begun + (pairs.decay * pairs.queries) @ written
    return _joined(y, v.shape), DeltaStates(written, begun, S.reshape(*lead, N, d))


def delta_rule_backward(
    dy: Array, q: Array, k: Array, v: Array, beta: Array, states: DeltaStates, a: Array | None = None,
    S0: Array | None = None, chunk: int = CHUNK,
) -> tuple[Array, Array, Array, Array, Array | None, Array | None]:  # fmt: skip
    """dV = β ⊙ W, with W = Tᵀ dU and dU = (D ⊙ Q Kᵀ)ᵀ dY + (e ⊙ K) dS_end.

    Shapes: as in `delta_rule`, and dy like y -> dq, dk, dv, dbeta, da, dS0 (None where a and S0 are).
    These equations are for one chunk, where e_t = until_t is the decay from token t to the chunk's end. The forward
    has (I + A) U = β R with R = V - since K S. So W is the gradient of β R, dR = β W and dA = -W Uᵀ below the diagonal.
    dS_end comes from the next chunk, and the chunk before receives

        dS = left dS_end + (since Q)ᵀ dY - (since K)ᵀ dR

    All else is computed for all chunks at once. With E = β D ⊙ dA and F = D ⊙ dY Uᵀ, the gradients of K Kᵀ and Q Kᵀ:

        dQ = F K + since dY Sᵀ        dK = Fᵀ Q + (E + Eᵀ) K + until U dS_endᵀ - since dR Sᵀ
        dβ_t = w_t · R_t + Σ_j dA_tj D_tj (k_t · k_j)

    With g_t = a_1 + ... + a_t, since_t = exp(g_t), D_tj = exp(g_t - g_j) and until_t = exp(g_L - g_t). So dg_t is the
    sum of the products whose exponent has g_t, less those with -g_t, and da_t is the sum of dg from t on.
    """
    expect("...nd ...nm ...nm ...nd ...n ...n ...md", dy=dy, q=q, k=k, v=v, beta=beta, a=a, S0=S0)
    xp, n = get_xp(q), v.shape[-2]
    dy_, q_, k_, v_, beta_ = (_cut(x, n, chunk) for x in (dy, q, k, v, beta[..., None]))
    pairs = _pairs(q_, k_, beta_, None if a is None else _cut(a[..., None], n, chunk))
    U, S, since, until = states.written, states.begun, pairs.since, pairs.until
    dU = transpose_last(pairs.decay * pairs.queries) @ dy_
    dend, W, dR = xp.empty_like(S), xp.empty_like(dU), xp.empty_like(dU)
    read = transpose_last(since * q_) @ dy_                     # S is read by the queries
    back = xp.zeros((len(S), *S.shape[2:]), dtype=S.dtype)
    for c in range(S.shape[1] - 1, -1, -1):
        dend[:, c] = back
        dU[:, c] += (until[:, c] * k_[:, c]) @ back
        W[:, c] = transpose_last(pairs.inverse[:, c]) @ dU[:, c]
        dR[:, c] = beta_[:, c] * W[:, c]
        back = pairs.left[:, c] * back + read[:, c] - transpose_last(since[:, c] * k_[:, c]) @ dR[:, c]
    dA = -xp.tril(W @ transpose_last(U), -1)
    E, F = beta_ * pairs.decay * dA, pairs.decay * (dy_ @ transpose_last(U))
    of_query, of_key, of_end = dy_ @ transpose_last(S), dR @ transpose_last(S), U @ transpose_last(dend)
    dq = F @ k_ + since * of_query
    dk = transpose_last(F) @ q_ + (E + transpose_last(E)) @ k_ + until * of_end - since * of_key
    dbeta = row_sum(W * (v_ - since * (k_ @ S))) + row_sum(dA * pairs.decay * pairs.keys)
    da = None
    if a is not None:
        X, ended = E * pairs.keys + F * pairs.queries, until * row_sum(k_ * of_end)
        dg = row_sum(X) - row_sum(transpose_last(X)) + since * row_sum(q_ * of_query - k_ * of_key) - ended
        whole = xp.sum(ended, axis=-2, keepdims=True) + pairs.left * xp.sum(S * dend, axis=(-2, -1), keepdims=True)
        later = xp.flip(xp.cumsum(xp.flip(dg, axis=-2), axis=-2), axis=-2)
        da = _joined(later + whole, (*a.shape, 1))[..., 0]      # whole: dg_L, as every a is in g_L
    dbeta = _joined(dbeta, (*beta.shape, 1))[..., 0]
    dS0 = None if S0 is None else back.reshape(S0.shape)
    return _joined(dq, q.shape), _joined(dk, k.shape), _joined(dR, v.shape), dbeta, da, dS0


def _cut(x: Array, n: int, chunk: int) -> Array:
    """(..., n, size) -> (M, C, L, size); zeros fill the last chunk: such tokens write nothing and forget nothing."""
    xp, L = get_xp(x), max(1, min(chunk, n))
    M, C = math.prod(x.shape[:-2]), -(-n // L)
    x = x.reshape(M, n, x.shape[-1])
    if n < C * L:
        x = xp.concatenate([x, xp.zeros((M, C * L - n, x.shape[-1]), dtype=x.dtype)], axis=1)
    return x.reshape(M, C, L, x.shape[-1])


def _joined(x: Array, shape: tuple[int, ...]) -> Array:
    """Undo `_cut`."""
    M, C, L, size = x.shape
    return x.reshape(M, C * L, size)[:, : shape[-2]].reshape(shape)


def _pairs(q: Array, k: Array, beta: Array, a: Array | None) -> _Pairs:
    xp, L = get_xp(k), k.shape[-2]
    seen: Any = xp.tril(xp.ones((L, L), dtype=k.dtype))
    g = xp.zeros_like(beta) if a is None else xp.cumsum(a, axis=-2)
    decay = seen * xp.exp(seen * (g - transpose_last(g)))      # for later tokens exp(0), which cannot overflow
    end = g[..., -1:, :]
    keys = xp.tril(k @ transpose_last(k), -1)
    since, until, left = xp.exp(g), xp.exp(end - g), xp.exp(end)
    return _Pairs(decay, keys, q @ transpose_last(k), _inverse(beta * decay * keys), since, until, left)


def _inverse(A: Array) -> Array:
    """(I + A)⁻¹ of A below the diagonal, row after row: row t of T is e_t - Σ_{j < t} A_tj T_j."""
    xp, L = get_xp(A), A.shape[-1]
    T = xp.zeros_like(A)
    T += xp.eye(L, dtype=A.dtype)
    for t in range(1, L):
        T[..., t, :t] -= (A[..., t, None, :t] @ T[..., :t, :t])[..., 0, :]
    return T
