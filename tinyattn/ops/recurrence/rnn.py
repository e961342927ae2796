"""The simple recurrent network: the state is tanh of maps of the last state and the token, added (Elman 1990)."""

from ...backend import Array, get_xp
from ..shapes import column_sum, expect
from .time import time_first, time_last


def rnn(x: Array, W: Array, U: Array, b: Array, h0: Array | None = None) -> Array:
    """h_t = tanh(x_t W + b + h_{t-1} U).

    Shapes: x (..., n, i), W (i, H), U (H, H), b (H,), h0 (..., H) or None for zeros -> h (..., n, H).
    Raises ValueError for shapes that do not fit, TypeError for dtypes other than float32 / float64.
    """
    expect("...ni ih kh h ...h", x=x, W=W, U=U, b=b, h0=h0)
    xp, (*lead, n, _), H = get_xp(x), x.shape, U.shape[0]
    if not H or U.shape[1] != H:
        raise ValueError(f"rnn: U has shape {U.shape}, expected (H, H), H >= 1")
    h = time_first(x) @ W                                       # (n, N, H), with N sequences
    h += b
    state = xp.zeros(h.shape[1:], dtype=x.dtype) if h0 is None else h0.reshape(-1, H)
    for t in range(n):
        h[t] += state @ U
        state = xp.tanh(h[t], out=h[t])
    return xp.ascontiguousarray(time_last(h, lead))


def rnn_backward(
    dh: Array, x: Array, W: Array, U: Array, h: Array, h0: Array | None = None
) -> tuple[Array, Array, Array, Array, Array | None]:
    """du_t = g_t ⊙ (1 - h_t²), with g_t = dh_t + du_{t+1} Uᵀ, and dx_t = du_t Wᵀ.

    Shapes: as in `rnn`, and dh like h -> dx, dW, dU, db, dh0 (None where h0 is).
    g_t is the whole gradient of h_t, from the loss and from the next state, and du_t that of tanh's argument. Over k
    steps g is multiplied k times by diag(1 - h²) Uᵀ: it vanishes or explodes exponentially (Bengio et al. 1994).
    """
    expect("...nh ...ni ih hh ...nh ...h", dh=dh, x=x, W=W, U=U, h=h, h0=h0)
    xp, (*lead, n, i), H = get_xp(x), x.shape, U.shape[0]
    x, dh, h = (time_first(a) for a in (x, dh, h))
    N = x.shape[1]
    first = xp.zeros((1, N, H), dtype=h.dtype) if h0 is None else h0.reshape(1, N, H)
    du = 1 - h * h
    back = xp.zeros((N, H), dtype=h.dtype)
    for t in range(n - 1, -1, -1):
        du[t] *= dh[t] + back
        back = du[t] @ U.T                                      # h_{t-1} U
    du = du.reshape(n * N, H)
    dU = xp.concatenate([first, h[:-1]])[:n].reshape(n * N, H).T @ du
    dW = x.reshape(n * N, i).T @ du
    dx = (du @ W.T).reshape(n, N, i)
    return time_last(dx, lead), dW, dU, column_sum(du), None if h0 is None else back.reshape(h0.shape)
