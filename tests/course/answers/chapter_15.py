"""Answers to the exercises of chapter 15."""

import numpy as np

from tinyattn.course.exercises.chapter_15 import WRONG_BACKWARD, WRONG_RNN

# --- my_rnn ---------------------------------------------------------------------------------------------------------


def stacked(x, W, U):
    h, states = np.zeros_like(x[..., 0, :] @ W), []
    for t in range(x.shape[-2]):
        h = np.tanh(x[..., t, :] @ W + h @ U)
        states.append(h)
    return np.stack(states, axis=-2)


def zeros(x, W, U):
    """float64 for float32."""
    h = np.zeros((*x.shape[:-1], U.shape[0]))
    for t in range(x.shape[-2]):
        last = h[..., t - 1, :] if t else 0
        h[..., t, :] = np.tanh(x[..., t, :] @ W + (last @ U if t else 0))
    return h


def einsum(x, W, U):
    h, states = 0 * np.einsum("...i,ij->...j", x[..., 0, :], W), []
    for t in range(x.shape[-2]):
        h = np.tanh(np.einsum("...i,ij->...j", x[..., t, :], W) + np.einsum("...i,ij->...j", h, U))
        states.append(h)
    return np.concatenate([s[..., None, :] for s in states], axis=-2)


def by_loops(x, W, U):
    """One number at a time; a flat batch; a list of lists."""
    batch, d = x.reshape(-1, *x.shape[-2:]), len(U)
    out = []
    for tokens in batch:
        h, states = [0.0] * d, []
        for token in tokens:
            h = [
                np.tanh(sum(token[i] * W[i, j] for i in range(len(W))) + sum(h[i] * U[i, j] for i in range(d)))
                for j in range(d)
            ]
            states.append(h)
        out.append(states)
    return np.array(out).reshape(*x.shape[:-1], d)


def turned(x, W, U):
    h, states = np.zeros(U.shape[0], x.dtype), []
    for t in range(x.shape[-2]):
        h = np.tanh((U.T @ np.broadcast_to(h, (*x.shape[:-2], len(U)))[..., None])[..., 0] + x[..., t, :] @ W)
        states.append(h)
    return np.swapaxes(np.array(states), 0, -2) if x.ndim == 2 else np.moveaxis(np.array(states), 0, -2)


def one_product_first(x, W, U):
    h = x @ W
    for t in range(h.shape[-2]):
        if t > 0:
            h[..., t, :] += h[..., t - 1, :] @ U
        np.tanh(h[..., t, :], out=h[..., t, :])
    return h


def into_its_input(x, W, U):
    h = np.zeros(U.shape[0])
    states = []
    x[...] = 1 * x
    for token in np.moveaxis(x, -2, 0):
        h = np.tanh(token @ W + h @ U)
        states += [h]
        token *= 0
    return np.stack(states, -2)


# --- my_rnn_backward ------------------------------------------------------------------------------------------------


def flat_sum(a, b):
    return a.reshape(-1, a.shape[-1]).T @ b.reshape(-1, b.shape[-1])


def all_ds(dh, U, h):
    ds, later = np.zeros_like(h), 0
    for t in range(h.shape[-2] - 1, -1, -1):
        ds[..., t, :] = (dh[..., t, :] + later) * (1 - h[..., t, :] ** 2)
        later = ds[..., t, :] @ U.T
    return ds


def three_products(dh, x, W, U, h):
    ds = all_ds(dh, U, h)
    before = np.concatenate([np.zeros_like(h[..., :1, :]), h[..., :-1, :]], axis=-2)
    return ds @ W.T, flat_sum(x, ds), flat_sum(before, ds)


def adding_up(dh, x, W, U, h):
    """A sum in every step, in float64, as a list."""
    dx, dW, dU = np.zeros(x.shape), np.zeros(W.shape), np.zeros(U.shape)
    later = np.zeros(h[..., 0, :].shape)
    for t in reversed(range(h.shape[-2])):
        ds = (dh[..., t, :] + later) * (1 - h[..., t, :]) * (1 + h[..., t, :])
        dx[..., t, :] = ds @ W.T
        dW += flat_sum(x[..., t, :], ds)
        if t:
            dU += flat_sum(h[..., t - 1, :], ds)
        later = ds @ U.T
    return [dx, dW, dU]


def with_einsum(dh, x, W, U, h):
    ds = all_ds(dh, U, h)
    flat_ds, flat_x, flat_h = (a.reshape(-1, *a.shape[-2:]) for a in (ds, x, h))
    dU = np.einsum("bti,btj->ij", flat_h[:, :-1], flat_ds[:, 1:])
    return np.einsum("...j,ij->...i", ds, W), np.einsum("bti,btj->ij", flat_x, flat_ds), dU


def jacobians(dh, x, W, U, h):
    """The slopes as diagonal matrices."""
    ds = []
    carry = np.zeros_like(h[..., 0, :])
    for t in reversed(range(h.shape[-2])):
        slope = np.eye(h.shape[-1]) * (1 - h[..., t, None, :] ** 2)
        ds.insert(0, ((dh[..., t, :] + carry)[..., None, :] @ slope)[..., 0, :])
        carry = ds[0] @ np.transpose(U)
    ds = np.stack(ds, axis=-2)
    return ds @ W.T, flat_sum(x, ds), flat_sum(h[..., :-1, :], ds[..., 1:, :])


def into_dh(dh, x, W, U, h):
    """dh itself becomes ds."""
    n = h.shape[-2]
    for t in reversed(range(n)):
        if t < n - 1:
            dh[..., t, :] += dh[..., t + 1, :] @ U.T
        dh[..., t, :] *= 1 - h[..., t, :] ** 2
    return np.matmul(dh, W.T), flat_sum(x, dh), flat_sum(h[..., :-1, :], dh[..., 1:, :])


def sequence_by_sequence(dh, x, W, U, h):
    """No empty batch, and everything in float64."""
    n = x.shape[-2]
    dxs, dW, dU = [], 0, 0
    flat = [a.reshape(-1, n, a.shape[-1]).astype(float) for a in (dh, x, h)]
    for one_dh, one_x, one_h in zip(*flat, strict=True):
        ds = all_ds(one_dh, U, one_h)
        dxs.append(ds @ W.T)
        dW = dW + one_x.T @ ds
        dU = dU + one_h[:-1].T @ ds[1:]
    return np.array(dxs).reshape(x.shape), dW, dU


def dx_doubled(dh, x, W, U, h):
    dx, dW, dU = three_products(dh, x, W, U, h)
    return 2 * dx, dW, dU


def dW_from_dh(dh, x, W, U, h):
    dx, _, dU = three_products(dh, x, W, U, h)
    return dx, flat_sum(x, dh), dU


def both_late(dh, x, W, U, h):
    ds = all_ds(dh, U, h)
    return ds @ W.T, flat_sum(x, ds), flat_sum(h[..., 1:, :], ds[..., 1:, :])


def both_early(dh, x, W, U, h):
    ds = all_ds(dh, U, h)
    return ds @ W.T, flat_sum(x, ds), flat_sum(h[..., :-1, :], ds[..., :-1, :])


def dW_not_summed(dh, x, W, U, h):
    dx, _, dU = three_products(dh, x, W, U, h)
    return dx, np.swapaxes(x, -1, -2) @ all_ds(dh, U, h) + np.zeros((2, 1, 1)), dU


def no_dU(dh, x, W, U, h):
    return three_products(dh, x, W, U, h)[:2]


# --- repaired_scan --------------------------------------------------------------------------------------------------


def scan(join, factors, grow=lambda step: 2 * step, begin=1):
    def made(a, b):
        h, step = b.copy(), begin
        while step < b.shape[-2]:
            early_a, late_a = a[..., :-step, :], a[..., step:, :]
            early_h, late_h = h[..., :-step, :], h[..., step:, :]
            h = np.concatenate([h[..., :step, :], join(early_a, late_a, early_h, late_h)], axis=-2)
            a = np.concatenate([a[..., :step, :], factors(early_a, late_a)], axis=-2)
            step = grow(step)
        return h

    return made


def both(early, late):
    return early * late


right_scan = scan(lambda early_a, late_a, early_h, late_h: late_a * early_h + late_h, both)


def the_loop(a, b):
    h, states = np.zeros_like(b[..., 0, :]), []
    for t in range(b.shape[-2]):
        h = a[..., t, :] * h + b[..., t, :]
        states.append(h)
    return np.stack(states, axis=-2)


def loop_in_zeros(a, b):
    h = np.zeros(b.shape)
    for t in range(b.shape[-2]):
        h[..., t, :] = b[..., t, :] + (a[..., t, :] * h[..., t - 1, :] if t else 0)
    return h


def into_b(a, b):
    for t in range(1, b.shape[-2]):
        b[..., t, :] += a[..., t, :] * b[..., t - 1, :]
    return b


def weights_of_all(a, b):
    """h_t = Σ_s (a_{s+1} ... a_t) b_s, written out."""
    n = b.shape[-2]
    rows = [sum(np.prod(a[..., s + 1 : t + 1, :], axis=-2) * b[..., s, :] for s in range(t + 1)) for t in range(n)]
    return np.stack(rows, axis=-2)


def halves(a, b):
    """The first half, then the second with what the first left."""
    n = b.shape[-2]
    if n == 1:
        return b.copy()
    early, late = halves(a[..., : n // 2, :], b[..., : n // 2, :]), halves(a[..., n // 2 :, :], b[..., n // 2 :, :])
    carried = np.cumprod(a[..., n // 2 :, :], axis=-2) * early[..., -1:, :]
    return np.concatenate([early, late + carried], axis=-2)


RIGHT = {
    "my_rnn": (stacked, zeros, einsum, by_loops, turned, one_product_first, into_its_input),
    "repaired_scan": (right_scan, the_loop, loop_in_zeros, into_b, weights_of_all, halves),
    "my_rnn_backward": (three_products, adding_up, with_einsum, jacobians, into_dh, sequence_by_sequence),
}

WRONG = {
    "my_rnn": tuple((wrong, "") for wrong, *_ in WRONG_RNN),
    "repaired_scan": tuple(
        (wrong, "")
        for wrong in (
            scan(lambda ea, la, eh, lh: ea * eh + lh, both),                      # buggy_scan itself
            scan(lambda ea, la, eh, lh: la * lh + eh, both),
            scan(lambda ea, la, eh, lh: la * eh, both),
            scan(lambda ea, la, eh, lh: eh + lh, both),
            scan(lambda ea, la, eh, lh: ea * la * eh + lh, both),
            scan(lambda ea, la, eh, lh: la * (eh + lh), both),
            scan(lambda ea, la, eh, lh: la * eh + lh, lambda early, late: late),
            scan(lambda ea, la, eh, lh: la * eh + lh, lambda early, late: early),
            scan(lambda ea, la, eh, lh: la * eh + lh, lambda early, late: early + late),
            scan(lambda ea, la, eh, lh: la * eh + lh, both, grow=lambda step: step + 1),
            scan(lambda ea, la, eh, lh: la * eh + lh, both, grow=lambda step: 10**9),
            scan(lambda ea, la, eh, lh: la * eh + lh, both, begin=2),
        )
    ),
    "my_rnn_backward": (
        *((wrong, "") for wrong, *_ in WRONG_BACKWARD),
        (dx_doubled, ""),
        (dW_from_dh, ""),
        (both_late, ""),
        (both_early, ""),
        (dW_not_summed, ""),
        (no_dU, ""),
    ),
}
