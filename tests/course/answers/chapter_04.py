"""Answers to the exercises of chapter 04."""

import math

import numpy as np

from tinyattn import ops
from tinyattn.check import gradcheck
from tinyattn.check.zoo import ZOO


def attention_bug(name):
    wrong = ZOO["attention"].make(frozenset([name])).attention_backward

    def answer(dout, q, k, v, p):
        return wrong(dout, q, k, v, p)[:3]

    answer.__name__ = name
    return answer


def turned(x):
    return np.swapaxes(x, -1, -2)


# --- the backward of attention --------------------------------------------------------------------------------------


def five_lines(dout, q, k, v, p):
    c = 1 / np.sqrt(q.shape[-1])  # a NumPy scalar: float64 out of float32
    dv = turned(p) @ dout
    dp = dout @ turned(v)
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True))
    return c * ds @ k, c * turned(ds) @ q, dv


def einsum(dout, q, k, v, weights):
    dv = np.einsum("...nm,...ne->...me", weights, dout)
    dp = np.einsum("...ne,...me->...nm", dout, v)
    ds = weights * (dp - np.einsum("...ne,...ne->...n", dout, weights @ v)[..., None]) * q.shape[-1] ** -0.5
    return np.einsum("...nm,...md->...nd", ds, k), np.einsum("...nm,...nd->...md", ds, q), dv


def loops(dout, q, k, v, p):
    """Over every entry of the leading axes, every query and every key, into float64 arrays."""
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    n, m = p.shape[-2:]
    for at in np.ndindex(p.shape[:-2]):
        for i in range(n):
            dp = [dout[at][i] @ v[at][j] for j in range(m)]
            average = sum(dp[j] * p[at][i, j] for j in range(m))
            for j in range(m):
                ds = p[at][i, j] * (dp[j] - average) / math.sqrt(q.shape[-1])
                dq[at][i] += ds * k[at][j]
                dk[at][j] += ds * q[at][i]
                dv[at][j] += p[at][i, j] * dout[at][i]
    return dq, dk, dv


def jacobians(dout, q, k, v, A):
    J = A[..., :, None] * (np.eye(A.shape[-1]) - A[..., None, :])
    dp = dout @ turned(v)
    ds = (J @ dp[..., None])[..., 0] / math.sqrt(q.shape[-1])
    return ds @ k, turned(ds) @ q, turned(A) @ dout


def by_the_library(dout, q, k, v, p):
    dp = dout @ turned(v)
    ds = ops.softmax_backward(dp, p) / q.shape[-1] ** 0.5
    return [ds @ k, turned(ds) @ q, turned(p) @ dout]


def lists(dout, q, k, v, p):
    return tuple(gradient.tolist() for gradient in five_lines(dout, q, k, v, p))


def in_place(dout, q, k, v, p):
    c = q.shape[-1] ** -0.5
    dv = turned(p) @ dout
    ds = dout @ turned(v)
    ds -= np.sum(ds * p, axis=-1, keepdims=True)
    ds *= p
    q *= c
    k *= c
    return ds @ k, turned(ds) @ q, dv


def untransposed(dout, q, k, v, p):
    return ops.attention_backward(dout, q, k, v, np.swapaxes(p, -1, -2))[:3]


def of_a_matrix(dout, q, k, v, p):
    """Right for a matrix, and it cannot take a batch."""
    dv = np.einsum("nm,ne->me", p, dout)
    return (*ops.attention_backward(dout, q, k, v, p)[:2], dv)


def one_missing(dout, q, k, v, p):
    return ops.attention_backward(dout, q, k, v, p)[1::-1]


def zeros(dout, q, k, v, p):
    return q * 0, k * 0, v * 0


def like_dout(dout, q, k, v, p):
    return dout * 0, dout * 0, dout * 0


def dp_for_ds(dout, q, k, v, p):
    """Softmax is not undone at all."""
    dp = dout @ turned(v) * q.shape[-1] ** -0.5
    return dp @ k, turned(dp) @ q, turned(p) @ dout


def plain_mean(dout, q, k, v, p):
    """The bug that repaired_backward starts from: the mean of dp, not weighted by p."""
    dp = dout @ turned(v)
    ds = p * (dp - dp.mean(axis=-1, keepdims=True)) * q.shape[-1] ** -0.5
    return ds @ k, turned(ds) @ q, turned(p) @ dout


def negated(dout, q, k, v, p):
    return tuple(-gradient for gradient in five_lines(dout, q, k, v, p))


def another_order(dout, q, k, v, p):
    return five_lines(dout, q, k, v, p)[::-1]


def root_for_its_inverse(dout, q, k, v, p):
    dq, dk, dv = five_lines(dout, q, k, v, p)
    return dq * q.shape[-1], dk * q.shape[-1], dv


# --- the tied map ---------------------------------------------------------------------------------------------------


def tied_ways(dy, x, W):
    """-> dx, dW by the first use, dW by the second."""
    X, dY = x.reshape(-1, W.shape[0]), dy.reshape(-1, W.shape[0])
    return (dY @ W @ W.T).reshape(x.shape), X.T @ (dY @ W), dY.T @ (X @ W)


def both(dy, x, W):
    dx, first, second = tied_ways(dy, x, W)
    return dx, first + second


def both_by_einsum(dy, x, W):
    X, dY = x.reshape(-1, W.shape[0]), dy.reshape(-1, W.shape[0])
    dW = np.einsum("ni,nj,jo->io", dY, X, W) + np.einsum("ni,nj,jo->io", X, dY, W)
    return np.einsum("...i,io,jo->...j", dy, W, W), dW


def both_by_loops(dy, x, W):
    dx, dW = np.zeros(x.shape), np.zeros(W.shape)
    for at in np.ndindex(x.shape[:-1]):
        dh = dy[at] @ W
        dW += np.outer(dy[at], x[at] @ W)
        dW += np.outer(x[at], dh)
        dx[at] = dh @ W.T
    return dx, dW


def both_as_lists(dy, x, W):
    dx, dW = both(dy, x, W)
    return [dx.tolist(), dW.tolist()]


def both_by_two_linear_maps(dy, x, W):
    dh, dW_turned, _ = ops.linear_backward(dy, x @ W, W.T)
    dx, dW, _ = ops.linear_backward(dh, x, W)
    dW += dW_turned.T
    return dx, dW


def symmetric(dy, x, W):
    """The gradient by W Wᵀ first."""
    X, dY = x.reshape(-1, W.shape[0]), dy.reshape(-1, W.shape[0])
    dM = X.T @ dY
    return dy @ (W @ W.T), (dM + dM.T) @ W


def both_and_writes_into_dy(dy, x, W):
    gradients = both(dy, x, W)
    dy *= 2
    return gradients


def dW_of(name, of):
    def answer(dy, x, W):
        dx, first, second = tied_ways(dy, x, W)
        return dx, of(first, second)

    answer.__name__ = name
    return answer


def of_the_last_entry(dy, x, W):
    dx, _, _ = tied_ways(dy, x, W)
    x, dy = (a[-1] if a.ndim > 2 and len(a) else a for a in (x, dy))
    return dx, sum(tied_ways(dy, x, W)[1:])


def for_each_entry(dy, x, W):
    dx, _, _ = tied_ways(dy, x, W)
    return dx, np.swapaxes(x, -1, -2) @ (dy @ W) + np.swapaxes(dy, -1, -2) @ (x @ W)


def dx_is_dh(dy, x, W):
    return dy @ W, sum(tied_ways(dy, x, W)[1:])


def dx_is_dy(dy, x, W):
    return dy.copy(), sum(tied_ways(dy, x, W)[1:])


# --- the property ---------------------------------------------------------------------------------------------------


def given(n=3, m=5, d=4, e=2):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape) for shape in ((n, d), (m, d), (m, e), (n, e))]


def euler(attention, attention_backward):
    q, k, v, dout = given()
    dq, dk, *_ = attention_backward(dout, q, k, v, attention(q, k, v)[1])
    return np.allclose((dq * q).sum(), (dk * k).sum())


def euler_by_loops(attention, attention_backward):
    q, k, v, dout = given()
    gradients = attention_backward(dout, q, k, v, attention(q, k, v)[1])
    total = 0.0
    for i in range(3):
        total += gradients[0][i] @ q[i]
    for j in range(5):
        total -= gradients[1][j] @ k[j]
    return abs(total) < 1e-9


def doubled_and_halved(attention, attention_backward):
    """With 2 q and k / 2 the output is the same, dq is halved and dk doubled; and dq is to dk as they should be."""
    q, k, v, dout = given()
    p = attention(q, k, v)[1]
    one, other = attention_backward(dout, q, k, v, p), attention_backward(dout, 2 * q, k / 2, v, p)
    fits = np.allclose(one[0], 2 * other[0]) and np.allclose(2 * one[1], other[1])
    return bool(fits and np.isclose(np.vdot(one[0], q), np.vdot(one[1], k)))


def exchanged(attention, attention_backward):
    """One query, one key that matters: exchanging them exchanges the gradients' sizes."""
    rng = np.random.default_rng(3)
    q, k, v, dout = rng.normal(size=(1, 4)), rng.normal(size=(2, 4)), rng.normal(size=(2, 3)), rng.normal(size=(1, 3))
    dq, dk = attention_backward(dout, q, k, v, attention(q, k, v)[1])[:2]
    return np.allclose(dq @ q.T, np.sum(dk * k))


def by_gradcheck(attention, attention_backward):
    q, k, v, _ = given()
    return bool(gradcheck(attention, attention_backward, q, k, v))


def by_nudging(attention, attention_backward):
    q, k, v, dout = given()
    dq, dk, *_ = attention_backward(dout, q, k, v, attention(q, k, v)[1])
    h, found = 1e-5, []
    for d_q, d_k in ((q, 0), (0, k)):
        up, down = (attention(q + t * d_q, k + t * d_k, v)[0] for t in (h, -h))
        found.append((dout * (up - down)).sum() / (2 * h))
    assert np.allclose(found, [(dq * q).sum(), (dk * k).sum()])


def no_change(attention, attention_backward):
    """Of the forward only."""
    q, k, v, _ = given()
    return np.allclose(attention(q, k, v)[0], attention(2 * q, k / 2, v)[0])


def keys_sum_to_zero(attention, attention_backward):
    q, k, v, dout = given()
    return np.allclose(attention_backward(dout, q, k, v, attention(q, k, v)[1])[1].sum(axis=0), 0)


def of_shapes(attention, attention_backward):
    q, k, v, dout = given()
    return attention_backward(dout, q, k, v, attention(q, k, v)[1])[1].shape == k.shape


def equal_norms(attention, attention_backward):
    q, k, v, dout = given()
    dq, dk, *_ = attention_backward(dout, q, k, v, attention(q, k, v)[1])
    return np.isclose(np.linalg.norm(dq), np.linalg.norm(dk))


def equal_sums(attention, attention_backward):
    q, k, v, dout = given()
    dq, dk, *_ = attention_backward(dout, q, k, v, attention(q, k, v)[1])
    return np.isclose(dq.sum(), dk.sum())


def row_by_row(attention, attention_backward):
    q, k, v, dout = given(n=4, m=4)
    dq, dk, *_ = attention_backward(dout, q, k, v, attention(q, k, v)[1])
    return np.allclose((dq * q).sum(axis=1), (dk * k).sum(axis=1))


def width_one(attention, attention_backward):
    """With d = 1 the scale is 1."""
    q, k, v, dout = given(d=1)
    dq, dk, *_ = attention_backward(dout, q, k, v, attention(q, k, v)[1])
    return np.allclose((dq * q).sum(), (dk * k).sum())


def one_key(attention, attention_backward):
    """With one key both gradients are 0."""
    q, k, v, dout = given(m=1)
    dq, dk, *_ = attention_backward(dout, q, k, v, attention(q, k, v)[1])
    return np.allclose((dq * q).sum(), (dk * k).sum())


def only_queries(attention, attention_backward):
    """Kills a dq without its scale, not a dk."""
    q, k, v, dout = given()
    h = 1e-5
    dq = attention_backward(dout, q, k, v, attention(q, k, v)[1])[0]
    slope = (dout * (attention(q * (1 + h), k, v)[0] - attention(q * (1 - h), k, v)[0])).sum() / (2 * h)
    return np.isclose(slope, (dq * q).sum())


def only_keys(attention, attention_backward):
    """Kills a dk without its scale, not a dq."""
    q, k, v, dout = given()
    h = 1e-5
    dk = attention_backward(dout, q, k, v, attention(q, k, v)[1])[1]
    slope = (dout * (attention(q, k * (1 + h), v)[0] - attention(q, k * (1 - h), v)[0])).sum() / (2 * h)
    return np.isclose(slope, (dk * k).sum())


def always(attention, attention_backward):
    return True


def two_numbers(attention, attention_backward):
    q, k, v, dout = given()
    dq, dk, *_ = attention_backward(dout, q, k, v, attention(q, k, v)[1])
    return (dq * q).sum(), (dk * k).sum()


ATTENTION_BUGS = (
    "softmax_diag", "rowsum_missing", "rowsum_axis", "rowsum_of_dp", "dv_noT", "backward_no_scale", "no_scale_dk",
    "no_scale_dq", "backward_scale_twice", "dk_noT", "swap_qk", "dk_is_dq", "dv_missing_batch",
)  # fmt: skip


def one_sum_of_products(dout, q, k, v, p):
    """Σ p dp is <dout, out>."""
    weighted = np.sum(dout * np.matmul(p, v), axis=-1, keepdims=True)
    ds = p * (np.einsum("...ne,...me->...nm", dout, v) - weighted) * q.shape[-1] ** -0.5
    return [np.matmul(ds, k), np.einsum("...nm,...nd->...md", ds, q), np.einsum("...nm,...ne->...me", p, dout)]


BACKWARDS = (five_lines, einsum, loops, jacobians, by_the_library, lists, in_place, one_sum_of_products)
WRONG_BACKWARDS = (
    *((attention_bug(name), name) for name in ATTENTION_BUGS),
    (untransposed, ""),
    (of_a_matrix, ""),
    (one_missing, ""),
    (zeros, ""),
    (like_dout, ""),
    (plain_mean, ""),
    (dp_for_ds, ""),
    (negated, ""),
    (another_order, ""),
    (root_for_its_inverse, ""),
)


# --- more of both ---------------------------------------------------------------------------------------------------


def both_by_the_product_rule(dy, x, W):
    """δ(W Wᵀ) = δW Wᵀ + W δWᵀ."""
    S = np.tensordot(x, dy, axes=(tuple(range(x.ndim - 1)),) * 2)  # (i, i): dy's gradient by M = W Wᵀ
    return dy @ (W @ W.T), S @ W + S.T @ W


def scaled_many_times(attention, attention_backward):
    rng = np.random.default_rng(21)
    for n, m, d, e in ((1, 4, 3, 2), (3, 2, 5, 1), (4, 4, 2, 6)):
        q, k, v = rng.standard_normal((n, d)), rng.standard_normal((m, d)), rng.standard_normal((m, e))
        p = attention(q, k, v)[1]
        dq, dk = attention_backward(rng.standard_normal((n, e)), q, k, v, p)[:2]
        if abs(np.vdot(dq, q) - np.vdot(dk, k)) > 1e-9:
            return False
    return True


def turned_together(attention, attention_backward):
    """Queries and keys turn by the same small angle, and no logit moves: <dq, q A> + <dk, k A> = 0 for A = -A^T."""
    rng = np.random.default_rng(22)
    q, k, v = rng.standard_normal((3, 4)), rng.standard_normal((5, 4)), rng.standard_normal((5, 2))
    p = attention(q, k, v)[1]
    dq, dk = attention_backward(rng.standard_normal((3, 2)), q, k, v, p)[:2]
    for _ in range(3):
        A = rng.standard_normal((4, 4))
        A = A - A.T
        if not np.allclose(np.sum(dq * (q @ A)), -np.sum(dk * (k @ A))):
            return False
    return True


def finite_gradients(attention, attention_backward):
    q, k, v = np.random.default_rng(0).standard_normal((3, 4, 4))
    dq, dk, *_ = attention_backward(v, q, k, v, attention(q, k, v)[1])
    return bool(np.isfinite(dq).all() and np.isfinite(dk).all())


def zero_dout(attention, attention_backward):
    q, k, v = np.random.default_rng(0).standard_normal((3, 4, 4))
    dq, dk, *_ = attention_backward(0 * v, q, k, v, attention(q, k, v)[1])
    return np.allclose(dq, 0) and np.allclose(dk, 0)


def dv_alone(attention, attention_backward):
    q, k, v = np.random.default_rng(0).standard_normal((3, 4, 4))
    p = attention(q, k, v)[1]
    return np.allclose(attention_backward(v, q, k, v, p)[2], p.T @ v)


RIGHT = {
    "my_attention_backward": BACKWARDS,
    "repaired_backward": BACKWARDS,
    "repaired_tied_backward": (
        both, both_by_einsum, both_by_loops, both_as_lists, both_by_two_linear_maps, symmetric,
        both_and_writes_into_dy, both_by_the_product_rule,
    ),
    "same_for_keys_and_queries": (
        euler, euler_by_loops, doubled_and_halved, exchanged, by_gradcheck, by_nudging, scaled_many_times,
        turned_together,
    ),
}  # fmt: skip

WRONG = {
    "my_attention_backward": WRONG_BACKWARDS,
    "repaired_backward": WRONG_BACKWARDS,
    "repaired_tied_backward": tuple(
        (answer, "")
        for answer in (
            dW_of("the_first", lambda first, second: first),
            dW_of("the_second", lambda first, second: second),
            dW_of("the_mean", lambda first, second: (first + second) / 2),
            dW_of("the_difference", lambda first, second: first - second),
            dW_of("twice_the_first", lambda first, second: 2 * first),
            dW_of("twice_the_second", lambda first, second: 2 * second),
            dW_of("the_sign", lambda first, second: -first - second),
            dW_of("zeros", lambda first, second: np.zeros_like(first)),
            dW_of("the_product", lambda first, second: first * second),
            dW_of("transposed", lambda first, second: (first + second).T.copy()),
            of_the_last_entry, for_each_entry, dx_is_dh, dx_is_dy,
            dW_of("the_root", lambda first, second: np.sqrt(np.abs(first + second))),
        )
    ),
    "same_for_keys_and_queries": tuple(
        (answer, "")
        for answer in (no_change, keys_sum_to_zero, of_shapes, equal_norms, equal_sums, row_by_row, width_one, one_key,
                       only_queries, only_keys, always, two_numbers, finite_gradients, zero_dout, dv_alone)
    ),
}  # fmt: skip
