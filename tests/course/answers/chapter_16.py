"""Answers to the exercises of chapter 16."""

import heapq
import itertools
import math

import numpy as np

from tinyattn.ops import attention, attention_backward, softmax

from . import listed

# --- my_cross_attention_backward ------------------------------------------------------------------------------------


def by_the_library(dout, x, memory, W_q, W_k, W_v):
    q, k, v = x @ W_q, memory @ W_k, memory @ W_v
    _, p = attention(q, k, v)
    dq, dk, dv, _ = attention_backward(dout, q, k, v, p)
    return dq @ W_q.T, dk @ W_k.T + dv @ W_v.T


def by_hand(dout, x, memory, W_q, W_k, W_v):
    q, k, v = x @ W_q, memory @ W_k, memory @ W_v
    d = q.shape[-1]
    s = q @ k.T / np.sqrt(d)
    p = np.exp(s - s.max(axis=1, keepdims=True))
    p = p / p.sum(axis=1, keepdims=True)
    dp = dout @ v.T
    ds = p * (dp - (p * dp).sum(axis=1, keepdims=True)) / np.sqrt(d)
    return [ds @ k @ W_q.T, ds.T @ q @ W_k.T + p.T @ dout @ W_v.T]


def query_by_query(dout, x, memory, W_q, W_k, W_v):
    q, k, v = x @ W_q, memory @ W_k, memory @ W_v
    dx, dmemory = np.zeros_like(x), np.zeros_like(memory)
    for i in range(len(x)):
        p = softmax(q[i] @ k.T / math.sqrt(q.shape[1]))
        dp = v @ dout[i]
        ds = p * (dp - p @ dp) / math.sqrt(q.shape[1])
        dx[i] = W_q @ (ds @ k)
        dmemory += np.outer(ds, q[i]) @ W_k.T + np.outer(p, dout[i]) @ W_v.T
    return dx, dmemory


def with_einsum(dout, x, memory, W_q, W_k, W_v):
    q, k, v = x @ W_q, memory @ W_k, memory @ W_v
    c = q.shape[-1] ** -0.5
    p = softmax(np.einsum("nd,md->nm", q, k) * c)
    dp = np.einsum("nd,md->nm", dout, v)
    ds = c * p * (dp - np.einsum("nm,nm->n", p, dp)[:, None])
    dx = np.einsum("nm,md,Dd->nD", ds, k, W_q)
    return dx, np.einsum("nm,nd,Dd->mD", ds, q, W_k) + np.einsum("nm,nd,Dd->mD", p, dout, W_v)


def both_paths_at_once(dout, x, memory, W_q, W_k, W_v):
    """Keys and values are one map of the memory, twice as wide."""
    d = W_k.shape[1]
    both = np.concatenate([W_k, W_v], axis=1)
    k, v = np.split(memory @ both, [d], axis=1)
    q = x @ W_q
    p = softmax(q @ k.T / math.sqrt(d))
    ds = p * (dout @ v.T)
    ds = (ds - p * ds.sum(axis=-1, keepdims=True)) / math.sqrt(d)
    return (ds @ k) @ W_q.T, np.concatenate([ds.T @ q, p.T @ dout], axis=1) @ both.T


def with_the_jacobian(dout, x, memory, W_q, W_k, W_v):
    q, k, v = x @ W_q, memory @ W_k, memory @ W_v
    p = softmax(q @ k.T / math.sqrt(q.shape[1]))
    dp = dout @ v.T
    ds = np.stack([(np.diag(row) - np.outer(row, row)) @ d for row, d in zip(p, dp, strict=True)])
    ds = ds / math.sqrt(q.shape[1])
    return np.dot(np.dot(ds, k), W_q.T), np.dot(np.dot(ds.T, q), W_k.T) + np.dot(np.dot(p.T, dout), W_v.T)


# --- repaired_layer -------------------------------------------------------------------------------------------------


def look(x, at, mask):
    return attention(x, at, at, mask)[0]


def one_line_changed(x, memory, lengths):
    n, m = x.shape[1], memory.shape[1]
    x = x + look(x, x, np.tri(n, dtype=bool))
    return x + look(x, memory, np.arange(m) < lengths[:, None, None])


def written_out(x, memory, lengths):
    (B, n, _), m = x.shape, memory.shape[1]
    real = np.zeros((B, n, m), bool)
    for b in range(B):
        real[b, :, : lengths[b]] = True
    i, j = np.indices((n, n))
    x = x + look(x, x, j <= i)
    return x + look(x, memory, real)


def row_by_row(x, memory, lengths):
    """Padding is cut off."""
    y = []
    for tokens, words, length in zip(x, memory, lengths, strict=True):
        tokens = tokens + look(tokens, tokens, np.tril(np.ones((len(tokens), len(tokens)), bool)))
        y.append(tokens + look(tokens, words[:length], None))
    return np.stack(y)


def with_minus_infinity(x, memory, lengths):
    root = np.sqrt(x.shape[-1])
    s = x @ x.swapaxes(1, 2) / root
    x = x + softmax(np.where(np.tri(x.shape[1], dtype=bool), s, -np.inf)) @ x
    s = x @ memory.swapaxes(1, 2) / root
    padding = np.arange(memory.shape[1])[None, None] >= np.reshape(lengths, (-1, 1, 1))
    s[np.broadcast_to(padding, s.shape)] = -np.inf
    return x + softmax(s) @ memory


def in_place(x, memory, lengths):
    """Writes into what it is given."""
    x += look(x, x, np.tri(x.shape[1], dtype=bool))
    x += look(x, memory, (np.arange(memory.shape[1]) < lengths[:, None])[:, None, :])
    return x


# --- my_beam_step ---------------------------------------------------------------------------------------------------


def flat(scores, log_p, width):
    total = (scores[:, None] + log_p).ravel()
    best = np.argsort(-total)[:width]
    return best // log_p.shape[1], best % log_p.shape[1], total[best]


def with_divmod(scores, log_p, width):
    total = np.add(scores.reshape(-1, 1), log_p)
    best = np.argsort(total, axis=None)[::-1][:width]
    rows, columns = np.divmod(best, total.shape[1])
    return rows, columns, total[rows, columns]


def unravelled(scores, log_p, width):
    total = scores[:, np.newaxis] + log_p
    best = np.unravel_index(np.argsort(-total, axis=None), total.shape)
    return best[0][:width], best[1][:width], total[best][:width]


def all_sorted(scores, log_p, width):
    """Lists."""
    pairs = itertools.product(range(len(scores)), range(log_p.shape[1]))
    every = sorted(((float(scores[i] + log_p[i, j]), i, j) for i, j in pairs), reverse=True)[:width]
    return [i for _, i, _ in every], [j for *_, j in every], [score for score, *_ in every]


def one_after_another(scores, log_p, width):
    total = scores[:, None] + log_p
    parents, symbols, found = [], [], []
    while len(found) < min(width, total.size):
        i, j = np.unravel_index(np.argmax(total), total.shape)
        parents.append(i)
        symbols.append(j)
        found.append(total[i, j])
        total[i, j] = -np.inf
    return np.array(parents), np.array(symbols), np.array(found)


def partitioned(scores, log_p, width):
    total = (scores[:, None] + log_p).reshape(-1)
    width = min(width, len(total))
    best = np.argpartition(-total, width - 1)[:width]
    best = best[np.argsort(-total[best])]
    return best // log_p.shape[-1], best % log_p.shape[-1], total[best]


# --- my_cached_step -------------------------------------------------------------------------------------------------


def append_and_look(q, k, v, K, V):
    K, V = np.concatenate([K, k], axis=-2), np.concatenate([V, v], axis=-2)
    return attention(q, K, V)[0], K, V


def softmax_by_hand(q, k, v, K, V):
    K = np.append(K, k, axis=K.ndim - 2)
    V = np.append(V, v, axis=V.ndim - 2)
    s = (q @ np.swapaxes(K, -1, -2)) / np.sqrt(q.shape[-1])
    e = np.exp(s - np.max(s, axis=-1, keepdims=True))
    return e @ V / e.sum(axis=-1, keepdims=True), K, V


def with_einsum_and_lists(q, k, v, K, V):
    K, V = np.concatenate((K, k), -2), np.concatenate((V, v), -2)
    p = softmax(np.einsum("...id,...jd->...ij", q, K) / math.sqrt(K.shape[-1]))
    return [np.einsum("...ij,...jd->...id", p, V), K, V]


def with_a_mask(q, k, v, K, V):
    """The mask of the last position: all True."""
    K, V = np.concatenate([K, k], axis=-2), np.concatenate([V, v], axis=-2)
    m = K.shape[-2]
    return attention(q, K, V, np.tri(1, m, m - 1, dtype=bool))[0], K, V


def room_first(q, k, v, K, V):
    t = K.shape[-2]
    more_k = np.zeros((*K.shape[:-2], t + 1, K.shape[-1]))
    more_v = np.zeros((*V.shape[:-2], t + 1, V.shape[-1]))
    more_k[..., :t, :], more_k[..., t:, :] = K, k
    more_v[..., :t, :], more_v[..., t:, :] = V, v
    p = softmax((more_k @ q.swapaxes(-1, -2)).swapaxes(-1, -2) / math.sqrt(q.shape[-1]))
    return p @ more_v, more_k, more_v


def past_and_present(q, k, v, K, V):
    """What the past sums to, and the new token's own part."""
    root = math.sqrt(q.shape[-1])
    s, own = q @ K.swapaxes(-1, -2) / root, q @ k.swapaxes(-1, -2) / root
    top = np.maximum(np.max(s, axis=-1, keepdims=True, initial=-np.inf), own)
    e, e_own = np.exp(s - top), np.exp(own - top)
    out = (e @ V + e_own * v) / (e.sum(axis=-1, keepdims=True) + e_own)
    return out, np.concatenate([K, k], axis=-2), np.concatenate([V, v], axis=-2)


# --- more styles ----------------------------------------------------------------------------------------------------


def key_by_key_in_memory(dout, x, memory, W_q, W_k, W_v):
    """Word after word of the memory adds to dx, and gets its row."""
    q, p = x @ W_q, softmax(x @ W_q @ (memory @ W_k).T / np.sqrt(W_q.shape[1]))
    mean = np.sum(dout * (p @ memory @ W_v), axis=1)  # Σ p dp
    dq, rows = np.zeros_like(q), []
    for j, word in enumerate(memory):
        ds = p[:, j] * (dout @ (word @ W_v) - mean) / np.sqrt(W_q.shape[1])
        dq += np.outer(ds, word @ W_k)
        rows.append((ds @ q) @ W_k.T + (p[:, j] @ dout) @ W_v.T)
    return dq @ W_q.T, np.array(rows)


def maps_joined(dout, x, memory, W_q, W_k, W_v):
    """q k^T = x (W_q W_k^T) memory^T: keys are never made."""
    M, c = W_q @ W_k.T, 1 / math.sqrt(W_q.shape[1])
    p = softmax(c * x @ M @ memory.T)
    dp = dout @ W_v.T @ memory.T
    ds = c * p * (dp - np.sum(p * dp, axis=-1, keepdims=True))
    return ds @ memory @ M.T, ds.T @ x @ M + p.T @ dout @ W_v.T


def heights_of_the_mask(x, memory, lengths):
    """A number a pair, 0 or -inf, added to the logits."""
    n, m = x.shape[1], memory.shape[1]
    ahead = np.triu(np.full((n, n), -np.inf), 1)
    padding = np.where(np.arange(m) < lengths[:, None], 0, -np.inf)[:, None]

    def looks(queries, keys, added):
        logits = queries @ keys.swapaxes(-1, -2) / math.sqrt(keys.shape[-1]) + added
        return softmax(logits) @ keys

    x = x + looks(x, x, ahead)
    return x + looks(x, memory, padding)


def without_padding(x, memory, lengths):
    """Each row looks at a memory that ends where its words end."""
    rows = []
    for tokens, words, length in zip(x, memory, lengths, strict=True):
        tokens = tokens + attention(tokens, tokens, tokens, np.tri(len(tokens), dtype=bool))[0]
        words = words[:length]
        rows.append(tokens + attention(tokens, words, words)[0])
    return np.stack(rows)


def token_by_token(x, memory, lengths):
    """A list of what each position makes of those up to it."""
    real = np.arange(memory.shape[1]) < lengths[:, None, None]
    columns = []
    for t in range(x.shape[1]):
        newest, past = x[:, t : t + 1], x[:, : t + 1]
        looked = newest + attention(newest, past, past)[0]
        columns.append(looked + attention(looked, memory, memory, real)[0])
    return np.concatenate(columns, axis=1)


def by_a_heap(scores, log_p, width):
    entries = ((float(scores[i] + log_p[i, j]), i, j) for i in range(len(scores)) for j in range(log_p.shape[1]))
    best = heapq.nlargest(width, entries)
    return [i for _, i, _ in best], [j for _, _, j in best], [s for s, _, _ in best]


def by_lexsort(scores, log_p, width):
    total = np.add(np.reshape(scores, (-1, 1)), log_p)
    parents, symbols = (x.ravel() for x in np.indices(total.shape))
    order = np.lexsort((symbols, parents, -total.ravel()))[:width]
    return parents[order], symbols[order], total[parents[order], symbols[order]]


def weighted_sums(q, k, v, K, V):
    """The newest token's weight is computed apart from the others'."""
    c = 1 / np.sqrt(q.shape[-1])
    old, new = c * np.einsum("...id,...td->...it", q, K), c * np.sum(q * k, axis=-1, keepdims=True)
    top = np.maximum(new, old.max(axis=-1, keepdims=True, initial=-np.inf))
    e_old, e_new = np.exp(old - top), np.exp(new - top)
    out = (e_old @ V + e_new * v) / (e_old.sum(axis=-1, keepdims=True) + e_new)
    return out, np.append(K, k, axis=-2), np.append(V, v, axis=-2)


def by_the_librarys_attention(q, k, v, K, V):
    K, V = (np.r_["-2", old, new] for old, new in ((K, k), (V, v)))
    return attention(q, K, V)[0], K, V


RIGHT = {
    "my_cross_attention_backward": (
        by_the_library, by_hand, query_by_query, with_einsum, both_paths_at_once, with_the_jacobian,
        key_by_key_in_memory, maps_joined,
    ),
    "repaired_layer": (
        one_line_changed, written_out, row_by_row, with_minus_infinity, in_place, heights_of_the_mask,
        without_padding, token_by_token,
    ),
    "my_beam_step": (flat, with_divmod, unravelled, all_sorted, one_after_another, partitioned, by_a_heap, by_lexsort),
    "my_cached_step": (
        append_and_look, softmax_by_hand, with_einsum_and_lists, with_a_mask, room_first, past_and_present,
        weighted_sums, by_the_librarys_attention,
    ),
}  # fmt: skip
WRONG = {
    name: tuple((wrong, "") for wrong in all_wrong)
    for name, all_wrong in (
        ("my_cross_attention_backward", listed("my_cross_attention_backward")),
        ("repaired_layer", listed("repaired_layer")),
        ("my_beam_step", listed("my_beam_step")),
        ("my_cached_step", listed("my_cached_step")),
    )
}
