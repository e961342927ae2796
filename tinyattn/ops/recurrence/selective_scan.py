"""A selective state space: each token chooses its decay, input and output (Gu & Dao 2023)."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...backend import Array, get_xp, is_numpy
from ..shapes import column_sum, expect
from .time import spans, steps_first, steps_last

ON_HOST = (1 << 14, 1 << 19)       # numbers per step, and per piece, which stays in cache
ON_DEVICE = (1 << 17, 1 << 30)     # every call is a launch, and nothing stays in cache
NEAR = 0.1              # for smaller |z|, φ' is a series of eleven terms: exact to rounding in float64


class ScanStates(NamedTuple):
    """All states of a scan, and exp(Δ A): for each piece (tokens per chunk, chunks, sequences, N, d)."""

    pieces: list[Array]
    decays: list[Array]
    last: Array                        # (..., N, d): h0 of later tokens

    def by_token(self) -> Array:
        """The state h_t of every token, in order: (..., n, N, d)."""
        xp, parts = get_xp(self.last), [steps_last(piece[None]) for piece in self.pieces]
        if not parts:
            return xp.zeros((*self.last.shape[:-2], 0, *self.last.shape[-2:]), dtype=self.last.dtype)
        states = xp.concatenate(parts, axis=1)
        return states.reshape(*self.last.shape[:-2], *states.shape[1:])


def selective_scan(
    x: Array, delta: Array, A: Array, B: Array, C: Array, D: Array, h0: Array | None = None, exact: bool = False
) -> tuple[Array, ScanStates]:
    """y_t = C_t h_t + D ⊙ x_t, with h_t = exp(Δ_t A) ⊙ h_{t-1} + B_tᵀ (Δ_t ⊙ x_t).

    Every channel of x has N states. Δ_t is the duration of a token: with Δ = 0 the state does not change; with a large
    Δ and a negative A the old state is forgotten, and the token is written. B_t acts as a key, C_t as a query and Δ x
    as a value: without the decay, h would be linear attention's sum of kᵀ v. The differential equation h' = A h + B x,
    with a constant x for a time Δ, has this decay, and the input φ(Δ A) ⊙ B_tᵀ (Δ_t ⊙ x_t) with
    φ(z) = (exp(z) - 1) / z. That is `exact`, the paper's equation 4. Without `exact`, φ is 1, as in the paper's code.

    A long sequence is computed in pieces, and a piece as chunks side by side. First each chunk is computed from a state
    of zeros. The last states give the true first state of each chunk, from which the chunk is computed again.
    Everything but the recurrence is computed for a whole piece at once. All states are kept, and their decays: 2 n N d
    numbers.

    Shapes: x and delta (..., n, d), A (N, d), B and C (..., n, N), D (d,), h0 (..., N, d) or None for zeros
    -> y (..., n, d), states: `ScanStates`.
    Raises ValueError for shapes that do not fit, TypeError for dtypes other than float32 / float64.
    """
    expect("...nd ...nd md ...nm ...nm d ...md", x=x, delta=delta, A=A, B=B, C=C, D=D, h0=h0)
    xp, lead, (n, d), N = get_xp(x), x.shape[:-2], x.shape[-2:], len(A)
    if not (N and d):
        raise ValueError(f"selective_scan: A has shape {A.shape}, expected (N, d), N and d >= 1")
    M = math.prod(lead)
    y = (D * x).reshape(M, n, d)
    states: list[Array] = []
    decays: list[Array] = []
    last = xp.zeros((M, N, d), dtype=x.dtype) if h0 is None else h0.reshape(M, N, d)
    for span, count, chunks, length in _spans(xp, n, M * N * d):
        cut = _cut((delta, delta * x, B, C), M, n, span, count, chunks)
        left = _left(A, cut[0]) if chunks > 1 else None
        read = xp.empty_like(cut[0])
        for p in range(count):
            delta_, written, B_, C_ = (a[p] for a in cut)
            z, h = _outer(A, delta_), _products(B_, written)    # h: first what each token writes, later the states
            if exact:
                h *= _phi(z)
            decay = xp.exp(z, out=z)
            begun = xp.empty((chunks, M, N, d), dtype=x.dtype)
            begun[0] = last
            if left is not None:
                ended = h[0, :-1].copy()                        # each chunk but the last, from zeros
                for t in range(1, length):
                    ended *= decay[t, :-1]
                    ended += h[t, :-1]
                _chain(begun, left[p, :-1], ended)
            for t in range(length):                             # `begun` holds the product, as it stays in cache
                h[t] += xp.multiply(decay[t], h[t - 1] if t else begun, out=begun)
            xp.matmul(C_[..., None, :], h, out=read[p][..., None, :])
            last = h[-1, -1]
            states.append(h)
            decays.append(decay)
        y[:, span] += steps_last(read)
    return y.reshape(x.shape), ScanStates(states, decays, last.reshape(*lead, N, d))


def selective_scan_backward(
    dy: Array, x: Array, delta: Array, A: Array, B: Array, C: Array, D: Array, states: ScanStates,
    h0: Array | None = None, exact: bool = False,
) -> tuple[Array, Array, Array, Array, Array, Array, Array | None]:  # fmt: skip
    """dx_t = D ⊙ dy_t + Δ_t ⊙ (B_t G_t), with G_t = C_tᵀ dy_t + exp(Δ_{t+1} A) ⊙ G_{t+1}.

    Shapes: as in `selective_scan`, and dy like y -> dx, ddelta, dA, dB, dC, dD, dh0 (None where h0 is).
    G_t is the whole gradient of h_t. With dz_t = G_t ⊙ h_{t-1} ⊙ exp(Δ_t A), the gradient of z_t = Δ_t A:

        dC_t = h_t dy_tᵀ            dB_t = G_t (Δ_t ⊙ x_t)ᵀ          dD = Σ_t dy_t ⊙ x_t
        dA = Σ_t dz_t ⊙ Δ_t         dΔ_t = Σ_N dz_t ⊙ A + x_t ⊙ (B_t G_t)

    With `exact`, φ ⊙ G replaces G in dB and in B G, and dz has the further term G ⊙ B_tᵀ (Δ_t ⊙ x_t) ⊙ φ'(z_t).
    """
    expect("...nd ...nd ...nd md ...nm ...nm d ...md", dy=dy, x=x, delta=delta, A=A, B=B, C=C, D=D, h0=h0)
    xp, (n, d), N, M = get_xp(x), x.shape[-2:], len(A), math.prod(x.shape[:-2])
    dB, dC, BG, ddelta = (xp.empty((M, n, size), dtype=x.dtype) for size in (N, N, d, d))
    dA = xp.zeros_like(A)
    first = xp.zeros((1, M, N, d), dtype=x.dtype) if h0 is None else h0.reshape(1, M, N, d)
    back = xp.zeros((M, N, d), dtype=x.dtype)                   # exp(Δ_{t+1} A) ⊙ G_{t+1}
    place = len(states.pieces)
    for span, count, chunks, length in reversed(list(_spans(xp, n, M * N * d))):
        cut = _cut((dy, delta, delta * x, B, C), M, n, span, count, chunks)
        left = _left(A, cut[1]) if chunks > 1 else None
        dB_, dC_, BG_, ddelta_ = (xp.empty_like(cut[i]) for i in (3, 4, 1, 1))
        for p in range(count - 1, -1, -1):
            place -= 1
            dy_, delta_, written, B_, C_ = (a[p] for a in cut)
            h, decay = states.pieces[place], states.decays[place]
            begun = xp.concatenate([states.pieces[place - 1][-1, -1:] if place else first, h[-1, :-1]])
            G, carried, coming = _products(C_, dy_), xp.empty_like(h), xp.empty_like(begun)     # G: first C_tᵀ dy_t
            coming[-1] = back
            if left is not None:
                ended = G[-1, 1:] * decay[-1, 1:]               # each chunk but the first, from zeros
                for t in range(length - 2, -1, -1):
                    ended += G[t, 1:]
                    ended *= decay[t, 1:]
                _chain(coming[::-1], left[p, :0:-1], ended[::-1])
            for t in range(length - 1, -1, -1):
                G[t] += coming
                coming = xp.multiply(G[t], decay[t], out=carried[t])
            back = coming[0].copy()
            into, dz = G, carried                               # dz still lacks the factor h_{t-1}
            if exact:
                z = _outer(A, delta_)
                into = G * _phi(z)
                slope = G * _products(B_, written) * _phi_slope(z)
            xp.matmul(into, written[..., None], out=dB_[p][..., None])
            xp.matmul(B_[..., None, :], into, out=BG_[p][..., None, :])
            xp.matmul(h, dy_[..., None], out=dC_[p][..., None])  # loads h into cache for the next lines
            dz[1:] *= h[:-1]
            dz[0] *= begun
            if exact:
                dz += slope
            flat = dz.reshape(-1, N, d)
            ddelta_[p] = xp.einsum("tnd,nd->td", flat, A).reshape(delta_.shape)
            dA += xp.einsum("tnd,td->nd", flat, delta_.reshape(-1, d))
            del G, into, carried, coming, dz, flat
        for whole, part in ((dB, dB_), (dC, dC_), (BG, BG_), (ddelta, ddelta_)):
            whole[:, span] = steps_last(part)
    BG = BG.reshape(x.shape)
    dx, ddelta = D * dy + delta * BG, ddelta.reshape(x.shape) + x * BG
    dh0 = None if h0 is None else back.reshape(h0.shape)
    return dx, ddelta, dA, dB.reshape(B.shape), dC.reshape(C.shape), column_sum(dy * x), dh0


def _spans(xp: Any, n: int, width: int) -> Iterator[tuple[slice, int, int, int]]:
    """For each span: its tokens, pieces, chunks per piece, and tokens per chunk."""
    return spans(n, width, *(ON_HOST if is_numpy(xp) else ON_DEVICE))


def _cut(arrays: tuple[Array, ...], M: int, n: int, span: slice, count: int, chunks: int) -> list[Array]:
    """Each of (..., n, size) as (pieces, tokens per chunk, chunks, M, size)."""
    return [steps_first(a.reshape(M, n, a.shape[-1]), span, count, chunks) for a in arrays]


def _outer(A: Array, delta: Array) -> Array:
    """Δ_t ⊙ A: (..., d) -> (..., N, d)."""
    flat = get_xp(A).einsum("td,nd->tnd", delta.reshape(-1, delta.shape[-1]), A)
    return flat.reshape(*delta.shape[:-1], *A.shape)


def _products(keys: Array, values: Array) -> Array:
    """kᵀ v of each token: (..., N), (..., d) -> (..., N, d)."""
    N, d = keys.shape[-1], values.shape[-1]
    flat = get_xp(keys).einsum("tn,td->tnd", keys.reshape(-1, N), values.reshape(-1, d))
    return flat.reshape(*keys.shape, d)


def _left(A: Array, delta: Array) -> Array:
    """The decay over each chunk. Shapes: Δ (pieces, tokens per chunk, chunks, M, d) -> (pieces, chunks, M, N, d)."""
    xp = get_xp(A)
    return xp.exp(_outer(A, xp.sum(delta, axis=1)))


def _chain(begun: Array, left: Array, ended: Array) -> None:
    """Fill in the first states of all chunks, from that of the first chunk."""
    xp = get_xp(begun)
    for c in range(len(ended)):
        xp.multiply(left[c], begun[c], out=begun[c + 1])
        begun[c + 1] += ended[c]


def _phi(z: Array) -> Array:
    """φ(z) = (exp(z) - 1) / z, and 1 at 0."""
    xp = get_xp(z)
    safe = xp.where(z == 0, 1, z)
    return xp.where(z == 0, 1, xp.expm1(safe) / safe)


def _phi_slope(z: Array) -> Array:
    """φ'(z) = (exp(z) - φ(z)) / z; near 0, where this loses digits, it is Σ_k zᵏ (k + 1) / (k + 2)!."""
    xp = get_xp(z)
    near = xp.abs(z) < NEAR
    small, series = xp.where(near, z, 0), xp.zeros_like(z)       # powers of large z would overflow
    for k in range(10, -1, -1):
        series = series * small + (k + 1) / math.factorial(k + 2)
    safe = xp.where(near, 1, z)
    return xp.where(near, series, (xp.exp(safe) - _phi(safe)) / safe)
