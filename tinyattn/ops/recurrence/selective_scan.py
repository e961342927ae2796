"""A state space that the tokens steer: what is kept, written and read is chosen by each token (Gu & Dao 2023)."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...backend import Array, get_xp
from ..shapes import column_sum, expect
from .time import pieces, steps_first, steps_last

MOST = 1 << 17          # numbers a step, of chunks side by side: a few arrays of them stay in cache
NEAR = 0.1              # below it, φ' by its series, of eleven terms: exact to rounding in float64


class ScanStates(NamedTuple):
    """All states of a scan, and exp(Δ A), as computed: of each piece (tokens a chunk, sequences, chunks, N, d)."""

    pieces: list[Array]
    decays: list[Array]
    last: Array                        # (..., N, d): where a scan of what follows begins

    def by_token(self) -> Array:
        """(..., n, N, d)."""
        xp, parts = get_xp(self.last), [steps_last(piece) for piece in self.pieces]
        if not parts:
            return xp.zeros((*self.last.shape[:-2], 0, *self.last.shape[-2:]), dtype=self.last.dtype)
        states = xp.concatenate(parts, axis=1)
        return states.reshape(*self.last.shape[:-2], *states.shape[1:])


def selective_scan(
    x: Array, delta: Array, A: Array, B: Array, C: Array, D: Array, h0: Array | None = None, exact: bool = False
) -> tuple[Array, ScanStates]:
    """y_t = C_t h_t + D ⊙ x_t, with h_t = exp(Δ_t A) ⊙ h_{t-1} + B_tᵀ (Δ_t ⊙ x_t).

    Every channel of x has N states. Δ_t says how long the token lasts: with Δ = 0 the state stays as it is; with a
    large one, where A is negative, nothing of it is left, and the token is written in. B_t is a key, C_t a query and
    Δ x a value: without the decay, h would be the sum of kᵀ v of linear attention. The differential equation
    h' = A h + B x, with x held for a time Δ, has this decay exactly, and φ(Δ A) ⊙ B_tᵀ (Δ_t ⊙ x_t) as its input, with
    φ(z) = (exp(z) - 1) / z: `exact`, the paper's equation 4. The paper's code has 1 for φ, as here without `exact`.

    A long sequence goes as chunks side by side: each chunk's last state is found from a state of zeros; these are
    chained; then each chunk runs from the state that it really begins with. All states are kept, and their decays:
    2 n N d numbers.

    Shapes: x and delta (..., n, d), A (N, d), B and C (..., n, N), D (d,), h0 (..., N, d) or None for zeros
    -> y (..., n, d), states: `ScanStates`.
    Raises ValueError for shapes that do not fit, TypeError for dtypes other than float32 / float64.
    """
    expect("...nd ...nd md ...nm ...nm d ...md", x=x, delta=delta, A=A, B=B, C=C, D=D, h0=h0)
    xp, lead, (n, d), N = get_xp(x), x.shape[:-2], x.shape[-2:], len(A)
    M = math.prod(lead)
    y = (D * x).reshape(M, n, d)
    states: list[Array] = []
    decays: list[Array] = []
    h = xp.zeros((M, N, d), dtype=x.dtype) if h0 is None else h0.reshape(M, N, d)
    for piece, chunks, length in pieces(n, M * N * d, MOST):
        delta_, written, B_, C_ = _cut((delta, delta * x, B, C), M, n, piece, chunks)
        made, decay = (xp.empty((length, M, chunks, N, d), dtype=x.dtype) for _ in range(2))
        last, scratch = (xp.zeros((M, chunks, N, d), dtype=x.dtype) for _ in range(2))
        for t in range(length):
            z = xp.multiply(delta_[t][..., None, :], A, out=decay[t])
            coming = xp.multiply(B_[t][..., None], written[t][..., None, :], out=made[t])
            if exact:
                coming *= _phi(z)
            xp.exp(z, out=z)
            if chunks > 1:
                last *= z
                last += coming
        begun = xp.empty_like(last)
        whole = xp.exp(xp.sum(delta_, axis=0)[..., None, :] * A)
        for c in range(chunks):
            begun[:, c] = h
            h = whole[:, c] * h + last[:, c]
        read = xp.empty_like(delta_)
        for t in range(length):
            xp.multiply(decay[t], begun, out=scratch)
            begun = made[t]
            begun += scratch
            xp.matmul(C_[t][..., None, :], begun, out=read[t][..., None, :])
        y[:, piece] += steps_last(read)
        h = begun[:, -1]
        states.append(made)
        decays.append(decay)
    return y.reshape(x.shape), ScanStates(states, decays, h.reshape(*lead, N, d))


def selective_scan_backward(
    dy: Array, x: Array, delta: Array, A: Array, B: Array, C: Array, D: Array, states: ScanStates,
    h0: Array | None = None, exact: bool = False,
) -> tuple[Array, Array, Array, Array, Array, Array, Array | None]:  # fmt: skip
    """dx_t = D ⊙ dy_t + Δ_t ⊙ (B_t G_t), with G_t = C_tᵀ dy_t + exp(Δ_{t+1} A) ⊙ G_{t+1}.

    Shapes: as in `selective_scan`, and dy like y -> dx, ddelta, dA, dB, dC, dD, dh0 (None where h0 is).
    G_t is all that comes back to the state h_t. With dz_t = G_t ⊙ h_{t-1} ⊙ exp(Δ_t A), the gradient of z_t = Δ_t A:

        dC_t = h_t dy_tᵀ            dB_t = G_t (Δ_t ⊙ x_t)ᵀ          dD = Σ_t dy_t ⊙ x_t
        dA = Σ_t dz_t ⊙ Δ_t         dΔ_t = Σ_N dz_t ⊙ A + x_t ⊙ (B_t G_t)

    Where the input is `exact`, φ ⊙ G stands for G in dB and in B G, and dz has G ⊙ B_tᵀ (Δ_t ⊙ x_t) ⊙ φ'(z_t) as well.
    """
    expect("...nd ...nd ...nd md ...nm ...nm d ...md", dy=dy, x=x, delta=delta, A=A, B=B, C=C, D=D, h0=h0)
    xp, (n, d), N, M = get_xp(x), x.shape[-2:], len(A), math.prod(x.shape[:-2])
    dB, dC, BG, ddelta = (xp.empty((M, n, size), dtype=x.dtype) for size in (N, N, d, d))
    dA = xp.zeros_like(A)
    first = xp.zeros((M, 1, N, d), dtype=x.dtype) if h0 is None else h0.reshape(M, 1, N, d)
    G = xp.zeros((M, N, d), dtype=x.dtype)
    cuts = list(pieces(n, M * N * d, MOST))
    for place, (piece, chunks, length) in reversed(list(enumerate(cuts))):
        dy_, delta_, written, B_, C_ = _cut((dy, delta, delta * x, B, C), M, n, piece, chunks)
        h, before = states.pieces[place], states.pieces[place - 1][-1, :, -1:] if place else first
        begun = xp.concatenate([before, h[-1, :, :-1]], axis=1)                 # the state before each chunk
        decay, last, scratch = states.decays[place], xp.zeros_like(begun), xp.empty_like(begun)
        for t in range(length - 1, -1, -1) if chunks > 1 else ():
            last += xp.multiply(C_[t][..., None], dy_[t][..., None, :], out=scratch)
            last *= decay[t]
        back = xp.empty_like(last)                              # exp(Δ_{t+1} A) ⊙ G_{t+1}
        whole = xp.exp(xp.sum(delta_, axis=0)[..., None, :] * A)
        for c in range(chunks - 1, -1, -1):
            back[:, c] = G
            G = whole[:, c] * G + last[:, c]
        dB_, dC_, BG_, ddelta_ = (xp.empty_like(a) for a in (B_, C_, delta_, delta_))
        for t in range(length - 1, -1, -1):
            back += xp.multiply(C_[t][..., None], dy_[t][..., None, :], out=scratch)        # now G_t
            xp.matmul(h[t], dy_[t][..., None], out=dC_[t][..., None])
            z = delta_[t][..., None, :] * A if exact else None
            into = back * _phi(z) if exact else back
            xp.matmul(B_[t][..., None, :], into, out=BG_[t][..., None, :])
            xp.matmul(into, written[t][..., None], out=dB_[t][..., None])
            if exact:
                slope = back * (B_[t][..., None] * written[t][..., None, :]) * _phi_slope(z)
            back *= decay[t]                                    # what comes to h_{t-1}
            dz = xp.multiply(back, h[t - 1] if t else begun, out=scratch)
            if exact:
                dz += slope
            ddelta_[t] = xp.einsum("mcnd,nd->mcd", dz, A)
            dA += xp.einsum("mcnd,mcd->nd", dz, delta_[t])
        G = back[:, 0]
        for whole_, part in ((dB, dB_), (dC, dC_), (BG, BG_), (ddelta, ddelta_)):
            whole_[:, piece] = steps_last(part)
    BG = BG.reshape(x.shape)
    dx, ddelta = D * dy + delta * BG, ddelta.reshape(x.shape) + x * BG
    dh0 = None if h0 is None else G.reshape(h0.shape)
    return dx, ddelta, dA, dB.reshape(B.shape), dC.reshape(C.shape), column_sum(dy * x), dh0


def _cut(arrays: tuple[Array, ...], M: int, n: int, piece: slice, chunks: int) -> list[Array]:
    """Each of (..., n, size) as (tokens a chunk, M, chunks, size)."""
    return [steps_first(a.reshape(M, n, a.shape[-1]), piece, chunks) for a in arrays]


def _phi(z: Array) -> Array:
    """φ(z) = (exp(z) - 1) / z, and 1 at 0."""
    xp = get_xp(z)
    safe = xp.where(z == 0, 1, z)
    return xp.where(z == 0, 1, xp.expm1(safe) / safe)


def _phi_slope(z: Array) -> Array:
    """φ'(z) = (exp(z) - φ(z)) / z, and near 0, where that loses its digits, Σ_k zᵏ (k + 1) / (k + 2)!."""
    xp = get_xp(z)
    near = xp.abs(z) < NEAR
    series = xp.zeros_like(z)
    for k in range(10, -1, -1):
        series = series * z + (k + 1) / math.factorial(k + 2)
    safe = xp.where(near, 1, z)
    return xp.where(near, series, (xp.exp(safe) - _phi(safe)) / safe)
