"""Answers to the exercises of chapter 23, after SASRec."""

import math

import numpy as np

from tinyattn import ops

from . import listed


def turned(x):
    return np.swapaxes(x, -1, -2)


# --- my_pointwise_backward ------------------------------------------------------------------------------------------


def as_derived(dout, q, k, v, s):
    m = s.shape[-1]
    gate = 1 / (1 + np.exp(-np.clip(s, -80, 80)))
    da = dout @ turned(v)
    ds = da * (gate + s * gate * (1 - gate)) / m
    return ds @ k, turned(ds) @ q, turned(s * gate) @ dout / m


def by_the_librarys_silu(dout, q, k, v, s):
    m = k.shape[-2]
    ds = ops.silu_backward(dout @ turned(v) / m, s)
    return [ds @ k, turned(ds) @ q, turned(ops.silu(s) / m) @ dout]


def by_einsum(dout, q, k, v, s):
    m, g = s.shape[-1], ops.sigmoid(s)
    ds = np.einsum("...ne,...me->...nm", dout, v) * (g * (1 + s * (1 - g))) / m
    dq, dk = np.einsum("...nm,...md->...nd", ds, k), np.einsum("...nm,...nd->...md", ds, q)
    return dq, dk, np.einsum("...nm,...ne->...me", s * g / m, dout)


def by_loops(dout, q, k, v, s):
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    n, m = s.shape[-2:]
    for at in np.ndindex(s.shape[:-2]):
        for i in range(n):
            for j in range(m):
                x = float(s[at][i, j])
                g = 1 / (1 + math.exp(-x)) if x > 0 else math.exp(max(x, -700)) / (1 + math.exp(max(x, -700)))
                ds = (dout[at][i] @ v[at][j]) * g * (1 + x * (1 - g)) / m
                dq[at][i] += ds * k[at][j]
                dk[at][j] += ds * q[at][i]
                dv[at][j] += x * g / m * dout[at][i]
    return dq, dk, dv


def by_tanh(dout, q, k, v, s):
    """σ(s) is (1 + tanh(s / 2)) / 2."""
    gate = 0.5 * (1 + np.tanh(0.5 * s))
    slope = gate + s * 0.25 * (1 - np.tanh(0.5 * s) ** 2)
    c = 1.0 / s.shape[-1]
    ds = c * slope * np.matmul(dout, turned(v))
    return np.matmul(ds, k), np.matmul(turned(ds), q), c * np.matmul(turned(s * gate), dout)


def by_a_diagonal_jacobian(dout, q, k, v, s):
    m, gate = s.shape[-1], ops.sigmoid(s)
    J = np.eye(m) * (gate * (1 + s * (1 - gate)) / m)[..., None, :]
    ds = (J @ (dout @ turned(v))[..., None])[..., 0]
    return ds @ k, turned(ds) @ q, turned(gate * s / m) @ dout


def by_the_library(dout, q, k, v, s):
    return ops.pointwise_attention_backward(dout, q, k, v, s)[:3]


def in_silu(dout, q, k, v, s):
    """silu' = σ + silu (1 - σ)."""
    gate = ops.sigmoid(s)
    y = s * gate
    ds = dout @ turned(v)
    ds *= gate + y * (1 - gate)
    ds /= s.shape[-1]
    y /= s.shape[-1]
    return ds @ k, turned(ds) @ q, turned(y) @ dout


def one_missing(dout, q, k, v, s):
    return by_the_library(dout, q, k, v, s)[:2]


# --- repaired_time_bias ---------------------------------------------------------------------------------------------


def one_line(times, table):
    return table[np.minimum(np.log(np.maximum(times[:, None] - times, 1)) / 0.301, len(table) - 1).astype(int)]


def with_a_loop(times, table):
    n = len(times)
    bias = np.empty((n, n), table.dtype)
    for i in range(n):
        for j in range(n):
            passed = max(float(times[i] - times[j]), 1.0)
            bias[i, j] = table[min(int(math.log(passed) / 0.301), len(table) - 1)]
    return bias


def by_subtract_outer(times, table):
    bucket = (np.log(np.clip(np.subtract.outer(times, times), 1, None)) / 0.301).astype(int)
    return np.take(table, np.clip(bucket, 0, len(table) - 1))


def by_the_librarys_buckets(times, table):
    return table[ops.time_buckets(np.asarray(times)[None], len(table))[0]]


def floored(times, table):
    passed = np.where(times[:, None] > times[None], times[:, None] - times[None], 1)
    return table[np.minimum(np.floor(np.log(np.maximum(passed, 1)) / 0.301).astype(np.int64), table.size - 1)]


def rows(times, table):
    found = []
    for now in times:
        passed = np.maximum(now - times, 1)
        found.append(table[np.minimum((np.log(passed) / 0.301).astype(int), len(table) - 1)])
    return np.stack(found)


def one_hot(times, table):
    bucket = np.minimum((np.log(np.maximum(times[:, None] - times, 1)) / 0.301).astype(int), len(table) - 1)
    return np.eye(len(table))[bucket] @ table


def lists(times, table):
    return with_a_loop(times, table).tolist()


def one_row(times, table):
    return one_line(times, table)[-1]


# --- reads_no_later_time --------------------------------------------------------------------------------------------

HISTORY = 1.6e9 + np.array([0.0, 7, 200, 9e3, 4e5, 4.4e5, 7e6])
TABLE = np.random.default_rng(3).standard_normal(128)


def later(i, times=HISTORY, by=1e7):
    """The times with those after item i moved, each by another number, in order."""
    moved = times.copy()
    moved[i + 1 :] += by * np.arange(1, len(times) - i)
    return moved


def each_query(time_bias):
    bias = time_bias(HISTORY, TABLE)
    return all(np.allclose(time_bias(later(i), TABLE)[i, : i + 1], bias[i, : i + 1]) for i in range(6))


def all_rows_up_to_i(time_bias):
    bias = time_bias(HISTORY, TABLE)
    for i in range(len(HISTORY)):
        moved = time_bias(later(i), TABLE)
        if not np.array_equal(np.tril(moved[: i + 1, : i + 1]), np.tril(bias[: i + 1, : i + 1])):
            return False
    return True


def asserts(time_bias):
    bias = np.tril(time_bias(HISTORY, TABLE))
    for i in range(6):
        np.testing.assert_array_equal(np.tril(time_bias(later(i, by=3e6), TABLE))[: i + 1], bias[: i + 1])


def random_times(time_bias):
    rng = np.random.default_rng(8)
    for _ in range(10):
        times = 1e9 + np.cumsum(10 ** rng.uniform(0, 6, 8))
        other = times.copy()
        i = int(rng.integers(7))
        for i in range(7):
            other = np.concatenate([times[: i + 1], times[i] + np.cumsum(10 ** rng.uniform(3, 8, 7 - i))])
            one, two = time_bias(times, TABLE), time_bias(other, TABLE)
            if np.any(one[i, : i + 1] != two[i, : i + 1]):
                return False
    return True


def cut_off(time_bias):
    """A shorter history: what a query has when nothing comes later."""
    bias = time_bias(HISTORY, TABLE)
    for i in range(1, 7):
        if not np.allclose(time_bias(HISTORY[:i], TABLE)[i - 1, :i], bias[i - 1, :i], atol=1e-9):
            return False
        if not np.allclose(np.tril(time_bias(HISTORY[:i], TABLE)), np.tril(bias[:i, :i]), atol=1e-9):
            return False
    return True


def squeezed(time_bias):
    """All later items come at the same time as the query's."""
    bias = time_bias(HISTORY, TABLE)
    for i in range(6):
        times = np.minimum(HISTORY, HISTORY[i])
        if np.abs(time_bias(times, TABLE)[i, : i + 1] - bias[i, : i + 1]).max() > 0:
            return False
    return True


def as_a_numpy_bool(time_bias):
    bias = time_bias(HISTORY, TABLE)
    same = [np.all(time_bias(later(i), TABLE)[i, : i + 1] == bias[i, : i + 1]) for i in range(6)]
    return np.all(same)


def one_later_item_at_a_time(time_bias):
    bias = time_bias(HISTORY, TABLE)
    for j in range(1, 7):
        for by in (0.45, 0.02):
            times = HISTORY.copy()
            top = HISTORY[j + 1] if j < 6 else HISTORY[j] * 1.05
            times[j] += by * (top - times[j])
            moved = time_bias(times, TABLE)
            if not np.array_equal(np.tril(moved)[:j], np.tril(bias)[:j]):
                return False
    return True


def whole_rows(time_bias):
    """Also condemns what the mask hides."""
    bias = time_bias(HISTORY, TABLE)
    return all(np.array_equal(time_bias(later(i), TABLE)[i], bias[i]) for i in range(6))


def all_moved(time_bias):
    bias = time_bias(HISTORY, TABLE)
    return np.allclose(time_bias(HISTORY + 1e6, TABLE), bias)


def last_moved_only(time_bias):
    """Looks at the row of the last query but one, and moves the last time by a little."""
    bias, times = time_bias(HISTORY, TABLE), HISTORY.copy()
    times[-1] += 1
    return np.array_equal(time_bias(times, TABLE)[-2], bias[-2])


def first_query(time_bias):
    return time_bias(HISTORY, TABLE)[0, 0] == time_bias(later(0), TABLE)[0, 0]


def left_of_the_diagonal(time_bias):
    bias = time_bias(HISTORY, TABLE)
    return all(np.array_equal(time_bias(later(i), TABLE)[i, :i], bias[i, :i]) for i in range(6))


def moved_together(time_bias):
    """By one number, so that steps between later items stay."""
    bias = time_bias(HISTORY, TABLE)
    for i in range(2, 5):
        times = HISTORY.copy()
        times[i + 1 :] += 1e4
        if not np.array_equal(time_bias(times, TABLE)[i, : i + 1], bias[i, : i + 1]):
            return False
    return True


def nearly(time_bias):
    bias = time_bias(HISTORY, TABLE)
    return all(np.allclose(time_bias(later(i), TABLE)[i, : i + 1], bias[i, : i + 1], atol=0.1) for i in range(6))


def earlier_moved(time_bias):
    bias, times = time_bias(HISTORY, TABLE), HISTORY.copy()
    times[0] -= 1e6
    return np.array_equal(time_bias(times, TABLE)[1:], bias[1:])


def its_own_time_moved(time_bias):
    bias = time_bias(HISTORY, TABLE)
    return all(np.array_equal(time_bias(later(i - 1), TABLE)[i, :i], bias[i, :i]) for i in range(1, 7))


def the_librarys(time_bias):
    bias = ops.time_buckets(HISTORY[None])[0]
    return np.array_equal(time_bias(HISTORY, TABLE), TABLE[bias])


def the_librarys_triangle(time_bias):
    return np.array_equal(np.tril(time_bias(HISTORY, TABLE)), np.tril(one_line(HISTORY, TABLE)))


def triangular(time_bias):
    return np.array_equal(np.triu(time_bias(HISTORY, TABLE), 1), np.zeros((7, 7)))


def later_keys_alike(time_bias):
    bias = time_bias(HISTORY, TABLE)
    return all(np.ptp(bias[i, i + 1 :]) == 0 for i in range(5))


def sums(time_bias):
    bias = time_bias(HISTORY, TABLE)
    return abs(time_bias(later(3), TABLE).sum() - bias.sum()) < 1e-9


def opposite(time_bias):
    return not each_query(time_bias)


def forgets_to_return(time_bias):
    each_query(time_bias)


def always(time_bias):
    return True


# --- my_comparison --------------------------------------------------------------------------------------------------


def chosen(valid, test):
    return test[np.argmax(np.mean(valid, axis=(1, 2)))]


def in_steps(valid_a, test_a, valid_b, test_b):
    a, b = chosen(valid_a, test_a), chosen(valid_b, test_b)
    d = np.mean(a, axis=0) - np.mean(b, axis=0)
    people = np.std(d, ddof=1) / np.sqrt(len(d))
    seeds = np.sqrt(np.var(a.mean(1), ddof=1) / a.shape[0] + np.var(b.mean(1), ddof=1) / b.shape[0])
    return d.mean(), people, seeds


def reshaped(valid_a, test_a, valid_b, test_b):
    best = [int(v.reshape(len(v), -1).mean(1).argmax()) for v in (valid_a, valid_b)]
    a, b = test_a[best[0]], test_b[best[1]]
    d = a.mean(0) - b.mean(0)
    return a.mean() - b.mean(), d.std(ddof=1) / math.sqrt(d.size), math.hypot(
        *(x.mean(1).std(ddof=1) / math.sqrt(len(x)) for x in (a, b)))  # fmt: skip


def python_only(valid_a, test_a, valid_b, test_b):
    def mean(x):
        return sum(x) / len(x)

    def variance(x):
        centre = mean(x)
        return sum((y - centre) ** 2 for y in x) / (len(x) - 1)

    def best(valid, test):
        means = [mean([mean(seed.tolist()) for seed in setting]) for setting in valid]
        return test[means.index(max(means))].tolist()

    a, b = best(valid_a, test_a), best(valid_b, test_b)
    d = [mean(x) - mean(y) for x, y in zip(zip(*a, strict=True), zip(*b, strict=True), strict=True)]
    seeds = sum(variance([mean(run) for run in x]) / len(x) for x in (a, b))
    return mean(d), (variance(d) / len(d)) ** 0.5, seeds**0.5


def by_all_pairs(valid_a, test_a, valid_b, test_b):
    """The difference as the mean of all pairs of seeds."""
    a, b = chosen(valid_a, test_a), chosen(valid_b, test_b)
    d = (a[:, None] - b[None]).mean(axis=(0, 1))
    errors = [np.var([run.mean() for run in x], ddof=1) / len(x) for x in (a, b)]
    return d.mean(), np.sqrt(np.sum((d - d.mean()) ** 2) / (len(d) - 1) / len(d)), np.sqrt(sum(errors))


def by_sorting(valid_a, test_a, valid_b, test_b):
    a, b = (t[np.argsort(v.sum(axis=(1, 2)))[-1]] for v, t in ((valid_a, test_a), (valid_b, test_b)))
    d = a.mean(axis=0) - b.mean(axis=0)
    return [d.mean(), d.std(ddof=1) * len(d) ** -0.5,
            (a.mean(1).var(ddof=1) / len(a) + b.mean(1).var(ddof=1) / len(b)) ** 0.5]  # fmt: skip


def by_covariance(valid_a, test_a, valid_b, test_b):
    """The variance of a difference: both variances less twice the covariance."""
    a, b = chosen(valid_a, test_a), chosen(valid_b, test_b)
    C = np.cov(a.mean(0), b.mean(0))
    seeds = np.cov(a.mean(1)) / len(a) + np.cov(b.mean(1)) / len(b)
    people = max(C[0, 0] + C[1, 1] - 2 * C[0, 1], 0) / a.shape[1]
    return np.mean(a) - np.mean(b), people**0.5, seeds**0.5


def with_a_loop_over_settings(valid_a, test_a, valid_b, test_b):
    both = []
    for valid, test in ((valid_a, test_a), (valid_b, test_b)):
        best, high = 0, -np.inf
        for i in range(len(valid)):
            if valid[i].mean() > high:
                best, high = i, valid[i].mean()
        both.append(test[best])
    d = both[0].mean(axis=0) - both[1].mean(axis=0)
    over_seeds = np.sqrt(sum(x.mean(axis=1).var(ddof=1) / len(x) for x in both))
    return float(d.mean()), float(d.std(ddof=1) / len(d) ** 0.5), float(over_seeds)


def as_an_array(valid_a, test_a, valid_b, test_b):
    return np.array(in_steps(valid_a, test_a, valid_b, test_b))


def difference_alone(valid_a, test_a, valid_b, test_b):
    return in_steps(valid_a, test_a, valid_b, test_b)[0]


RIGHT = {
    "my_pointwise_backward": (as_derived, by_the_librarys_silu, by_einsum, by_loops, by_tanh, by_a_diagonal_jacobian,
                              by_the_library, in_silu),
    "repaired_time_bias": (one_line, with_a_loop, by_subtract_outer, by_the_librarys_buckets, floored, rows, one_hot,
                           lists),
    "reads_no_later_time": (each_query, all_rows_up_to_i, asserts, random_times, cut_off, squeezed, as_a_numpy_bool,
                            one_later_item_at_a_time),
    "my_comparison": (in_steps, reshaped, python_only, by_all_pairs, by_sorting, by_covariance,
                      with_a_loop_over_settings, as_an_array),
}  # fmt: skip
WRONG = {
    name: tuple((wrong, "") for wrong in all_wrong)
    for name, all_wrong in (
        ("my_pointwise_backward", [*listed("my_pointwise_backward"), one_missing]),
        ("repaired_time_bias", [*listed("repaired_time_bias"), one_row]),
        ("reads_no_later_time", [whole_rows, all_moved, last_moved_only, first_query, left_of_the_diagonal, nearly,
                                 moved_together, earlier_moved, its_own_time_moved, the_librarys, the_librarys_triangle,
                                 triangular, later_keys_alike, sums, opposite, forgets_to_return, always]),
        ("my_comparison", [*listed("my_comparison"), difference_alone]),
    )
}  # fmt: skip
