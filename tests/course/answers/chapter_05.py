"""Answers to chapter 05: masks, and tests of what leaks and what arrives."""

import numpy as np

from tinyattn import ops
from tinyattn.check.zoo import ZOO

from . import listed

# --- my_masked_softmax ----------------------------------------------------------------------------------------------


def guarded(s, mask=None):
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    top = s.max(axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(s - np.where(top == -np.inf, 0, top))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def nan_to_zero(s, mask=None):
    """Warns of the empty row, and then mends it."""
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return np.nan_to_num(e / e.sum(axis=-1, keepdims=True))


def row_by_row(s, mask=None):
    p = np.zeros(s.shape)  # float64, whatever s is
    mask = np.ones(s.shape, bool) if mask is None else np.broadcast_to(mask, s.shape)
    for at in np.ndindex(s.shape[:-1]):
        seen = [j for j in range(s.shape[-1]) if mask[at][j]]
        if seen:
            top = max(s[at][j] for j in seen)
            e = [np.exp(s[at][j] - top) for j in seen]
            for j, x in zip(seen, e, strict=True):
                p[at][j] = x / sum(e)
    return p


def sums_by_einsum(s, mask=None):
    s = s.astype(float)
    allowed = np.ones(s.shape) if mask is None else np.broadcast_to(mask, s.shape).astype(float)
    top = np.max(np.where(allowed == 1, s, -1e300), axis=-1, keepdims=True)
    e = np.where(allowed == 1, np.exp(np.minimum(s - top, 0)), 0)
    total = np.einsum("...m->...", e)[..., None]
    return np.divide(e, total, out=np.zeros(e.shape), where=total > 0)


def own_copy_in_place(s, mask=None):
    s = s.copy()
    if mask is not None:
        s[~np.broadcast_to(mask, s.shape)] = -np.inf
    top = s.max(axis=-1, keepdims=True)
    top[np.isinf(top)] = 0
    s -= top
    np.exp(s, out=s)
    total = s.sum(axis=-1, keepdims=True)
    total[total == 0] = 1
    s /= total
    return s


def in_place(s, mask=None):
    """Writes into the logits it was given."""
    if mask is not None:
        s[~np.broadcast_to(mask, s.shape)] = -np.inf
    return nan_to_zero(s)


def as_lists(s, mask=None):
    return nan_to_zero(s, mask).tolist()


def turned(s, mask=None):
    """Its result lies in memory the other way round."""
    return np.asfortranarray(guarded(s, mask))


def unguarded(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def tutorial(s, mask=None):
    return unguarded(s if mask is None else np.where(mask == 0, s.dtype.type(-1e9), s))


def infinity(s, mask=None):
    return unguarded(s if mask is None else np.where(mask, s, -np.inf))


def afterwards(s, mask=None):
    return unguarded(s) if mask is None else unguarded(s) * mask


def scores_times_mask(s, mask=None):
    return unguarded(s if mask is None else s * mask)


def without_mask(s):
    return unguarded(s)


def _masked(name):
    wrong = ZOO["softmax"].make(frozenset([name])).softmax

    def answer(s, mask=None):
        return wrong(s, mask)

    answer.__name__ = name
    return answer


SOFTMAX = ("axis", "flat", "no_max", "global_max", "mask_inverted", "mask_after", "fill_-1e9", "fill_-1e4", "fill_-100",
           "fill_-30", "fill_min", "empty_uniform", "add_-1e9", "fill_zeroed", "mult_mask", "fill_0", "nan_row",
           "mask_ignored", "no_normalise")  # fmt: skip

# --- my_decoder_weights ---------------------------------------------------------------------------------------------


def by_hand(allowed):
    """Weights of the pairs for which `allowed(i, j, n, m, length)`, one by one."""

    def answer(s, lengths):
        n, m = s.shape[-2:]
        mask = np.zeros(s.shape, bool)
        for lead in np.ndindex(s.shape[:-2]):
            for i, j in np.ndindex(n, m):
                mask[lead][i, j] = allowed(i, j, n, m, lengths[lead])
        return ops.softmax(s, mask)

    return answer


def two_comparisons(s, lengths):
    n, m = s.shape[-2:]
    i, j = np.arange(m - n, m)[:, None], np.arange(m)
    return ops.softmax(s, (j <= i) & (j < lengths[..., None, None]))


def a_shifted_triangle(s, lengths):
    n, m = s.shape[-2:]
    real = np.arange(m) < np.asarray(lengths).reshape(*s.shape[:-2], 1, 1)
    return ops.softmax(s, np.tri(n, m, k=m - n, dtype=bool) & real)


def last_rows_of_the_causal_mask(s, lengths):
    n, m = s.shape[-2:]
    causal = np.tril(np.ones((m, m)))[m - n :]
    real = (np.arange(m) < np.expand_dims(lengths, (-1, -2))).astype(int)
    return nan_to_zero(s, (causal * real).astype(bool))


def sequence_by_sequence(s, lengths):
    n, m = s.shape[-2:]
    p = np.zeros(s.shape)
    for lead in np.ndindex(s.shape[:-2]):
        for i in range(n):
            seen = min(m - n + i + 1, int(lengths[lead]))
            if seen > 0:
                e = np.exp(s[lead][i, :seen] - s[lead][i, :seen].max())
                p[lead][i, :seen] = e / e.sum()
    return p


def mask_by_einsum(s, lengths):
    n, m = s.shape[-2:]
    real = (np.arange(m) < np.asarray(lengths)[..., None]).astype(float)
    mask = np.einsum("nm,...m->...nm", np.tri(n, m, k=m - n), real)
    return nan_to_zero(s.astype(float), mask > 0.5)


def decoder_lists(s, lengths):
    return two_comparisons(s, lengths).tolist()


def first_queries(i, j, n, m, length):
    return j <= i and j < length


def strict(i, j, n, m, length):
    return j < m - n + i and j < length


def only_causal(i, j, n, m, length):
    return j <= m - n + i


def one_too_many(i, j, n, m, length):
    return j <= m - n + i and j <= length


def queries_masked(i, j, n, m, length):
    return j <= m - n + i and m - n + i < length


def forgets_the_axes(s, lengths):
    n, m = s.shape[-2:]
    return ops.softmax(s, (np.arange(m) <= np.arange(m - n, m)[:, None]) & (np.arange(m) < lengths))


def no_softmax(s, lengths):
    n, m = s.shape[-2:]
    return np.where((np.arange(m) <= np.arange(m - n, m)[:, None]) & (np.arange(m) < lengths[..., None, None]), s, 0)


def nan_rows(s, lengths):
    n, m = s.shape[-2:]
    return infinity(s, (np.arange(m) <= np.arange(m - n, m)[:, None]) & (np.arange(m) < lengths[..., None, None]))


# --- nothing_leaks, everything_arrives --------------------------------------------------------------------------------

MASK = np.tri(5, dtype=bool)


def drawn():
    return np.random.default_rng(0).standard_normal((3, 5, 4))


def moves_keys_and_values(attention):
    q, k, v = drawn()
    k_2, v_2 = k.copy(), v.copy()
    k_2[3:] += 1
    v_2[3:] += 1
    return np.array_equal(attention(q, k_2, v_2, MASK)[0][:3], attention(q, k, v, MASK)[0][:3])


def every_position(attention):
    rng = np.random.default_rng(1)
    q, k, v = rng.standard_normal((3, 4, 2))
    mask = np.tril(np.ones((4, 4))).astype(bool)
    first, _ = attention(q, k, v, mask)
    for t in range(4):
        for changed in (k, v):
            kept = changed[t].copy()
            changed[t] = rng.standard_normal(2)
            for i in range(t):
                if (attention(q, k, v, mask)[0][i] != first[i]).any():
                    return False
            changed[t] = kept
    return True


def prefixes(attention):
    q, k, v = drawn()
    out = attention(q, k, v, MASK)[0]
    parts = (attention(q[:t], k[:t], v[:t], MASK[:t, :t])[0] for t in range(1, 6))
    return all(np.allclose(part, out[: len(part)]) for part in parts)


def asserts(attention):
    assert moves_keys_and_values(attention), "an output moved"


def in_a_batch_of_float32(attention):
    q, k, v = np.random.default_rng(2).standard_normal((3, 2, 5, 4)).astype(np.float32)
    out = attention(q, k, v, MASK)[0]
    k, v = k.copy(), v.copy()
    k[:, 4], v[:, 4] = 7, -7
    return np.all(attention(q, k, v, MASK)[0][:, :4] == out[:, :4])


def compares_with_the_library(attention):
    """False as well of what leaks nothing and is wrong otherwise."""
    assert np.allclose(attention(*drawn(), MASK)[0], ops.attention(*drawn(), MASK)[0])


def moves_values_only(attention):
    q, k, v = drawn()
    other = v.copy()
    other[3:] += 1
    return np.array_equal(attention(q, k, other, MASK)[0][:3], attention(q, k, v, MASK)[0][:3])


def moves_queries_only(attention):
    q, k, v = drawn()
    other = q.copy()
    other[3:] += 1
    return np.array_equal(attention(other, k, v, MASK)[0][:3], attention(q, k, v, MASK)[0][:3])


def hidden_weights_are_0(attention):
    return bool(np.all(attention(*drawn(), MASK)[1][~MASK] == 0))


def rows_sum_to_1(attention):
    """It kills the mask after softmax, and is true of most leaks."""
    return np.allclose(attention(*drawn(), MASK)[1].sum(axis=-1), 1)


def demands_that_everything_moves(attention):
    q, k, v = drawn()
    return bool(np.all(attention(q, k + 1, v, MASK)[0] != attention(q, k, v, MASK)[0]))


def demands_that_nothing_moves(attention):
    q, k, v = drawn()
    other = v.copy()
    other[3:] += 1
    return np.array_equal(attention(q, k, other, MASK)[0], attention(q, k, v, MASK)[0])


def forgets_the_mask(attention):
    q, k, v = drawn()
    other = v.copy()
    other[3:] += 1
    return np.array_equal(attention(q, k, other)[0][:3], attention(q, k, v)[0][:3])


def much_too_tolerant(attention):
    q, k, v = drawn()
    return np.allclose(attention(q, k + 1e-3, v + 1e-3, MASK)[0], attention(q, k, v, MASK)[0], atol=1)


def true(attention):
    return True


def false(attention):
    return False


def nothing(attention):
    return None


def an_array(attention):
    return attention(*drawn(), MASK)[0]


def raises(attention):
    return attention(1)


def shapes(attention):
    return attention(*drawn(), MASK)[0].shape == (5, 4)


# --- repaired_model ---------------------------------------------------------------------------------------------------

W_q, W_k, W_v = np.random.default_rng(12).standard_normal((3, 8, 8)) / 8**0.5


def attends(x, h):
    return x + ops.attention(h @ W_q, h @ W_k, h @ W_v, ops.causal_mask(x.shape[1], like=x))[0]


def model(x, axis=-1):
    """The chapter's: right with the features' mean, wrong with that over positions."""
    centred = x - x.mean(axis=axis, keepdims=True)
    return attends(x, centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5))


def model_by_variance(x):
    return attends(x, (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5))


def model_by_library(x):
    return attends(x, ops.layer_norm(x, np.ones(8, x.dtype), np.zeros(8, x.dtype))[0])


def model_token_by_token(x):
    h = np.zeros(x.shape)
    for b, t in np.ndindex(x.shape[:2]):
        centred = x[b, t] - sum(x[b, t]) / 8
        h[b, t] = centred / np.sqrt(sum(centred**2) / 8 + 1e-5)
    return attends(x, h)


def model_by_einsum(x):
    centred = x - np.einsum("bnd->bn", x)[..., None] / 8
    return attends(x, centred / np.sqrt(np.einsum("bnd,bnd->bn", centred, centred)[..., None] / 8 + 1e-5))


def model_with_its_own_attention(x):
    centred = x - x.mean(axis=2, keepdims=True)
    h = centred / np.sqrt((centred**2).mean(axis=2, keepdims=True) + 1e-5)
    s = np.where(np.tri(x.shape[1], dtype=bool), (h @ W_q) @ np.swapaxes(h @ W_k, 1, 2) / np.sqrt(8), -np.inf)
    return x + unguarded(s) @ (h @ W_v)


def model_as_lists(x):
    return model(x).tolist()


def mean_over_positions(x):
    return model(x, axis=1)


def mean_over_all(x):
    return model(x, axis=(1, 2))


def mean_of_the_past(x):
    """Causal, and another model: the mean over positions so far."""
    c = x - np.cumsum(x, axis=1) / np.arange(1, x.shape[1] + 1)[:, None]
    return attends(x, c / np.sqrt((c**2).mean(axis=-1, keepdims=True) + 1e-5))


def not_standardised(x):
    return attends(x, x)


def not_added(x):
    return model(x) - x


def not_centred(x):
    return attends(x, x / x.std(axis=-1, keepdims=True))


def centred_only(x):
    return attends(x, x - x.mean(axis=-1, keepdims=True))


def scaled_over_positions(x):
    c = x - x.mean(axis=-1, keepdims=True)
    return attends(x, c / np.sqrt((c**2).mean(axis=1, keepdims=True) + 1e-5))


def adds_h(x):
    c = x - x.mean(axis=-1, keepdims=True)
    h = c / np.sqrt((c**2).mean(axis=-1, keepdims=True) + 1e-5)
    return attends(x, h) - x + h


def no_mask_at_all(x):
    c = x - x.mean(axis=-1, keepdims=True)
    h = c / np.sqrt((c**2).mean(axis=-1, keepdims=True) + 1e-5)
    return x + ops.attention(h @ W_q, h @ W_k, h @ W_v)[0]


def returns_nothing(x):
    model(x)


LEAKS = ("leak_one", "no_mask", "mask_transposed", "batch_norm", "batch_norm_each", "sees_last", "length_leak",
         "over_masked", "window_of_one", "short_window", "blind", "first_unseen", "batch_reversed")  # fmt: skip


# --- more of both ---------------------------------------------------------------------------------------------------


def by_places(s, lengths):
    """Places that are hidden get -inf, written through an index; rows without a key stay 0."""
    n, m = s.shape[-2:]
    hidden = np.zeros(s.shape, bool)
    hidden |= np.arange(m) > np.arange(m - n, m)[:, None]
    hidden |= np.arange(m) >= np.asarray(lengths)[..., None, None]
    e = np.exp(np.where(hidden, -np.inf, s - np.where(hidden, -np.inf, s).max(-1, keepdims=True, initial=-1e300)))
    e[hidden] = 0
    total = e.sum(axis=-1, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0)


def many_futures(attention):
    """The past's outputs are one set of bits for ten futures."""
    rng = np.random.default_rng(8)
    q, k, v = rng.standard_normal((3, 5, 4))
    for t in range(1, 5):
        seen = set()
        for _ in range(10):
            k[t:], v[t:] = rng.standard_normal((2, 5 - t, 4))
            seen.add(attention(q, k, v, MASK)[0][:t].tobytes())
        if len(seen) > 1:
            return False
    return True


def one_key_after_another(attention):
    """Key j and its value are changed: no query before j has another output."""
    rng = np.random.default_rng(10)
    q, k, v = rng.standard_normal((6, 4)), rng.standard_normal((6, 4)), rng.standard_normal((6, 2))
    mask = np.arange(6) <= np.arange(6)[:, None]
    out = attention(q, k, v, mask)[0]
    for j in range(6):
        other_k, other_v = k.copy(), v.copy()
        other_k[j] -= 2
        other_v[j] += 3
        moved = (attention(q, other_k, other_v, mask)[0] != out).any(axis=-1)
        if np.any(moved & ~mask[:, j]):
            return False
    return True


def a_large_future(attention):
    """Future keys and values become large; no output of the past has another bit."""
    q, k, v = drawn()
    before = attention(q, k, v, MASK)[0]
    for t in (4, 3, 2, 1):
        k[t], v[t] = 50.0 * t, -1e6
        if before[:t].tolist() != attention(q, k, v, MASK)[0][:t].tolist():
            return False
    return True


def model_by_a_matrix(x):
    """Centring is a product with I - 1/8."""
    centred = x @ (np.eye(8) - np.full((8, 8), 0.125))
    length = np.linalg.norm(centred, axis=-1, keepdims=True)
    return attends(x, centred / np.sqrt(length * length / 8 + 1e-5))


RIGHT = {
    "my_masked_softmax": (
        guarded, nan_to_zero, row_by_row, sums_by_einsum, own_copy_in_place, in_place, as_lists, turned,
    ),
    "my_decoder_weights": (
        two_comparisons, a_shifted_triangle, last_rows_of_the_causal_mask, sequence_by_sequence, mask_by_einsum,
        decoder_lists, by_hand(lambda i, j, n, m, length: j <= m - n + i and j < length), by_places,
    ),
    "nothing_leaks": (
        moves_keys_and_values, every_position, prefixes, asserts, in_a_batch_of_float32, many_futures,
        one_key_after_another, a_large_future,
    ),
    "repaired_model": (
        model, model_by_variance, model_by_library, model_token_by_token, model_by_einsum,
        model_with_its_own_attention, model_as_lists, model_by_a_matrix,
    ),
}  # fmt: skip
WRONG = {
    "my_masked_softmax": (
        *((_masked(name), name) for name in SOFTMAX),
        (tutorial, "fill_-1e9"), (infinity, "nan_row"), (afterwards, "mask_after"), (scores_times_mask, "mult_mask"),
        (without_mask, ""),
    ),
    "my_decoder_weights": (
        *((answer, "") for answer in listed("my_decoder_weights")),
        *((by_hand(f), "") for f in (first_queries, strict, only_causal, one_too_many, queries_masked)),
        (forgets_the_axes, ""), (no_softmax, ""), (nan_rows, ""),
    ),
    "nothing_leaks": (
        (compares_with_the_library, ""),
        (moves_values_only, ""), (moves_queries_only, ""), (hidden_weights_are_0, ""), (rows_sum_to_1, ""),
        (demands_that_everything_moves, ""), (demands_that_nothing_moves, ""), (forgets_the_mask, ""),
        (much_too_tolerant, ""), (true, ""), (false, ""), (nothing, ""), (an_array, ""), (raises, ""), (shapes, ""),
    ),
    "repaired_model": (
        (mean_over_positions, "batch_norm"), (mean_over_all, ""), (mean_of_the_past, ""), (not_standardised, ""),
        (not_added, ""), (not_centred, ""), (centred_only, ""), (scaled_over_positions, ""), (adds_h, ""),
        (no_mask_at_all, ""), (returns_nothing, ""),
        *((ZOO["causal_model"].make(frozenset([name])).forward, name.removesuffix("_each")) for name in LEAKS),
    ),
}  # fmt: skip
