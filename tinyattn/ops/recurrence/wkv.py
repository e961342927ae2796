"""RWKV's mean of values: weights that decay with time, and no queries (Peng et al. 2023, equation 16)."""

import math

from ...backend import Array, get_xp
from ..shapes import column_sum, expect
from ..sigmoid import sigmoid
from .time import side_by_side, spans

MOST = 1 << 12          # numbers per step, of chunks side by side: a few such arrays stay in cache


def wkv(
    k: Array, v: Array, w: Array, u: Array, mean0: Array | None = None, size0: Array | None = None
) -> tuple[Array, Array, Array]:
    """y_t = Σ_s p_ts v_s, with p_ts = exp(l_ts) / Σ_r exp(l_tr), l_tt = k_t + u and l_ts = k_s - (t - 1 - s) w.

    Over all s <= t, in each channel. A logit loses w with every later token; u is added to the logit of the
    token itself. As a recurrence, with the mean m of all values so far and the logarithm z of the sum of their weights:

        y_t = m_{t-1} + ρ_t (v_t - m_{t-1})        ρ_t = σ(k_t + u - z_{t-1})
        m_t = m_{t-1} + γ_t (v_t - m_{t-1})        γ_t = σ(k_t - z_{t-1} + w)
        z_t = log(exp(z_{t-1} - w) + exp(k_t))     nothing so far: m = 0, z = -inf

    The paper carries numerator and denominator, with a common exponent. Here nothing overflows, because the mean is of
    the size of the values: adding 800 to all k only adds 800 to all z. A long sequence is computed as chunks side by
    side, each as if it were the first. Then the state before each chunk is mixed in by the same rule.

    Shapes: k and v (..., n, d), w (d,) >= 0, u (d,), mean0 and size0 (..., d), m and z of what came before, or None
    -> y (..., n, d), mean (..., n, d), size (..., n, d): m_t and z_t.
    Raises ValueError for shapes that do not fit and for one of mean0 and size0 alone, TypeError for dtypes other than
    float32 / float64.
    """
    expect("...nd ...nd d d ...d ...d", k=k, v=v, w=w, u=u, mean0=mean0, size0=size0)
    xp, (n, d), N = get_xp(k), k.shape[-2:], math.prod(k.shape[:-2])
    keys, values = k.reshape(N, n, d), v.reshape(N, n, d)
    mean, size = (xp.zeros((N, n, d), dtype=k.dtype) for _ in range(2))
    before = _start("wkv", k, mean0, size0)
    m0, z0 = before
    for span, _, chunks, length in spans(n, N * d, MOST):
        k_, v_, m, z = (side_by_side(a, span, chunks) for a in (keys, values, mean, size))
        m[:, :, 0], z[:, :, 0] = v_[:, :, 0], k_[:, :, 0]
        for j in range(1, length):
            left = z[:, :, j - 1] - w
            m[:, :, j] = _mixed(m[:, :, j - 1], left, v_[:, :, j], k_[:, :, j])
            xp.logaddexp(left, k_[:, :, j], out=z[:, :, j])
        lost = w * xp.arange(1, length + 1, dtype=k.dtype)[:, None]
        for c in range(chunks):
            m[:, c] = _mixed(m0, z0 - lost, m[:, c], z[:, c])
            xp.logaddexp(z0 - lost, z[:, c], out=z[:, c])
            m0, z0 = m[:, c, -1:], z[:, c, -1:]
    m, z = _before(before, mean, size)
    y = _mixed(m, z, values, keys + u)
    return y.reshape(k.shape), mean.reshape(k.shape), size.reshape(k.shape)


def wkv_backward(
    dy: Array, k: Array, v: Array, w: Array, u: Array, mean: Array, size: Array,
    mean0: Array | None = None, size0: Array | None = None,
) -> tuple[Array, Array, Array, Array, Array | None, Array | None]:  # fmt: skip
    """dk_t = a_t + b_t + γ_t Z_t, and dv_t = ρ_t dy_t + γ_t M_t.

    Shapes: as in `wkv`, and dy like y -> dk, dv, dw, du, dmean0, dsize0 (None where mean0 and size0 are).
    M_t and Z_t are the gradients of m_t and z_t. With e_t = v_t - m_{t-1}, the arguments of the two σ receive
    a_t = dy_t e_t ρ_t (1 - ρ_t) and b_t = M_t e_t γ_t (1 - γ_t):

        M_{t-1} = (1 - γ_t) M_t + (1 - ρ_t) dy_t
        Z_{t-1} = (1 - γ_t) Z_t - b_t - a_t
        du = Σ_t a_t        dw = Σ_t b_t - (1 - γ_t) Z_t

    Both are linear in M and Z, so chunks can be computed side by side. First each chunk is computed from M = Z = 0,
    together with its factors of M and Z. These give the true M and Z at the end of each chunk, from which the chunk is
    computed again.
    """
    expect("...nd ...nd ...nd d d ...nd ...nd ...d ...d",
           dy=dy, k=k, v=v, w=w, u=u, mean=mean, size=size, mean0=mean0, size0=size0)  # fmt: skip
    xp, (n, d), N, shape = get_xp(k), k.shape[-2:], math.prod(k.shape[:-2]), k.shape
    dy, k, v, mean, size = (x.reshape(N, n, d) for x in (dy, k, v, mean, size))
    m, z = _before(_start("wkv_backward", k, mean0, size0), mean, size)
    e, rho, gamma = v - m, sigmoid(k + u - z), sigmoid(k - z + w)
    a = dy * e * rho * (1 - rho)
    keep, bend = 1 - gamma, e * gamma * (1 - gamma)             # b_t = M_t bend_t
    M, Z = (xp.zeros_like(k) for _ in range(2))
    M0, Z0 = (xp.zeros((N, d), dtype=k.dtype) for _ in range(2))
    for span, _, chunks, length in reversed(list(spans(n, N * d, MOST))):
        known = [side_by_side(x, span, chunks) for x in (keep, bend, (1 - rho) * dy, a)]
        steps = [[x[:, :, j] for x in known] for j in range(length - 1, -1, -1)]
        M_, Z_ = (xp.zeros((N, chunks, d), dtype=k.dtype) for _ in range(2))
        made = _of_chunks(steps) if chunks > 1 else ()
        for c in range(chunks - 1, -1, -1):
            M_[:, c], Z_[:, c] = M0, Z0                         # from the next chunk
            if c:
                e_M, e_Z, Q, X = (x[:, c] for x in made)
                M0, Z0 = e_M + Q * M0, e_Z + Q * Z0 + X * M0
        into_M, into_Z = (side_by_side(x, span, chunks) for x in (M, Z))
        for j, step in zip(range(length - 1, -1, -1), steps, strict=True):
            into_M[:, :, j], into_Z[:, :, j] = M_, Z_
            M_, Z_ = _earlier(M_, Z_, *step)
        M0, Z0 = M_[:, 0], Z_[:, 0]
    b = M * bend
    dk, dv = a + b + gamma * Z, rho * dy + gamma * M
    dw, du = column_sum(b - keep * Z), column_sum(a)
    dmean0, dsize0 = (None if x is None else g.reshape(x.shape) for x, g in ((mean0, M0), (size0, Z0)))
    return dk.reshape(shape), dv.reshape(shape), dw, du, dmean0, dsize0


def _earlier(M: Array, Z: Array, keep: Array, bend: Array, from_y: Array, from_rho: Array) -> tuple[Array, Array]:
    """The gradients of mean and size one token earlier."""
    return keep * M + from_y, keep * Z - bend * M - from_rho


def _of_chunks(steps: list[list[Array]]) -> tuple[Array, Array, Array, Array]:
    """M and Z before each chunk if they are 0 at its end, and their factors otherwise: Q, and X of M in Z."""
    xp = get_xp(steps[0][0])
    e_M, e_Z, X = (xp.zeros_like(steps[0][0]) for _ in range(3))
    Q = xp.ones_like(e_M)
    for keep, bend, from_y, from_rho in steps:
        e_M, e_Z = _earlier(e_M, e_Z, keep, bend, from_y, from_rho)
        Q, X = keep * Q, keep * X - bend * Q
    return e_M, e_Z, Q, X


def _start(op: str, k: Array, mean0: Array | None, size0: Array | None) -> tuple[Array, Array]:
    """Mean and size before the first token, (N, 1, d): by default 0 and -inf."""
    if (mean0 is None) != (size0 is None):
        missing, given = ("mean0", "size0") if mean0 is None else ("size0", "mean0")
        raise ValueError(f"{op}: {given} is given and {missing} is not, expected both or neither")
    xp, shape = get_xp(k), (math.prod(k.shape[:-2]), 1, k.shape[-1])
    mean = xp.zeros(shape, dtype=k.dtype) if mean0 is None else mean0.reshape(shape)
    return mean, xp.full(shape, -math.inf, dtype=k.dtype) if size0 is None else size0.reshape(shape)


def _before(first: tuple[Array, Array], mean: Array, size: Array) -> list[Array]:
    """m and z before each token."""
    n = mean.shape[1]
    return [get_xp(mean).concatenate([x, y[:, :-1]], axis=1)[:, :n] for x, y in zip(first, (mean, size), strict=True)]


def _mixed(mean: Array, size: Array, value: Array, logit: Array) -> Array:
    """The mean with one more value of this logit; `size` is the logarithm of the sum of weights so far."""
    return mean + sigmoid(logit - size) * (value - mean)
