"""The gated recurrent unit: a state that is carried from token to token (Cho et al. 2014, equations 5 to 8)."""

from ...backend import Array, get_xp
from ..shapes import column_sum, expect
from .time import time_first, time_last


def gru(
    x: Array, W: Array, U: Array, b: Array, c: Array, h0: Array | None = None
) -> tuple[Array, Array, Array]:
    """h_t = (1 - z_t) ⊙ n_t + z_t ⊙ h_{t-1}.

    z_t is the share of the state that is kept, and n_t replaces the rest.

        r_t = σ(x_t W_r + b_r + h_{t-1} U_r + c_r)              the reset gate
        z_t = σ(x_t W_z + b_z + h_{t-1} U_z + c_z)              the update gate
        n_t = tanh(x_t W_n + b_n + r_t ⊙ (h_{t-1} U_n + c_n))   the candidate

    W, U, b and c hold the columns of r, z and n side by side. In Cho's original r acts before the product: (r ⊙ h) U_n.
    Here, as in PyTorch, it acts after it, so that the three products of h are one. Those of x are one, too, computed
    before the loop over time.

    Shapes: x (..., n, i), W (i, 3 H), U (H, 3 H), b and c (3 H,), h0 (..., H) or None for zeros
    -> h (..., n, H), gates (..., n, 3 H): r, z and n, recalled (..., n, H): h_{t-1} U_n + c_n.
    Raises ValueError for shapes that do not fit, TypeError for dtypes other than float32 / float64.
    """
    expect("...ni io ho o o ...h", x=x, W=W, U=U, b=b, c=c, h0=h0)
    xp, (*lead, n, _), H = get_xp(x), x.shape, U.shape[0]
    if not H or W.shape[1] != 3 * H:
        raise ValueError(f"gru: U has shape {U.shape}, expected (H, 3 H), H >= 1")
    gates = time_first(x) @ W                                  # (n, N, 3 H), with N sequences
    gates += b
    gates[..., : 2 * H] += c[: 2 * H]
    N = gates.shape[1]
    recalled, h = (xp.empty((n, N, H), dtype=x.dtype) for _ in range(2))
    state = xp.zeros((N, H), dtype=x.dtype) if h0 is None else h0.reshape(N, H)
    for t in range(n):
        from_state = state @ U                                  # (N, H) @ (H, 3 H)
        rz = gates[t, :, : 2 * H]
        rz += from_state[:, : 2 * H]
        rz *= 0.5                                               # σ(u) = (1 + tanh(u / 2)) / 2
        xp.tanh(rz, out=rz)
        rz *= 0.5
        rz += 0.5
        r, z, new = gates[t, :, :H], gates[t, :, H : 2 * H], gates[t, :, 2 * H :]
        xp.add(from_state[:, 2 * H :], c[2 * H :], out=recalled[t])
        new += r * recalled[t]
        xp.tanh(new, out=new)
        state = xp.multiply(z, state, out=h[t])
        state += (1 - z) * new
    return xp.ascontiguousarray(time_last(h, lead)), time_last(gates, lead), time_last(recalled, lead)


def gru_backward(
    dh: Array, x: Array, W: Array, U: Array, h: Array, gates: Array, recalled: Array, h0: Array | None = None
) -> tuple[Array, Array, Array, Array, Array, Array | None]:
    """Gradients of `gru`, through time. Shapes: as there, and dh like h -> dx, dW, dU, db, dc, dh0 (None where h0 is).

    Let g be the whole gradient of h_t, from the loss and from the next state. The forward's last line gives
    dz = g ⊙ (h_{t-1} - n) and dn = g ⊙ (1 - z). With σ' = σ (1 - σ) and tanh' = 1 - tanh², the arguments u of the
    three functions have the gradients

        du_n = g ⊙ (1 - z) (1 - n²)
        du_z = g ⊙ (h_{t-1} - n) z (1 - z)
        du_r = du_n ⊙ recalled r (1 - r)

    The factors beside g do not depend on it, and are computed for all times at once. The loop, from the last token to
    the first, computes g_{t-1} = dh_{t-1} + g_t ⊙ z_t + [du_r, du_z, r ⊙ du_n] Uᵀ. All other gradients are products
    over all tokens, after the loop.
    """
    expect("...nh ...ni io ho ...nh ...no ...nh ...h",
           dh=dh, x=x, W=W, U=U, h=h, gates=gates, recalled=recalled, h0=h0)  # fmt: skip
    xp, (*lead, n, i), H = get_xp(x), x.shape, U.shape[0]
    x, dh, h, gates, recalled = (time_first(a) for a in (x, dh, h, gates, recalled))
    N = x.shape[1]
    r, z, new = gates[..., :H], gates[..., H : 2 * H], gates[..., 2 * H :]
    first = xp.zeros((1, N, H), dtype=h.dtype) if h0 is None else h0.reshape(1, N, H)
    before = xp.concatenate([first, h[:-1]])[:n]                # (n, N, H): the states that were multiplied by U
    to_new = (1 - z) * (1 - new * new)
    du = xp.empty((n, N, 3, H), dtype=h.dtype)                  # the factors beside g; after the loop, du
    du[:, :, 0] = to_new * recalled * (r * (1 - r))
    du[:, :, 1] = (before - new) * (z * (1 - z))
    du[:, :, 2] = to_new * r
    g_all = dh.copy()
    back = xp.zeros((N, H), dtype=h.dtype)
    for t in range(n - 1, -1, -1):
        g = g_all[t]
        g += back
        du[t] *= g[:, None, :]
        back = du[t].reshape(N, 3 * H) @ U.T                    # h_{t-1} U
        back += g * z[t]                                        # z ⊙ h_{t-1}
    du = du.reshape(n * N, 3 * H)
    dU = before.reshape(n * N, H).T @ du
    dc = column_sum(du)
    du[:, 2 * H :] = (g_all * to_new).reshape(n * N, H)         # r does not multiply x W_n
    dW = x.reshape(n * N, i).T @ du
    dx = (du @ W.T).reshape(n, N, i)
    return time_last(dx, lead), dW, dU, column_sum(du), dc, None if h0 is None else back.reshape(h0.shape)
