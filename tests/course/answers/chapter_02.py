"""Chapter 02: answers to my_attention and knows_the_scale."""

import math

import numpy as np

from tinyattn import ops
from tinyattn.course.exercises import chapter_02 as exercises

from .chapter_01 import (
    always,
    never,
    right_shapes,
    rows_of_weights,
    second_last_axis,
    softmax_by_loops,
    softmax_in_two_lines,
    zoo,
)

# --- my_attention ---------------------------------------------------------------------------------------------------


def attention_in_three_lines(q, k, v):
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    p = softmax_in_two_lines(s)
    return p @ v, p


def attention_with_numpys_root(q, k, v):
    s = np.matmul(q, np.swapaxes(k, -1, -2)) / np.sqrt(k.shape[-1])
    e = np.exp(s - np.max(s, axis=-1, keepdims=True))
    p = e / np.sum(e, axis=-1, keepdims=True)
    return np.matmul(p, v), p


def attention_by_einsum(q, k, v):
    p = softmax_in_two_lines(np.einsum("...nd,...md->...nm", q, k) * q.shape[-1] ** -0.5)
    return np.einsum("...nm,...me->...ne", p, v), p


def attention_by_loops(q, k, v):
    *lead, n, d = q.shape
    m, e = v.shape[-2:]
    out, p = np.zeros((*lead, n, e)), np.zeros((*lead, n, m))
    for at in np.ndindex(*lead):
        for i in range(n):
            s = [sum(q[at][i, c] * k[at][j, c] for c in range(d)) / math.sqrt(d) for j in range(m)]
            p[at][i] = softmax_by_loops(np.array(s))
            for j in range(m):
                out[at][i] += p[at][i, j] * v[at][j]
    return out, p


def attention_scales_the_queries(q, k, v):
    q /= math.sqrt(q.shape[-1])
    p = softmax_in_two_lines(q @ np.moveaxis(k, -1, -2))
    return p @ v, p


def attention_in_lists(q, k, v):
    out, p = attention_in_three_lines(q, k, v)
    return [out.tolist(), p.tolist()]


def attention_turned(q, k, v):
    """A column a query, and everything turned back at the end."""
    s = k @ q.swapaxes(-1, -2) / math.sqrt(q.shape[-1])  # (..., m, n)
    p = second_last_axis(s)
    return (v.swapaxes(-1, -2) @ p).swapaxes(-1, -2), p.swapaxes(-1, -2)


def attention_one_matrix_at_a_time(q, k, v):
    if q.ndim > 2:
        both = [attention_one_matrix_at_a_time(*three) for three in zip(q, k, v, strict=True)]
        return np.stack([out for out, _ in both]), np.stack([p for _, p in both])
    return attention_in_three_lines(q, k, v)


def attention_splits_the_root(q, k, v):
    """The fourth root in the queries, and again in the keys."""
    c = q.shape[-1] ** 0.25
    p = softmax_in_two_lines((q / c) @ (k / c).swapaxes(-1, -2))
    return p @ v, p


def divides_by_the_width_of_the_batch(q, k, v):
    p = softmax_in_two_lines(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[0]))
    return p @ v, p


def divides_the_weights(q, k, v):
    p = softmax_in_two_lines(q @ k.swapaxes(-1, -2)) / math.sqrt(q.shape[-1])
    return p @ v, p


def without_softmax(q, k, v):
    p = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    return p @ v, p


def overflows(q, k, v):
    e = np.exp(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]))
    p = e / e.sum(axis=-1, keepdims=True)
    return p @ v, p


def turns_all_axes(q, k, v):
    p = softmax_in_two_lines(q @ k.T / math.sqrt(q.shape[-1]))
    return p @ v, p


def returns_the_logits(q, k, v):
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    return softmax_in_two_lines(s) @ v, s


def returns_the_output_only(q, k, v):
    return attention_in_three_lines(q, k, v)[0]


def prints_and_returns_nothing(q, k, v):
    print(attention_in_three_lines(q, k, v))


def worst_match_first(q, k, v):
    return attention_in_three_lines(-q, k, v)


# --- knows_the_scale ------------------------------------------------------------------------------------------------


def padded_with_zeros(attention):
    q, k, v = np.random.default_rng(0).standard_normal((3, 5, 4))
    zeros = np.zeros((5, 12))
    wide = attention(np.hstack([q, zeros]), np.hstack([k, zeros]), v)[0]
    return np.allclose(wide, attention(q / 2, k, v)[0])


def repeated_four_times(attention):
    """q·k is four times as large, √d twice: the same as 2 q."""
    q, k, v = np.random.default_rng(1).standard_normal((3, 4, 3))
    return np.allclose(attention(np.tile(q, 4), np.tile(k, 4), v)[1], attention(2 * q, k, v)[1])


def width_one_and_width_nine(attention):
    q, k = np.array([[3.0], [1.0]]), np.array([[1.0], [-1.0], [0.5]])
    v = np.eye(3)
    wide_q, wide_k = np.pad(q * 3, ((0, 0), (0, 8))), np.pad(k, ((0, 0), (0, 8)))
    return np.allclose(attention(wide_q, wide_k, v)[0], attention(q, k, v)[0])


def by_a_known_ratio(attention):
    """One lead of 6, 9 entries: the ratio of the weights is e²."""
    q = np.zeros((1, 9))
    q[0, 0] = 6.0
    k = np.zeros((3, 9))
    k[0, 0] = 1.0
    p = attention(q, k, np.zeros((3, 2)))[1][0]
    return bool(abs(p[0] / p[1] - math.exp(2)) < 1e-9)


def an_oracle(attention):
    rng = np.random.default_rng(2)
    q, k, v = rng.standard_normal((2, 5)), rng.standard_normal((3, 5)), rng.standard_normal((3, 7))
    return np.allclose(attention(q, k, v)[0], attention_in_three_lines(q, k, v)[0])


def asserts_a_log(attention):
    rng = np.random.default_rng()
    q, k, v = rng.standard_normal((2, 7)), rng.standard_normal((3, 7)), rng.standard_normal((3, 2))
    logs = np.log(attention(q, k, v)[1])
    s = q @ k.T / math.sqrt(7)
    assert np.allclose(logs - logs[:, :1], s - s[:, :1])


def an_oracle_on_squares(attention):
    """Cannot tell d from the values' width, or from the number of keys."""
    q, k, v = np.random.default_rng(2).standard_normal((3, 5, 5))
    return np.allclose(attention(q, k, v)[0], attention_in_three_lines(q, k, v)[0])


def not_the_unscaled(attention):
    q, k, v = np.random.default_rng(0).standard_normal((3, 5, 4))
    return not np.allclose(attention(q, k, v)[1], ops.attention(q, k, v, scale=1.0)[1])


def less_sure_than_the_unscaled(attention):
    q, k, v = np.random.default_rng(0).standard_normal((3, 5, 4))
    return bool(attention(q, k, v)[1].max() < ops.attention(q, k, v, scale=1.0)[1].max())


def as_many_keys_as_entries(attention):
    q, k, v = np.random.default_rng(0).standard_normal((3, 4, 4))
    return np.allclose(attention(q, k, v)[0], ops.attention(q, k, v, scale=1 / math.sqrt(len(k)))[0])


def width_one(attention):
    q, k, v = np.random.default_rng(0).standard_normal((3, 4, 1))
    return np.allclose(attention(q, k, v)[0], ops.attention(q, k, v)[0])


def wide_is_flatter(attention):
    q, k, v = np.random.default_rng(0).standard_normal((3, 5, 4))
    wide = attention(np.hstack([q, 0 * q]), np.hstack([k, 0 * k]), v)[1]
    return not np.allclose(wide, attention(q, k, v)[1])


def believes_in_d(attention):
    q, k, v = np.random.default_rng(0).standard_normal((3, 5, 4))
    return np.allclose(attention(q, k, v)[0], ops.attention(q, k, v, scale=1 / 4)[0])


def zeros_change_nothing(attention):
    q, k, v = np.random.default_rng(0).standard_normal((3, 5, 4))
    wide = attention(np.hstack([q, 0 * q]), np.hstack([k, 0 * k]), v)[0]
    return np.allclose(wide, attention(q, k, v)[0])


def random_weights_are_not_sure(attention):
    q, k, v = np.random.default_rng(0).standard_normal((3, 16, 256))
    return bool(attention(q, k, v)[1].max(axis=-1).mean() < 0.5)


def divides_by_a_number(attention):
    q, k, v = np.random.default_rng(0).standard_normal((3, 5, 4))
    return attention(q, k, v)[0] / ops.attention(q, k, v)[0]


# --- more of both ---------------------------------------------------------------------------------------------------


def by_two_known_weights(attention):
    """d 16, one lead of 8: weights e² / (e² + 3), for values of any width."""
    q, k = np.zeros((1, 16)), np.zeros((4, 16))
    q[0, 3], k[2, 3] = 8.0, 1.0
    out = attention(q, k, np.array([[0.0], [0.0], [1.0], [0.0]]))[0]
    return np.isclose(out[0, 0], np.exp(2) / (np.exp(2) + 3))


def turned_into_a_divisor(attention):
    """The divisor itself, measured from one ratio of weights, in several widths."""
    rng = np.random.default_rng(3)
    for d, m, e in ((2, 3, 5), (6, 4, 3), (10, 7, 2)):
        q, k, v = rng.standard_normal((1, d)), rng.standard_normal((m, d)), rng.standard_normal((m, e))
        p, s = attention(q, k, v)[1][0], (q @ k.T)[0]
        divisor = (s[0] - s[1]) / np.log(p[0] / p[1])
        if abs(divisor - d**0.5) > 1e-6:
            return False
    return True


def one_entry_wide(attention):
    """For d = 1 the root, d itself and nothing are all 1."""
    q, k, v = np.random.default_rng(0).standard_normal((3, 5, 1))
    p = np.exp(q @ k.T)
    return np.allclose(attention(q, k, v)[1], p / p.sum(axis=1, keepdims=True))


RIGHT = {
    "my_attention": (
        attention_in_three_lines, attention_with_numpys_root, attention_by_einsum, attention_by_loops,
        attention_scales_the_queries, attention_in_lists, attention_turned, attention_one_matrix_at_a_time,
        attention_splits_the_root,
    ),
    "knows_the_scale": (
        padded_with_zeros, repeated_four_times, width_one_and_width_nine, by_a_known_ratio, an_oracle, asserts_a_log,
        by_two_known_weights, turned_into_a_divisor,
    ),
}  # fmt: skip

WRONG = {
    "my_attention": (
        *((zoo("attention", name), name) for name in (
            "no_scale", "scale_d", "scale_mult", "scale_of_v", "scale_of_keys", "softmax_axis", "softmax_flat",
            "no_normalise", "no_rowmax", "global_max", "keys_as_values", "cosine")),
        *((wrong, "") for wrong in exercises.WRONG_ATTENTION.values()),
        (divides_by_the_width_of_the_batch, ""),
        (divides_the_weights, ""),
        (without_softmax, ""),
        (overflows, "no_rowmax"),
        (turns_all_axes, ""),
        (returns_the_logits, ""),
        (returns_the_output_only, ""),
        (prints_and_returns_nothing, ""),
        (worst_match_first, ""),
    ),
    "knows_the_scale": tuple(
        (wrong, "") for wrong in (
            an_oracle_on_squares, not_the_unscaled, less_sure_than_the_unscaled, as_many_keys_as_entries, width_one,
            wide_is_flatter, believes_in_d, zeros_change_nothing, random_weights_are_not_sure, divides_by_a_number,
            rows_of_weights, right_shapes, always, never, one_entry_wide)
    ),
}  # fmt: skip
