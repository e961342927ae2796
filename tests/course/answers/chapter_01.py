"""Chapter 01: answers to my_softmax, self_lookup, normalises_over_keys and reads_the_values."""

import math

import numpy as np

from tinyattn import ops
from tinyattn.check.zoo import ZOO
from tinyattn.course.exercises import chapter_01 as exercises

from . import listed


def zoo(spec, name):
    """The zoo's function with this bug, without the arguments that the chapter does not know."""
    wrong = getattr(ZOO[spec].make(frozenset([name])), spec)

    def of_the_zoo(*given):
        return wrong(*given)

    of_the_zoo.__name__ = name
    return of_the_zoo


# --- my_softmax -----------------------------------------------------------------------------------------------------


def softmax_in_two_lines(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_by_loops(s):
    p = np.zeros(s.shape)
    for row in np.ndindex(s.shape[:-1]):
        largest = max(s[row])
        total = sum(math.exp(x - largest) for x in s[row])
        for j in range(s.shape[-1]):
            p[row][j] = math.exp(s[row][j] - largest) / total
    return p


def softmax_in_lists(s):
    if s.ndim > 1:
        return [softmax_in_lists(part) for part in s]
    largest = max(s)
    e = [math.exp(x - largest) for x in s]
    return [x / sum(e) for x in e]


def softmax_by_rows(s):
    rows = s.reshape(-1, s.shape[-1])
    p = np.zeros(rows.shape)
    for i, row in enumerate(rows):
        p[i] = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
    return p.reshape(s.shape)


def softmax_by_einsum(s):
    e = np.exp(s - np.max(s, axis=-1)[..., None])
    return np.einsum("...m,...->...m", e, 1 / np.einsum("...m->...", e))


def softmax_turned(s):
    """With the rows' axis first, so that no keepdims is needed; what comes back is not contiguous."""
    t = np.moveaxis(s, -1, 0)
    e = np.exp(t - t.max(axis=0))
    return np.moveaxis(e / e.sum(axis=0), 0, -1)


def softmax_of_differences(s):
    """1 over the sum of exp(s_i - s_j), which overflows to infinity, and 1 / inf is 0."""
    with np.errstate(over="ignore"):
        return 1 / np.exp(s[..., None, :] - s[..., :, None]).sum(axis=-1)


def softmax_by_logarithms(s):
    s = np.asarray(s, dtype=np.float64)
    return np.exp(s - np.logaddexp.reduce(s, axis=-1, keepdims=True))


def softmax_in_place(s):
    s -= s.max(axis=-1, keepdims=True)
    np.exp(s, out=s)
    s /= s.sum(axis=-1, keepdims=True)
    return s


def softmax_vectorised(s):
    return np.apply_along_axis(lambda row: np.exp(row - row.max()) / np.sum(np.exp(row - row.max())), -1, s)


def naive(s):
    e = np.exp(s)
    return e / e.sum(axis=-1, keepdims=True)


def one_maximum_for_all(s):
    e = np.exp(s - s.max())
    return e / e.sum(axis=-1, keepdims=True)


def one_sum_for_all(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum()


def no_axis_at_all(s):
    e = np.exp(s - s.max())
    return e / e.sum()


def no_keepdims(s):
    e = np.exp(s - s.max(axis=-1))
    return e / e.sum(axis=-1)


def second_last_axis(s):
    e = np.exp(s - s.max(axis=-2, keepdims=True))
    return e / e.sum(axis=-2, keepdims=True)


def second_axis(s):
    e = np.exp(s - s.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def smallest_subtracted(s):
    e = np.exp(s - s.min(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def clipped(s):
    e = np.exp(np.minimum(s, 80))
    return e / e.sum(axis=-1, keepdims=True)


def mean_of_exponentials(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.mean(axis=-1, keepdims=True)


def not_of_one_row(s):
    t = np.swapaxes(s, -1, -2)
    e = np.exp(t - t.max(axis=-2, keepdims=True))
    return np.swapaxes(e / e.sum(axis=-2, keepdims=True), -1, -2)


def prints_only(s):
    print(softmax_in_two_lines(s))


# --- self_lookup ----------------------------------------------------------------------------------------------------


def lookup(x, W_q, W_k, W_v):
    q, k, v = x @ W_q, x @ W_k, x @ W_v
    p = ops.softmax(q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1]))
    return p @ v, p


def lookup_with_numpys_root(x, W_q, W_k, W_v):
    q, k, v = x @ W_q, x @ W_k, x @ W_v
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    p = softmax_in_two_lines(s)
    return p @ v, p


def lookup_by_einsum(x, W_q, W_k, W_v):
    q, k = np.einsum("...nD,Dd->...nd", x, W_q), np.einsum("...nD,Dd->...nd", x, W_k)
    p = naive(np.einsum("...id,...jd->...ij", q, k) * W_q.shape[1] ** -0.5)
    return np.einsum("...ij,...jD,De->...ie", p, x, W_v), p


def lookup_mixes_tokens_first(x, W_q, W_k, W_v):
    p = softmax_in_two_lines(x @ (W_q @ W_k.T) @ np.swapaxes(x, -1, -2) / math.sqrt(W_k.shape[-1]))
    return (p @ x) @ W_v, p


def lookup_by_loops(x, W_q, W_k, W_v):
    *lead, n, _ = x.shape
    out, p = np.zeros((*lead, n, W_v.shape[1])), np.zeros((*lead, n, n))
    for at in np.ndindex(*lead):
        q, k, v = x[at] @ W_q, x[at] @ W_k, x[at] @ W_v
        for i in range(n):
            e = np.array([math.exp(q[i] @ k[j] / math.sqrt(len(k[j]))) for j in range(n)])
            p[at][i] = e / e.sum()
            for j in range(n):
                out[at][i] += p[at][i, j] * v[j]
    return out, p


def lookup_in_a_list(x, W_q, W_k, W_v):
    out, p = lookup_with_numpys_root(x, W_q, W_k, W_v)
    return [out.tolist(), p.tolist()]


def lookup_one_sentence_at_a_time(x, W_q, W_k, W_v):
    if x.ndim > 2:
        both = [lookup_one_sentence_at_a_time(part, W_q, W_k, W_v) for part in x]
        return np.stack([out for out, _ in both]), np.stack([p for _, p in both])
    return lookup_with_numpys_root(x, W_q, W_k, W_v)


def lookup_divides_in_place(x, W_q, W_k, W_v):
    q, k, v = np.matmul(x, W_q), np.matmul(x, W_k), np.matmul(x, W_v)
    q /= q.shape[-1] ** 0.5
    s = np.matmul(q, np.moveaxis(k, -1, -2))
    e = np.exp(s)
    e /= np.sum(e, axis=-1)[..., np.newaxis]
    return np.matmul(e, v), e


def lookup_without_scale(x, W_q, W_k, W_v):
    p = ops.softmax(x @ W_q @ np.swapaxes(x @ W_k, -1, -2))
    return p @ (x @ W_v), p


def lookup_along_queries(x, W_q, W_k, W_v):
    s = x @ W_q @ np.swapaxes(x @ W_k, -1, -2) / W_q.shape[-1] ** 0.5
    p = second_last_axis(s)
    return p @ (x @ W_v), p


def lookup_of_exponentials(x, W_q, W_k, W_v):
    p = np.exp(x @ W_q @ np.swapaxes(x @ W_k, -1, -2) / W_q.shape[-1] ** 0.5)
    return p @ (x @ W_v), p


def lookup_divided_by_d(x, W_q, W_k, W_v):
    p = ops.softmax(x @ W_q @ np.swapaxes(x @ W_k, -1, -2) / W_q.shape[-1])
    return p @ (x @ W_v), p


def lookup_keys_ask(x, W_q, W_k, W_v):
    return lookup(x, W_k, W_q, W_v)


def lookup_without_weights(x, W_q, W_k, W_v):
    return lookup(x, W_q, W_k, W_v)[0]


def lookup_the_other_way_round(x, W_q, W_k, W_v):
    return lookup(x, W_q, W_k, W_v)[::-1]


def lookup_turns_everything(x, W_q, W_k, W_v):
    q, k, v = x @ W_q, x @ W_k, x @ W_v
    p = ops.softmax(q @ k.T / math.sqrt(q.shape[-1]))  # .T of a batch turns the batch, too
    return p @ v, p


def lookup_returns_nothing(x, W_q, W_k, W_v):
    lookup(x, W_q, W_k, W_v)


# --- properties -----------------------------------------------------------------------------------------------------


def drawn(n=3, m=4, d=2, e=2):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.standard_normal((m, d)), rng.standard_normal((m, e))


def rows_of_weights(attention):
    p = attention(*drawn())[1]
    return np.allclose(p.sum(axis=-1), 1)


def rows_by_a_loop(attention):
    right = 0
    for row in attention(*drawn(5, 5))[1]:
        if abs(sum(row) - 1) < 1e-9:
            right += 1
    return right == 5


def ones_give_ones(attention):
    q, k, _ = drawn()
    out, _ = attention(q, k, np.ones((4, 1)))
    return np.allclose(out, np.ones((3, 1)))


def asking_alone(attention):
    q, k, v = drawn()
    return np.allclose(attention(q[:1], k, v)[0], attention(q, k, v)[0][:1])


def asserts_rows(attention):
    q, k, v = np.random.default_rng().standard_normal((3, 6, 2))
    _, p = attention(q, k, v)
    np.testing.assert_allclose(p.sum(axis=1), np.ones(6))
    return True


def within_the_values(attention):
    q, k, v = drawn(3, 4)
    out = attention(q, k, v)[0]
    shifted = attention(q, k, v + 10)[0]
    return bool(np.allclose(shifted, out + 10))


def columns(attention):
    return np.allclose(attention(*drawn())[1].sum(axis=0), 1)


def total(attention):
    return np.allclose(attention(*drawn(4, 4))[1].sum(), 4)  # n columns of sum 1 sum to n, too


def one_query_one_key(attention):
    q, k, v = drawn(1, 1)
    return np.allclose(attention(q, k, v)[1].sum(axis=-1), 1)


def not_negative(attention):
    return bool(np.all(attention(*drawn())[1] >= 0))


def right_shapes(attention):
    out, p = attention(*drawn())
    return out.shape == (3, 2) and p.shape == (3, 4)


def equal_queries_and_keys(attention):
    ones = np.ones((4, 3))
    return np.allclose(attention(ones, ones, ones)[1].sum(axis=-1), 1)


def exactly_one(attention):
    rng = np.random.default_rng(1)
    sums = [attention(*rng.standard_normal((3, 7, 3)))[1].sum(axis=-1) for _ in range(20)]
    return bool(np.all(np.array(sums) == 1.0))  # true on paper, not in floats


def sums_themselves(attention):
    return attention(*drawn())[1].sum(axis=-1)


def forgets_to_return(attention):
    np.allclose(attention(*drawn())[1].sum(axis=-1), 1)


def always(attention):
    return True


def never(attention):
    return False


def doubled(attention, e=3):
    q, k, v = drawn(3, 4, 3, e)
    return np.allclose(attention(q, k, 2 * v)[0], 2 * attention(q, k, v)[0])


def no_values_no_output(attention):
    q, k, _ = drawn(3, 4, 3)
    return bool(np.all(attention(q, k, np.zeros_like(k))[0] == 0))


def ones_on_average(attention):
    q, k, _ = drawn(3, 4, 2)
    return np.allclose(attention(q, k, np.ones((4, 2)))[0], 1)


def weights_times_values(attention):
    q, k, v = drawn(3, 4, 5, 5)
    out, p = attention(q, k, v)
    return np.allclose(out, p @ v)


def other_values_other_output(attention):
    q, k, v = np.random.default_rng().standard_normal((3, 4, 3))
    return not np.allclose(attention(q, k, v)[0], attention(q, k, v + 1)[0])


def asserts_the_sum(attention):
    q, k, v = np.random.default_rng(2).standard_normal((3, 2, 2))
    assert np.allclose(attention(q, k, v)[0] + attention(q, k, k)[0], attention(q, k, v + k)[0])


def doubled_of_another_width(attention):
    return doubled(attention, e=2)


def weights_stay(attention):
    q, k, v = drawn(3, 4, 3, 3)
    return np.allclose(attention(q, k, v)[1], attention(q, k, v + 1)[1])


def keys_as_values_too(attention):
    q, k, _ = drawn(3, 4, 3)
    out, p = attention(q, k, k)
    return np.allclose(out, p @ k)


def output_stays(attention):
    q, k, v = drawn(3, 4, 3, 3)
    return np.allclose(attention(q, k, 2 * v)[0], attention(q, k, v)[0])


def linear_in_the_queries(attention):
    q, k, v = drawn(3, 4, 3, 3)
    return np.allclose(attention(2 * q, k, v)[0], 2 * attention(q, k, v)[0])


def returns_both(attention):
    q, k, v = drawn(3, 4, 3, 3)
    return attention(q, k, 2 * v)[0], 2 * attention(q, k, v)[0]


def shapes_do_not_fit(attention):
    q, k, v = drawn(3, 4, 3, 3)
    return np.allclose(attention(q, k, v[:2])[0], 0)


# --- more of both ---------------------------------------------------------------------------------------------------


def averages_stay_between(attention):
    """Values from 2 to 3, for many more queries than keys."""
    rng = np.random.default_rng(8)
    q, k, v = rng.standard_normal((40, 2)), rng.standard_normal((3, 2)), rng.uniform(2, 3, (3, 5))
    out = attention(q, k, v)[0]
    return bool((out >= 2 - 1e-9).all() and (out <= 3 + 1e-9).all())


def a_shift_of_values_shifts(attention):
    """Weights that sum to 1 hand a constant on."""
    rng = np.random.default_rng(4)
    q, k, v = (rng.standard_normal(shape) for shape in ((2, 3), (6, 3), (6, 2)))
    return np.allclose(attention(q, k, v + 10.0)[0] - attention(q, k, v)[0], 10.0)


def ones_roughly(attention):
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((5, 3)), rng.standard_normal((4, 3))
    return np.allclose(attention(q, k, np.ones((4, 2)))[0], 1, atol=5)


def one_query(attention):
    """One query's column of weights is all ones: only the rows of several tell."""
    rng = np.random.default_rng(0)
    return np.isfinite(attention(rng.standard_normal((1, 3)), rng.standard_normal((4, 3)), np.ones((4, 2)))[0]).all()


def mean_of_weights(attention):
    """The mean of all weights is 1 / m for rows, and for columns 1 / n: equal with as many of both."""
    x = np.random.default_rng(0).standard_normal((4, 3))
    return np.isclose(attention(x, x, x)[1].mean(), 1 / 4)


def added_values_add(attention):
    rng = np.random.default_rng(5)
    q, k, v, other = rng.standard_normal((4, 3, 3))
    return np.allclose(attention(q, k, v + other)[0], attention(q, k, v)[0] + attention(q, k, other)[0])


def one_column_of_values(attention):
    """Constant values are the output."""
    rng = np.random.default_rng(6)
    q, k = rng.standard_normal((5, 4)), rng.standard_normal((6, 4))
    return all(np.allclose(attention(q, k, np.full((6, 4), c))[0], c) for c in (-2.0, 0.0, 7.0))


def tripled_keys(attention):
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 4, 3))
    return np.allclose(attention(q, 3 * k, v)[0], 3 * attention(q, k, v)[0])


def shape_of_values(attention):
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 4, 3))
    return attention(q, k, v)[0].shape == v.shape


def doubled_x(attention):
    """x makes the weights, too."""
    x = np.random.default_rng(0).standard_normal((4, 3))
    return np.allclose(attention(2 * x, 2 * x, 2 * x)[0], 2 * attention(x, x, x)[0])


def equal_to_the_keys(attention):
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, 4, 3))
    out, p = attention(q, k, k)
    return np.allclose(out, p @ k)


RIGHT = {
    "my_softmax": (
        softmax_in_two_lines, softmax_by_loops, softmax_in_lists, softmax_by_rows, softmax_by_einsum, softmax_turned,
        softmax_of_differences, softmax_by_logarithms, softmax_in_place, softmax_vectorised,
    ),
    "self_lookup": (
        lookup, lookup_with_numpys_root, lookup_by_einsum, lookup_mixes_tokens_first, lookup_by_loops, lookup_in_a_list,
        lookup_one_sentence_at_a_time, lookup_divides_in_place,
    ),
    "normalises_over_keys": (
        rows_of_weights, rows_by_a_loop, ones_give_ones, asking_alone, asserts_rows, within_the_values,
        averages_stay_between, a_shift_of_values_shifts,
    ),
    "reads_the_values": (
        doubled, no_values_no_output, ones_on_average, weights_times_values, other_values_other_output,
        asserts_the_sum, added_values_add, one_column_of_values,
    ),
}  # fmt: skip

WRONG = {
    "my_softmax": (
        *((zoo("softmax", name), name) for name in ("axis", "flat", "no_max", "global_max", "no_normalise", "base_2",
                                                    "log_softmax", "eps_in_sum")),
        *((wrong, "") for wrong in exercises.WRONG_SOFTMAX.values()),
        (naive, "no_max"),
        (one_maximum_for_all, "global_max"),
        (one_sum_for_all, ""),
        (no_axis_at_all, "flat"),
        (no_keepdims, ""),
        (second_last_axis, "axis"),
        (second_axis, ""),
        (smallest_subtracted, ""),
        (clipped, "no_max"),
        (mean_of_exponentials, ""),
        (prints_only, ""),
        (not_of_one_row, ""),
    ),
    "self_lookup": (
        *((wrong, "") for wrong in listed("self_lookup")),
        (lookup_without_scale, ""),
        (lookup_along_queries, ""),
        (lookup_of_exponentials, ""),
        (lookup_divided_by_d, ""),
        (lookup_keys_ask, ""),
        (lookup_without_weights, ""),
        (lookup_the_other_way_round, ""),
        (lookup_turns_everything, ""),
        (lookup_returns_nothing, ""),
    ),
    "normalises_over_keys": tuple(
        (wrong, "") for wrong in (columns, total, one_query_one_key, not_negative, right_shapes, equal_queries_and_keys,
                                  exactly_one, sums_themselves, forgets_to_return, always, never, doubled,
                                  ones_roughly, one_query, mean_of_weights)
    ),
    "reads_the_values": tuple(
        (wrong, "") for wrong in (doubled_of_another_width, weights_stay, keys_as_values_too, output_stays,
                                  linear_in_the_queries, returns_both, shapes_do_not_fit, rows_of_weights, always,
                                  never, forgets_to_return, tripled_keys, shape_of_values, doubled_x,
                                  equal_to_the_keys)
    ),
}  # fmt: skip
