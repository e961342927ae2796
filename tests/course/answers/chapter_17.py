"""Answers to the exercises of chapter 17."""

import itertools

import numpy as np

from tinyattn.course.exercises.chapter_17 import (
    additive_scores,
    gru_by_steps,
    scan_by_pairs,
)

from . import listed

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


# --- repaired_gru ---------------------------------------------------------------------------------------------------


def sigmoid(u):
    return 1 / (1 + np.exp(-u))


def its_one_line(x, W, U, b, c):
    """The chapter's own, with its line repaired."""
    (W_r, W_z, W_n), (U_r, U_z, U_n) = np.split(W, 3, axis=-1), np.split(U, 3, axis=-1)
    (b_r, b_z, b_n), (c_r, c_z, c_n) = np.split(b, 3), np.split(c, 3)
    h, states = np.zeros_like(x[..., 0, :] @ W_n), []
    for x_t in np.moveaxis(x, -2, 0):
        r = sigmoid(x_t @ W_r + b_r + h @ U_r + c_r)
        z = sigmoid(x_t @ W_z + b_z + h @ U_z + c_z)
        new = np.tanh(x_t @ W_n + b_n + r * (h @ U_n + c_n))
        h = (1 - z) * new + z * h
        states.append(h)
    return np.stack(states, axis=-2)


def three_at_once(x, W, U, b, c):
    """All products of h are one; float64 for float32."""
    d = len(U)
    h, from_x = np.zeros((*x.shape[:-1], d)), x @ W + b
    state = np.zeros((*x.shape[:-2], d))
    for t in range(x.shape[-2]):
        a, s = from_x[..., t, :], state @ U + c
        r, z = sigmoid(a[..., :d] + s[..., :d]), sigmoid(a[..., d : 2 * d] + s[..., d : 2 * d])
        new = np.tanh(a[..., 2 * d :] + r * s[..., 2 * d :])
        state = new + z * (state - new)
        h[..., t, :] = state
    return h


def gru_by_einsum(x, W, U, b, c):
    d = len(U)
    W, U, b, c = W.reshape(-1, 3, d), U.reshape(d, 3, d), b.reshape(3, d), c.reshape(3, d)
    h, states = np.zeros((*x.shape[:-2], d), x.dtype), []
    for t in range(x.shape[-2]):
        a = np.einsum("...i,igd->...gd", x[..., t, :], W) + b
        s = np.einsum("...i,igd->...gd", h, U) + c
        r, z = (sigmoid(a[..., gate, :] + s[..., gate, :]) for gate in (0, 1))
        h = (1 - z) * np.tanh(a[..., 2, :] + r * s[..., 2, :]) + z * h
        states.append(h[..., None, :])
    return np.concatenate(states, axis=-2)


def gru_sequence_by_sequence(x, W, U, b, c):
    """A flat batch, a list of lists."""
    d, out = len(U), []
    for tokens in x.reshape(-1, *x.shape[-2:]):
        h, states = np.zeros(d), []
        for token in tokens:
            r, z = (sigmoid(token @ W[:, s] + b[s] + h @ U[:, s] + c[s]) for s in (slice(d), slice(d, 2 * d)))
            last = slice(2 * d, None)
            h = (1 - z) * np.tanh(token @ W[:, last] + b[last] + r * (h @ U[:, last] + c[last])) + z * h
            states.append(list(h))
        out.append(states)
    return np.array(out).reshape(*x.shape[:-1], d)


def r_by_a_matrix(x, W, U, b, c):
    """r as a diagonal matrix behind U_n."""
    d = len(U)
    h, states = np.zeros((*x.shape[:-2], d), x.dtype), []
    for t in range(x.shape[-2]):
        a = x[..., t, :] @ W + b
        rz = sigmoid(a[..., : 2 * d] + h @ U[:, : 2 * d] + c[: 2 * d])
        r = rz[..., None, :d] * np.eye(d)
        new = np.tanh(a[..., 2 * d :] + ((h @ U[:, 2 * d :] + c[2 * d :])[..., None, :] @ r)[..., 0, :])
        h = new - rz[..., d:] * new + rz[..., d:] * h
        states.append(h)
    return np.stack(states, axis=-2)


# --- my_additive_scores ---------------------------------------------------------------------------------------------


def broadcast(q, k, w):
    return np.tanh(q[..., :, None, :] + k[..., None, :, :]) @ w


def query_by_query(q, k, w):
    return np.stack([np.tanh(q[..., i, None, :] + k) @ w for i in range(q.shape[-2])], axis=-2)


def key_by_key_in_zeros(q, k, w):
    s = np.zeros((*q.shape[:-1], k.shape[-2]))
    for j in range(k.shape[-2]):
        s[..., j] = (np.tanh(q + k[..., j : j + 1, :]) * w).sum(axis=-1)
    return s


def feature_by_feature(q, k, w):
    return sum(w[f] * np.tanh(q[..., :, None, f] + k[..., None, :, f]) for f in range(len(w)))


def by_exponentials(q, k, w):
    """tanh(u) = 1 - 2 / (e^2u + 1)."""
    with np.errstate(over="ignore"):
        e = np.exp(2 * (np.expand_dims(q, -2) + np.expand_dims(k, -3)))
    return np.einsum("...nmd,d->...nm", 1 - 2 / (e + 1), w)


def pair_by_pair(q, k, w):
    s = [[np.dot(w, np.tanh(a + b)) for a in one_q for b in one_k]
         for one_q, one_k in zip(q.reshape(-1, *q.shape[-2:]), k.reshape(-1, *k.shape[-2:]), strict=True)]  # fmt: skip
    return np.reshape(s, (*q.shape[:-1], k.shape[-2]))


# --- more styles ----------------------------------------------------------------------------------------------------


def by_accumulation(x, W, U):
    inputs = np.moveaxis(np.matmul(x, W), -2, 0)
    states = itertools.accumulate(inputs, lambda h, new: np.tanh(new + h @ U), initial=np.zeros_like(inputs[0]))
    return np.moveaxis(np.array(list(states)[1:]), 0, -2)


def as_one_matrix(a, b):
    """h = L b, where L[t, s] is the product of the decays after s, up to t; a recursion over columns."""
    n, columns = b.shape[-2], []
    for s in range(n):
        weights = np.ones_like(b)
        for t in range(s + 1, n):
            weights[..., t, :] = weights[..., t - 1, :] * a[..., t, :]
        columns.append(np.where(np.arange(n)[:, None] >= s, weights * b[..., s : s + 1, :], 0))
    return sum(columns)


def chunks_of_four(a, b):
    """Within a chunk step by step, and a state is handed on."""
    h, parts = np.zeros_like(b[..., 0, :]), []
    for at in range(0, b.shape[-2], 4):
        rows = []
        for t in range(at, min(at + 4, b.shape[-2])):
            h = h * a[..., t, :] + b[..., t, :]
            rows.append(h[..., None, :])
        parts.append(np.concatenate(rows, axis=-2))
    return np.concatenate(parts, axis=-2)


def first_factors_forgotten(a, b):
    """As if all states before the last were 0."""
    h = b.copy()
    h[..., 1:, :] += a[..., 1:, :] * b[..., :-1, :]
    return h


def with_tensordots(dh, x, W, U, h):
    shape, steps = h.shape, h.shape[-2]
    dh, x, h = (np.reshape(array, (-1, steps, array.shape[-1])) for array in (dh, x, h))
    ds, later = np.empty_like(h), 0
    for t in range(steps - 1, -1, -1):
        ds[:, t] = (1 - h[:, t] * h[:, t]) * (dh[:, t] + later)
        later = np.dot(ds[:, t], U.T)
    before = np.concatenate([np.zeros_like(h[:, :1]), h[:, :-1]], axis=1)
    dx = np.dot(ds, W.T).reshape(*shape[:-1], -1)
    return dx, np.tensordot(x, ds, ((0, 1), (0, 1))), np.tensordot(before, ds, ((0, 1), (0, 1)))


def recursively(dh, x, W, U, h):
    """The last step, and then the same for a shorter sequence whose last state got more."""
    if not h.shape[-2]:
        return np.zeros_like(x), np.zeros_like(W), np.zeros_like(U)
    ds = dh[..., -1, :] * (1 - h[..., -1, :] ** 2)
    before = h[..., -2, :] if h.shape[-2] > 1 else 0 * ds
    earlier = dh[..., :-1, :].copy()
    if h.shape[-2] > 1:
        earlier[..., -1, :] += ds @ U.T
    dx, dW, dU = recursively(earlier, x[..., :-1, :], W, U, h[..., :-1, :])
    rows = ds.reshape(-1, ds.shape[-1])
    return (
        np.concatenate([dx, (ds @ W.T)[..., None, :]], axis=-2),
        dW + x[..., -1, :].reshape(len(rows), -1).T @ rows,
        dU + before.reshape(len(rows), -1).T @ rows,
    )


def gru_of_all_inputs_first(x, W, U, b, c):
    """Inputs' products at once, in blocks of d columns."""
    d, given = len(U), x @ W + b
    h, states = np.zeros((*x.shape[:-2], d), given.dtype), []
    for t in range(x.shape[-2]):
        of_h = h @ U + c
        gates = 1 / (1 + np.exp(-(given[..., t, : 2 * d] + of_h[..., : 2 * d])))
        new = np.tanh(given[..., t, 2 * d :] + gates[..., :d] * of_h[..., 2 * d :])
        h = new + gates[..., d:] * (h - new)
        states.append(h)
    return np.stack(states, -2)


def gru_with_tanh_gates(x, W, U, b, c):
    """σ(z) = (1 + tanh(z / 2)) / 2; lists of three."""
    W, U, b, c = (np.array_split(array, 3, axis=-1) for array in (W, U, b, c))
    h = np.zeros((*x.shape[:-1], len(U[0])), x.dtype)
    for t in range(x.shape[-2]):
        past = h[..., t - 1, :] if t else np.zeros_like(h[..., 0, :])
        into = [x[..., t, :] @ w + bias for w, bias in zip(W, b, strict=True)]
        back = [past @ u + bias for u, bias in zip(U, c, strict=True)]
        r, z = ((1 + np.tanh((i + p) / 2)) / 2 for i, p in zip(into[:2], back[:2], strict=True))
        h[..., t, :] = (1 - z) * np.tanh(into[2] + r * back[2]) + z * past
    return h


def outer_sums(q, k, w):
    """Feature after feature, for all pairs."""
    return sum(one * np.tanh(q[..., :, i, None] + k[..., None, :, i]) for i, one in enumerate(w))


RIGHT = {
    "my_rnn": (stacked, zeros, einsum, by_loops, turned, one_product_first, into_its_input, by_accumulation),
    "repaired_scan": (
        scan_by_pairs, the_loop, loop_in_zeros, into_b, weights_of_all, halves, as_one_matrix, chunks_of_four,
    ),
    "my_rnn_backward": (
        three_products, adding_up, with_einsum, jacobians, into_dh, sequence_by_sequence, with_tensordots,
        recursively,
    ),
    "repaired_gru": (
        its_one_line, three_at_once, gru_by_einsum, gru_sequence_by_sequence, r_by_a_matrix, gru_by_steps,
        gru_of_all_inputs_first, gru_with_tanh_gates,
    ),
    "my_additive_scores": (
        broadcast, query_by_query, key_by_key_in_zeros, feature_by_feature, by_exponentials, pair_by_pair,
        additive_scores, outer_sums,
    ),
}  # fmt: skip

WRONG = {
    "my_rnn": tuple((wrong, "") for wrong in listed("my_rnn")),
    "repaired_scan": (*((wrong, "") for wrong in listed("repaired_scan")), (first_factors_forgotten, "")),
    "my_rnn_backward": (
        *((wrong, "") for wrong in listed("my_rnn_backward")),
        (dx_doubled, ""),
        (dW_from_dh, ""),
        (both_late, ""),
        (both_early, ""),
        (dW_not_summed, ""),
        (no_dU, ""),
    ),
    "repaired_gru": tuple((wrong, "") for wrong in listed("repaired_gru")),
    "my_additive_scores": tuple((wrong, "") for wrong in listed("my_additive_scores")),
}
