"""Long short-term memory: a second state, which adds up what a gate lets in (Hochreiter & Schmidhuber 1997)."""

from ...backend import Array, get_xp
from ..shapes import column_sum, expect
from .time import time_first, time_last


def lstm(
    x: Array, W: Array, U: Array, b: Array, h0: Array | None = None, c0: Array | None = None
) -> tuple[Array, Array, Array]:
    """h_t = o_t ⊙ tanh(c_t), with c_t = f_t ⊙ c_{t-1} + i_t ⊙ g_t.

    The cell c is the memory, and h the output.

        i_t, f_t, o_t = σ(x_t W + h_{t-1} U + b)                the input, forget and output gates
        g_t = tanh(x_t W + h_{t-1} U + b)                       the candidate, with separate columns

    W, U and b hold the columns of i, f, o and g side by side. Without f nothing is forgotten, c_t = c_{t-1} +
    i_t ⊙ g_t: the form of 1997, in which the gradient passes from cell to cell unchanged. The forget gate is by Gers,
    Schmidhuber & Cummins (2000).

    Shapes: x (..., n, i), W (i, 4 H), U (H, 4 H), b (4 H,), or 3 H without forget gate, h0 and c0 (..., H) or None
    for zeros -> h (..., n, H), c (..., n, H), gates (..., n, 4 H or 3 H): i, f, o and g.
    Raises ValueError for shapes that do not fit, TypeError for dtypes other than float32 / float64.
    """
    expect("...ni io ho o ...h ...h", x=x, W=W, U=U, b=b, h0=h0, c0=c0)
    xp, (*lead, n, _), H = get_xp(x), x.shape, U.shape[0]
    if not H or W.shape[1] not in (3 * H, 4 * H):
        raise ValueError(f"lstm: U has shape {U.shape}, expected (H, 4 H), or (H, 3 H) without forget gate, H >= 1")
    gates = time_first(x) @ W                                   # (n, N, 4 H), with N sequences
    gates += b
    N, squashed = gates.shape[1], W.shape[1] - H
    h, c = (xp.empty((n, N, H), dtype=x.dtype) for _ in range(2))
    state, cell = (xp.zeros((N, H), dtype=x.dtype) if a is None else a.reshape(N, H) for a in (h0, c0))
    for t in range(n):
        u = gates[t]
        u += state @ U
        ifo, g = u[:, :squashed], u[:, squashed:]
        ifo *= 0.5                                              # σ(u) = (1 + tanh(u / 2)) / 2
        xp.tanh(u, out=u)
        ifo *= 0.5
        ifo += 0.5
        i, o = u[:, :H], u[:, squashed - H : squashed]
        kept = u[:, H : 2 * H] * cell if squashed == 3 * H else cell
        cell = xp.multiply(i, g, out=c[t])
        cell += kept
        state = xp.multiply(o, xp.tanh(cell), out=h[t])
    return xp.ascontiguousarray(time_last(h, lead)), time_last(c, lead), time_last(gates, lead)


def lstm_backward(
    dh: Array, x: Array, W: Array, U: Array, h: Array, c: Array, gates: Array,
    h0: Array | None = None, c0: Array | None = None, *, dc: Array | None = None,
) -> tuple[Array, Array, Array, Array, Array | None, Array | None]:  # fmt: skip
    """k_t = s_t ⊙ o_t ⊙ (1 - tanh²(c_t)) + f_{t+1} ⊙ k_{t+1} + dc_t, with s_t = dh_t + du_{t+1} Uᵀ.

    Shapes: as in `lstm`, dh like h, and dc like c, None where nothing else reads the cells
    -> dx, dW, dU, db, dh0, dc0 (None where h0 and c0 are).
    s_t is the whole gradient of h_t = o ⊙ tanh(c), and k_t that of c_t. From cell to cell the gradient is multiplied by
    f alone, and by no matrix: with f near 1 it neither vanishes nor explodes. The arguments u of the four functions
    receive

        du_i = k ⊙ g i (1 - i)         du_f = k ⊙ c_{t-1} f (1 - f)
        du_g = k ⊙ i (1 - g²)          du_o = s ⊙ tanh(c) o (1 - o)

    The factors beside k_t and s_t do not depend on them, and are computed for all times at once.
    """
    expect("...nh ...ni io ho ...nh ...nh ...no ...h ...h ...nh",
           dh=dh, x=x, W=W, U=U, h=h, c=c, gates=gates, h0=h0, c0=c0, dc=dc)  # fmt: skip
    xp, (*lead, n, width), H = get_xp(x), x.shape, U.shape[0]
    x, dh, h, c, gates = (time_first(a) for a in (x, dh, h, c, gates))
    read = None if dc is None else time_first(dc)
    N, columns = x.shape[1], W.shape[1]
    zeros = xp.zeros((1, N, H), dtype=h.dtype)
    states = xp.concatenate([zeros if h0 is None else h0.reshape(1, N, H), h[:-1]])[:n]
    cells = xp.concatenate([zeros if c0 is None else c0.reshape(1, N, H), c[:-1]])[:n]
    parts = gates.reshape(n, N, columns // H, H)
    i, o, g = parts[:, :, 0], parts[:, :, -2], parts[:, :, -1]
    forgets = columns == 4 * H
    tanh_c = xp.tanh(c)
    shown = o * (1 - tanh_c * tanh_c)
    du = xp.empty((n, N, columns // H, H), dtype=h.dtype)       # the factors beside k and s; after the loop, du
    du[:, :, 0] = g * (i * (1 - i))
    du[:, :, -2] = tanh_c * (o * (1 - o))
    du[:, :, -1] = i * (1 - g * g)
    if forgets:
        f = parts[:, :, 1]
        du[:, :, 1] = cells * (f * (1 - f))
    back, k = xp.zeros((N, H), dtype=h.dtype), xp.zeros((N, H), dtype=h.dtype)
    for t in range(n - 1, -1, -1):
        s = dh[t] + back
        k = k + s * shown[t]                                    # h = o tanh(c)
        if read is not None:
            k += read[t]
        output = du[t, :, -2] * s
        du[t] *= k[:, None, :]
        du[t, :, -2] = output
        back = du[t].reshape(N, columns) @ U.T                  # h_{t-1} U
        if forgets:
            k = k * f[t]                                        # f c_{t-1}
    du = du.reshape(n * N, columns)
    dU = states.reshape(n * N, H).T @ du
    dW = x.reshape(n * N, width).T @ du
    dx = (du @ W.T).reshape(n, N, width)
    dh0, dc0 = (None if a is None else d.reshape(a.shape) for a, d in ((h0, back), (c0, k)))
    return time_last(dx, lead), dW, dU, column_sum(du), dh0, dc0
