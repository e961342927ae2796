"""Answers to the exercises of chapter 18."""

import itertools
import math

import numpy as np

from . import listed

# --- my_online_softmax ----------------------------------------------------------------------------------------------


def with_where(m, l, o, s, v):
    top = np.maximum(m, np.max(s, axis=1, keepdims=True))
    shift = np.where(np.isinf(top), 0.0, top)  # float64 for float32
    e = np.exp(s - shift)
    factor = np.exp(m - shift)
    return top, l * factor + np.sum(e, axis=1, keepdims=True), o * factor + e @ v


def query_by_query(m, l, o, s, v):
    m, l, o = m.copy(), l.copy(), o.copy()
    for i in range(len(s)):
        top = max(m[i, 0], s[i].max())
        if top == -np.inf:
            continue
        factor, e = math.exp(m[i, 0] - top), np.exp(s[i] - top)
        m[i], l[i], o[i] = top, factor * l[i] + e.sum(), factor * o[i] + e @ v
    return m, l, o


def key_by_key(m, l, o, s, v):
    """Tiles of one key."""
    for j in range(s.shape[1]):
        one = s[:, j : j + 1]
        top = np.maximum(m, one)
        factor = np.where(m == -np.inf, 0, np.exp(m - np.where(top == -np.inf, 0, top)))
        e = np.where(one == -np.inf, 0, np.exp(one - np.where(top == -np.inf, 0, top)))
        m, l, o = top, factor * l + e, factor * o + e * v[j]
    return m, l, o


def with_nan_to_num(m, l, o, s, v):
    top = np.maximum(m, s.max(axis=-1, keepdims=True))
    e, factor = np.nan_to_num(np.exp(s - top)), np.nan_to_num(np.exp(m - top))
    return top, factor * l + e.sum(-1, keepdims=True), factor * o + e @ v


def in_place(m, l, o, s, v):
    """Writes into what it is given."""
    top = np.maximum(m, s.max(axis=1, keepdims=True))
    finite = np.maximum(top, -1e30)
    factor = np.exp(m - finite)
    s -= finite
    np.exp(s, out=s)
    l *= factor
    l += s.sum(axis=1, keepdims=True)
    o *= factor
    o += s @ v
    return [top, l, o]


def state_as_a_key(m, l, o, s, v):
    """What was known is one more key: its logit is m, its weight l."""
    both = np.concatenate([m, s], axis=1)
    top = both.max(axis=1, keepdims=True)
    e = np.exp(both - np.where(top == -np.inf, 0, top))
    return top, e[:, :1] * l + e[:, 1:].sum(axis=1, keepdims=True), e[:, :1] * o + e[:, 1:] @ v


def live_rows(m, l, o, s, v):
    """Queries with nothing allowed are left out."""
    m, l, o = m.copy(), l.copy(), o.copy()
    live = np.isfinite(s).any(axis=1)
    top = np.maximum(m[live], s[live].max(axis=1, keepdims=True))
    factor, e = np.exp(m[live] - top), np.exp(s[live] - top)
    l[live] = factor * l[live] + e.sum(axis=1, keepdims=True)
    o[live] = factor * o[live] + e @ v
    m[live] = top
    return m, l, o


def as_logarithms(m, l, o, s, v):
    """Through one log-sum-exp over what was there and what came."""
    with np.errstate(divide="ignore"):
        logs = np.concatenate([m + np.log(l), s], axis=1)
    top = np.maximum(m, s.max(axis=1, keepdims=True))
    safe = np.where(np.isfinite(top), top, 0)
    l_new = np.exp(logs - safe).sum(axis=1, keepdims=True)
    return top, l_new, np.exp(m - safe) * o + np.einsum("ab,be->ae", np.exp(s - safe), v)


def as_published_in_2022(m, l, o, s, v):
    """FlashAttention's algorithm 1: o is divided by l in every tile."""
    own = s.max(axis=-1, keepdims=True)
    shift = np.where(own == -np.inf, 0, own)
    p = np.exp(s - shift)
    top = np.maximum(m, own)
    finite = np.where(top == -np.inf, 0, top)
    before, here = np.exp(m - finite), np.exp(shift - finite) * (own > -np.inf)
    l_new = before * l + here * p.sum(axis=-1, keepdims=True)
    return top, l_new, (l * before * o + here * (p @ v)) / np.where(l_new == 0, 1, l_new)


# --- my_tile_gradients ----------------------------------------------------------------------------------------------


def five_lines(dout, q, k, v, s, L, D):
    c = 1 / math.sqrt(q.shape[-1])
    p = np.exp(s - L)
    dv = p.T @ dout
    ds = p * (dout @ v.T - D)
    return c * ds @ k, c * ds.T @ q, dv


def logarithm_first(dout, q, k, v, s, L, D):
    p = np.exp(np.subtract(s, L))
    ds = (p * (dout @ v.T) - p * D) / np.sqrt(q.shape[1])
    return [np.dot(ds, k), np.dot(ds.T, q), np.dot(p.T, dout)]


def einsums(dout, q, k, v, s, L, D):
    p = np.exp(s - L)
    dp = np.einsum("ie,je->ij", dout, v)
    ds = p * (dp - D) * q.shape[-1] ** -0.5
    return np.einsum("ij,jd->id", ds, k), np.einsum("ij,id->jd", ds, q), np.einsum("ij,ie->je", p, dout)


def pair_by_pair(dout, q, k, v, s, L, D):
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    for i in range(len(q)):
        for j in range(len(k)):
            p = math.exp(s[i, j] - L[i, 0])
            ds = p * (dout[i] @ v[j] - D[i, 0]) / math.sqrt(q.shape[1])
            dq[i] += ds * k[j]
            dk[j] += ds * q[i]
            dv[j] += p * dout[i]
    return dq, dk, dv


def scaled_inputs(dout, q, k, v, s, L, D):
    root = np.sqrt(np.float64(q.shape[-1]))
    p = np.exp(s - L)
    ds = p * (dout @ v.swapaxes(-1, -2) - D)
    return ds @ (k / root), ds.swapaxes(-1, -2) @ (q / root), p.swapaxes(-1, -2) @ dout


def key_by_key_with_rows(dout, q, k, v, s, L, D):
    dq, dk, dv = np.zeros_like(q), [], []
    for j, key in enumerate(k):
        p = np.exp(s[:, j] - L[:, 0])
        ds = p * (dout @ v[j] - D[:, 0]) / q.shape[1] ** 0.5
        dq = dq + ds[:, None] * key
        dk.append(ds @ q)
        dv.append(p @ dout)
    return dq, np.stack(dk), np.stack(dv)


def with_a_column_of_ones_on_v(dout, q, k, v, s, L, D):
    """dout · v - D is one product of wider rows."""
    wide, ones = np.hstack([dout, -D]), np.hstack([v, np.ones((len(v), 1), v.dtype)])
    p = np.exp(s - L)
    ds = p * (wide @ ones.T)
    ds *= 1 / math.sqrt(q.shape[-1])
    return np.matmul(ds, k), np.matmul(ds.T, q), np.matmul(p.T, dout)


def hidden_are_left_out(dout, q, k, v, s, L, D):
    """Weights of hidden pairs are 0 without an exponential of -inf."""
    p = np.zeros_like(s)
    allowed = np.isfinite(s)
    p[allowed] = np.exp((s - L)[allowed])
    ds = np.where(allowed, p * (dout @ v.T - D), 0) / np.sqrt(k.shape[-1])
    return ds @ k, (q.T @ ds).T, (dout.T @ p).T


# --- repaired_mask --------------------------------------------------------------------------------------------------


def _leaky(n, size):
    block = np.arange(n) // size
    back = block[:, None] - block
    return (back == 0) | (back == 1) | (block == 0) | (block == 0)[:, None]


def by_tri(n, size):
    return _leaky(n, size) & np.tri(n, dtype=bool)


def by_tril(n, size):
    return np.tril(_leaky(n, size))


def by_indices(n, size):
    mask = _leaky(n, size)
    mask[np.triu_indices(n, 1)] = False
    return mask


def by_loops(n, size):
    """A list of lists."""
    return [[j <= i and (i // size - j // size < 2 or j < size) for j in range(n)] for i in range(n)]


def shorter(n, size):
    """A global query that may not look ahead looks at its own block only."""
    i, j = np.arange(n)[:, None], np.arange(n)
    return (j <= i) & ((j < size) | (i // size - j // size <= 1))


def multiplied(n, size):
    return _leaky(n, size) * np.tril(np.ones((n, n), bool))


def by_blocks(n, size):
    """First between blocks, then between their tokens."""
    blocks = -(-n // size)
    b, c = np.mgrid[:blocks, :blocks]
    near = (c == 0) | (b == c) | (b == c + 1)
    return np.kron(near, np.ones((size, size), bool))[:n, :n] & (np.arange(n) <= np.arange(n)[:, None])


def from_nothing(n, size):
    mask = np.zeros((n, n), dtype=bool)
    for i in range(n):
        mask[i, max(0, (i // size - 1) * size) : i + 1] = True
        mask[i, : min(size, i + 1)] = True
    return mask


# --- my_linear_attention --------------------------------------------------------------------------------------------


def recurrence(a, b, v):
    S, z, out = np.zeros((b.shape[1], v.shape[1])), np.zeros(b.shape[1]), []
    for t in range(len(v)):
        S += np.outer(b[t], v[t])
        z += b[t]
        out.append(a[t] @ S / (a[t] @ z))
    return np.array(out)


def with_a_column_of_ones(a, b, v):
    c = np.hstack([v, np.ones((len(v), 1))])
    S, y = 0, np.empty(c.shape)
    for t in range(len(v)):
        S = S + b[t][:, None] * c[t]
        y[t] = a[t] @ S
    return y[:, :-1] / y[:, -1:]


def cumulated(a, b, v):
    """All states at once."""
    S, z = np.cumsum(b[:, :, None] * v[:, None, :], axis=0), np.cumsum(b, axis=0)
    return np.einsum("tr,tre->te", a, S) / np.einsum("tr,tr->t", a, z)[:, None]


def recursive(a, b, v, S=0, z=0):
    if not len(v):
        return np.zeros((0, v.shape[1]))
    S, z = S + np.outer(b[0], v[0]), z + b[0]
    return np.vstack([a[0] @ S / (a[0] @ z), recursive(a[1:], b[1:], v[1:], S, z)])


def parallel(a, b, v):
    """Right numbers, with the (n, n) array that was not to be made."""
    p = np.tril(a @ b.T)
    return p / p.sum(axis=1, keepdims=True) @ v


def plain_lists(a, b, v):
    out = []
    for t in range(len(v)):
        weights = [float(a[t] @ b[j]) for j in range(t + 1)]
        out.append([sum(w * float(v[j, e]) for j, w in enumerate(weights)) / sum(weights) for e in range(v.shape[1])])
    return out


def chunks_of_two(a, b, v):
    S, z, out = np.zeros((b.shape[1], v.shape[1])), np.zeros(b.shape[1]), []
    for t in range(0, len(v), 2):
        here, keys, values = a[t : t + 2], b[t : t + 2], v[t : t + 2]
        p = np.tril(here @ keys.T)
        out.append((here @ S + p @ values) / (here @ z + p.sum(axis=1))[:, None])
        S, z = S + keys.T @ values, z + keys.sum(axis=0)
    return np.concatenate(out)


def accumulated(a, b, v):
    """A generator of states."""
    states = itertools.accumulate(zip(b, v, strict=True), lambda s, x: (s[0] + np.outer(*x), s[1] + x[0]),
                                  initial=(0, 0))  # fmt: skip
    next(states)
    return np.stack([q @ S / (q @ z) for q, (S, z) in zip(a, states, strict=True)])


def backwards_from_the_sum(a, b, v):
    """Begins with the state after all tokens, and takes one away after another."""
    S, z, y = b.T @ v, b.sum(axis=0), np.empty_like(v)
    for t in range(len(v) - 1, -1, -1):
        y[t] = a[t] @ S / (a[t] @ z)
        S, z = S - np.outer(b[t], v[t]), z - b[t]
    return y


RIGHT = {
    "my_online_softmax": (with_where, query_by_query, key_by_key, with_nan_to_num, in_place, state_as_a_key, live_rows,
                          as_logarithms, as_published_in_2022),
    "my_tile_gradients": (five_lines, logarithm_first, einsums, pair_by_pair, scaled_inputs, key_by_key_with_rows,
                          with_a_column_of_ones_on_v, hidden_are_left_out),
    "repaired_mask": (by_tri, by_tril, by_indices, by_loops, shorter, multiplied, by_blocks, from_nothing),
    "my_linear_attention": (recurrence, with_a_column_of_ones, cumulated, recursive, plain_lists, chunks_of_two,
                            accumulated, backwards_from_the_sum),
}  # fmt: skip
WRONG = {
    name: tuple((wrong, "") for wrong in all_wrong)
    for name, all_wrong in (
        ("my_online_softmax", listed("my_online_softmax")),
        ("my_tile_gradients", listed("my_tile_gradients")),
        ("repaired_mask", listed("repaired_mask")),
        ("my_linear_attention", (*listed("my_linear_attention"), parallel)),
    )
}
