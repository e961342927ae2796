"""Chapter 15: answers to my_refine_backward, repaired_value and later_rows_move_nothing."""

import numpy as np

from tinyattn import ops

from . import listed

# --- my_refine_backward ---------------------------------------------------------------------------------------------


def step_by_step(dB, A, W_Q, W_K, c):
    X, Y = A @ W_Q, A @ W_K
    dX, dY = c * (dB @ Y), c * (dB.T @ X)
    return dX @ W_Q.T + dY @ W_K.T, A.T @ dX, A.T @ dY


def by_one_matrix(dB, A, W_Q, W_K, c):
    """B = c A M Aᵀ with M = W_Q W_Kᵀ."""
    M, dM = W_Q @ W_K.T, c * A.T @ dB @ A
    return c * (dB @ A @ M.T + dB.T @ A @ M), dM @ W_K, dM.T @ W_Q


def with_einsum(dB, A, W_Q, W_K, c):
    X, Y = np.einsum("ki,ij->kj", A, W_Q), np.einsum("ki,ij->kj", A, W_K)
    dX, dY = c * np.einsum("kt,tj->kj", dB, Y), c * np.einsum("kt,kj->tj", dB, X)
    dA = np.einsum("kj,ij->ki", dX, W_Q) + np.einsum("kj,ij->ki", dY, W_K)
    return dA, np.einsum("ki,kj->ij", A, dX), np.einsum("ki,kj->ij", A, dY)


def entry_by_entry(dB, A, W_Q, W_K, c):
    dA, dW_Q, dW_K = np.zeros_like(A), np.zeros_like(W_Q), np.zeros_like(W_K)
    for k, t in np.ndindex(dB.shape):
        dx, dy = c * dB[k, t] * (A[t] @ W_K), c * dB[k, t] * (A[k] @ W_Q)
        dA[k] += W_Q @ dx
        dA[t] += W_K @ dy
        dW_Q += np.outer(A[k], dx)
        dW_K += np.outer(A[t], dy)
    return dA, dW_Q, dW_K


def with_ops(dB, A, W_Q, W_K, c):
    return ops.refine_simp_backward(dB, A, W_Q, W_K, A @ W_Q, A @ W_K, scale=c)


def as_lists(dB, A, W_Q, W_K, c):
    return [one.tolist() for one in step_by_step(dB, A, W_Q, W_K, c)]


def queries_only(dB, A, W_Q, W_K, c):
    return c * dB @ A @ W_K @ W_Q.T, *step_by_step(dB, A, W_Q, W_K, c)[1:]


def keys_only(dB, A, W_Q, W_K, c):
    return c * dB.T @ A @ W_Q @ W_K.T, *step_by_step(dB, A, W_Q, W_K, c)[1:]


def averaged(dB, A, W_Q, W_K, c):
    dA, dW_Q, dW_K = step_by_step(dB, A, W_Q, W_K, c)
    return dA / 2, dW_Q, dW_K


def no_c(dB, A, W_Q, W_K, c):
    return step_by_step(dB, A, W_Q, W_K, 1)


def c_twice(dB, A, W_Q, W_K, c):
    return step_by_step(dB, A, W_Q, W_K, c * c)


def c_in_one_only(dB, A, W_Q, W_K, c):
    dX, dY = c * (dB @ A @ W_K), dB.T @ A @ W_Q
    return dX @ W_Q.T + dY @ W_K.T, A.T @ dX, A.T @ dY


def dB_not_transposed(dB, A, W_Q, W_K, c):
    dX, dY = c * (dB @ A @ W_K), c * (dB @ A @ W_Q)
    return dX @ W_Q.T + dY @ W_K.T, A.T @ dX, A.T @ dY


def maps_not_transposed(dB, A, W_Q, W_K, c):
    dX, dY = c * (dB @ A @ W_K), c * (dB.T @ A @ W_Q)
    return dX @ W_Q + dY @ W_K, A.T @ dX, A.T @ dY


def A_not_transposed(dB, A, W_Q, W_K, c):
    dX, dY = c * (dB @ A @ W_K), c * (dB.T @ A @ W_Q)
    return dX @ W_Q.T + dY @ W_K.T, A @ dX, A @ dY


def maps_exchanged(dB, A, W_Q, W_K, c):
    dA, dW_Q, dW_K = step_by_step(dB, A, W_Q, W_K, c)
    return dA, dW_K, dW_Q


def X_for_A(dB, A, W_Q, W_K, c):
    X, Y = A @ W_Q, A @ W_K
    dX, dY = c * (dB @ Y), c * (dB.T @ X)
    return dX @ W_Q.T + dY @ W_K.T, X.T @ dX, Y.T @ dY


def symmetrised(dB, A, W_Q, W_K, c):
    return step_by_step((dB + dB.T) / 2, A, W_Q, W_K, c)


def without_dA(dB, A, W_Q, W_K, c):
    return step_by_step(dB, A, W_Q, W_K, c)[1:]


def maps_first(dB, A, W_Q, W_K, c):
    dA, dW_Q, dW_K = step_by_step(dB, A, W_Q, W_K, c)
    return dW_Q, dW_K, dA


def root_of_n_again(dB, A, W_Q, W_K, c):
    return step_by_step(dB, A, W_Q, W_K, c / np.sqrt(2 * len(A)))


def wrong_sign(dB, A, W_Q, W_K, c):
    return step_by_step(-dB, A, W_Q, W_K, c)


def one_map_not_transposed(dB, A, W_Q, W_K, c):
    dX, dY = c * (dB @ A @ W_K), c * (dB.T @ A @ W_Q)
    return dX @ W_Q.T + dY @ W_K, A.T @ dX, A.T @ dY


def c_in_dA_only(dB, A, W_Q, W_K, c):
    dX, dY = dB @ A @ W_K, dB.T @ A @ W_Q
    return c * (dX @ W_Q.T + dY @ W_K.T), A.T @ dX, A.T @ dY


def c_in_dW_only(dB, A, W_Q, W_K, c):
    dX, dY = dB @ A @ W_K, dB.T @ A @ W_Q
    return dX @ W_Q.T + dY @ W_K.T, c * A.T @ dX, c * A.T @ dY


def divided_by_c(dB, A, W_Q, W_K, c):
    return step_by_step(dB, A, W_Q, W_K, 1 / c)


def root_of_n_for_c(dB, A, W_Q, W_K, c):
    return step_by_step(dB, A, W_Q, W_K, 1 / np.sqrt(len(A)))


def A_on_the_right(dB, A, W_Q, W_K, c):
    dX, dY = c * (dB @ A @ W_K), c * (dB.T @ A @ W_Q)
    return dX @ W_Q.T + dY @ W_K.T, dX @ A.T, dY @ A.T


def A_not_transposed_for_keys(dB, A, W_Q, W_K, c):
    dX, dY = c * (dB @ A @ W_K), c * (dB.T @ A @ W_Q)
    return dX @ W_Q.T + dY @ W_K.T, A.T @ dX, A @ dY


# --- my_wasserstein_backward ------------------------------------------------------------------------------------------


def pair_by_pair(ds, q_mean, q_dev, k_mean, k_dev, c):
    dq_mean, dq_dev, dk_mean, dk_dev = (np.zeros_like(x) for x in (q_mean, q_dev, k_mean, k_dev))
    for i, j in np.ndindex(ds.shape):
        mean, dev = 2 * c * ds[i, j] * (q_mean[i] - k_mean[j]), 2 * c * ds[i, j] * (q_dev[i] - k_dev[j])
        dq_mean[i] -= mean
        dq_dev[i] -= dev
        dk_mean[j] += mean
        dk_dev[j] += dev
    return dq_mean, dq_dev, dk_mean, dk_dev


def all_differences(ds, q_mean, q_dev, k_mean, k_dev, c):
    """An array (n, m, d) of differences, summed over one axis and over the other."""
    mean = ds[..., None] * (q_mean[:, None] - k_mean[None])
    dev = ds[..., None] * (q_dev[:, None] - k_dev[None])
    return -2 * c * mean.sum(1), -2 * c * dev.sum(1), 2 * c * mean.sum(0), 2 * c * dev.sum(0)


def by_sums_of_rows(ds, q_mean, q_dev, k_mean, k_dev, c):
    rows, columns = ds.sum(axis=1)[:, None], ds.sum(axis=0)[:, None]
    dq_mean, dq_dev = rows * q_mean - ds @ k_mean, rows * q_dev - ds @ k_dev
    dk_mean, dk_dev = columns * k_mean - ds.T @ q_mean, columns * k_dev - ds.T @ q_dev
    return -2 * c * dq_mean, -2 * c * dq_dev, -2 * c * dk_mean, -2 * c * dk_dev


def as_points(ds, q_mean, q_dev, k_mean, k_dev, c):
    q, k, d = np.hstack([q_mean, q_dev]), np.hstack([k_mean, k_dev]), q_mean.shape[1]
    g = 2 * c * ds
    dq, dk = g @ k - q * g.sum(1, keepdims=True), g.T @ q - k * g.sum(0)[:, None]
    return dq[:, :d], dq[:, d:], dk[:, :d], dk[:, d:]


def by_einsum(ds, q_mean, q_dev, k_mean, k_dev, c):
    def one(g, a, b):
        return -2 * c * (np.einsum("ij,id->id", g, a) - np.einsum("ij,jd->id", g, b))

    return one(ds, q_mean, k_mean), one(ds, q_dev, k_dev), one(ds.T, k_mean, q_mean), one(ds.T, k_dev, q_dev)


def by_diagonals(ds, q_mean, q_dev, k_mean, k_dev, c):
    D, E = np.diag(ds.sum(1)), np.diag(ds.sum(0))
    return [-2 * c * (D @ q_mean - ds @ k_mean), -2 * c * (D @ q_dev - ds @ k_dev),
            -2 * c * (E @ k_mean - ds.T @ q_mean), -2 * c * (E @ k_dev - ds.T @ q_dev)]  # fmt: skip


def query_by_query(ds, q_mean, q_dev, k_mean, k_dev, c):
    dq_mean = np.array([-2 * c * ds[i] @ (q_mean[i] - k_mean) for i in range(len(ds))])
    dq_dev = np.array([-2 * c * ds[i] @ (q_dev[i] - k_dev) for i in range(len(ds))])
    dk_mean = np.array([2 * c * ds[:, j] @ (q_mean - k_mean[j]) for j in range(ds.shape[1])])
    dk_dev = np.array([2 * c * ds[:, j] @ (q_dev - k_dev[j]) for j in range(ds.shape[1])])
    return dq_mean, dq_dev, dk_mean, dk_dev


def the_librarys_distances(ds, q_mean, q_dev, k_mean, k_dev, c):
    """Its constant is 1/√d."""
    s = ops.wasserstein_scores(q_mean, q_dev, k_mean, k_dev)
    c = float(c * np.sqrt(q_mean.shape[-1]))
    return tuple(c * d for d in ops.wasserstein_scores_backward(ds, q_mean, q_dev, k_mean, k_dev, s))


def from_squares(ds, q_mean, q_dev, k_mean, k_dev, c):
    """|a|² - 2 a · b + |b|²: a gradient for each of the three."""

    def both(a, b):
        dsquares_a, dproduct, dsquares_b = -c * ds.sum(axis=1), 2 * c * ds, -c * ds.sum(axis=0)
        return 2 * dsquares_a[:, None] * a + dproduct @ b, 2 * dsquares_b[:, None] * b + dproduct.T @ a

    (dq_mean, dk_mean), (dq_dev, dk_dev) = both(q_mean, k_mean), both(q_dev, k_dev)
    return dq_mean, dq_dev, dk_mean, dk_dev


def keys_as_queries(ds, q_mean, q_dev, k_mean, k_dev, c):
    """Keys get minus what queries got, though they are not as many."""
    dq_mean, dq_dev, *_ = by_sums_of_rows(ds, q_mean, q_dev, k_mean, k_dev, c)
    return dq_mean, dq_dev, -dq_mean, -dq_dev


def ds_not_transposed(ds, q_mean, q_dev, k_mean, k_dev, c):
    dq_mean, dq_dev, *_ = by_sums_of_rows(ds, q_mean, q_dev, k_mean, k_dev, c)
    rows = ds.sum(axis=1)[:, None]
    return dq_mean, dq_dev, -2 * c * (rows * k_mean - ds @ q_mean), -2 * c * (rows * k_dev - ds @ q_dev)


def points_returned(ds, q_mean, q_dev, k_mean, k_dev, c):
    dq_mean, dq_dev, dk_mean, dk_dev = by_sums_of_rows(ds, q_mean, q_dev, k_mean, k_dev, c)
    return np.hstack([dq_mean, dq_dev]), np.hstack([dk_mean, dk_dev])


# --- repaired_value -------------------------------------------------------------------------------------------------


def cut_for_every_row(A, W_Q, W_K, W_V):
    B = np.zeros_like(A)
    for k in range(len(A)):
        a, q, k_, v = (x[: k + 1, : k + 1] for x in (A, W_Q, W_K, W_V))
        B[k, : k + 1] = (v @ a)[k] @ ops.softmax((q @ a).T @ (k_ @ a)).T
    return B


def one_product_more(A, W_Q, W_K, W_V):
    """The sum grows by a row's outer product."""
    X, Y, Z = W_Q @ A, W_K @ A, W_V @ A
    B, L = np.zeros_like(A), np.zeros_like(A)
    for k in range(len(A)):
        L = L + np.outer(X[k], Y[k])
        B[k, : k + 1] = ops.softmax(L[: k + 1, : k + 1]) @ Z[k, : k + 1]
    return B


def with_cumsum(A, W_Q, W_K, W_V):
    """All sums at once, (n, n, n), and a mask over columns."""
    X, Y, Z = W_Q @ A, W_K @ A, W_V @ A
    L = np.cumsum(X[:, :, None] * Y[:, None, :], axis=0)
    past = np.tri(len(A), dtype=bool)
    S = ops.softmax(L, past[:, None, :])
    return np.einsum("ktj,kj->kt", S, Z) * past


def with_the_literal_form(A, W_Q, W_K, W_V):
    rows = []
    for n in range(1, len(A) + 1):
        b = ops.refine_value_literal(*(x[:n, :n].copy() for x in (A, W_Q, W_K, W_V)))[0][-1]
        rows.append(np.append(b, np.zeros(len(A) - n)))
    return np.array(rows)


def the_librarys(A, W_Q, W_K, W_V):
    return ops.refine_value(A, W_Q, W_K, W_V)[0]


def in_loops(A, W_Q, W_K, W_V):
    n = len(A)
    X, Y, Z = W_Q @ A, W_K @ A, W_V @ A
    B = [[0.0] * n for _ in range(n)]
    for k in range(n):
        for t in range(k + 1):
            e = [np.exp(sum(X[i, t] * Y[i, j] for i in range(k + 1))) for j in range(k + 1)]
            B[k][t] = sum(Z[k, j] * e[j] for j in range(k + 1)) / sum(e)
    return B


def unchanged(A, W_Q, W_K, W_V):
    X, Y, Z = W_Q @ A, W_K @ A, W_V @ A
    return np.tril(Z @ ops.softmax(X.T @ Y).T)


def masks_S(A, W_Q, W_K, W_V):
    X, Y, Z = W_Q @ A, W_K @ A, W_V @ A
    return np.tril(Z @ ops.softmax(X.T @ Y, np.tri(len(A), dtype=bool)).T)


def zeros_in_L(A, W_Q, W_K, W_V):
    X, Y, Z = W_Q @ A, W_K @ A, W_V @ A
    return np.tril(Z @ ops.softmax(np.tril(X.T @ Y)).T)


def S_after_softmax(A, W_Q, W_K, W_V):
    X, Y, Z = W_Q @ A, W_K @ A, W_V @ A
    return np.tril(Z @ np.tril(ops.softmax(X.T @ Y)).T)


def one_too_early(A, W_Q, W_K, W_V):
    B = np.zeros_like(A)
    for k in range(1, len(A)):
        a, q, k_, v = (x[:k, :k] for x in (A, W_Q, W_K, W_V))
        B[k, :k] = (v @ a)[-1] @ ops.softmax((q @ a).T @ (k_ @ a)).T
    return B


def one_too_late(A, W_Q, W_K, W_V):
    B = np.zeros_like(A)
    for k in range(len(A)):
        a, q, k_, v = (x[: k + 2, : k + 2] for x in (A, W_Q, W_K, W_V))
        B[k, : k + 1] = ((v @ a)[k] @ ops.softmax((q @ a).T @ (k_ @ a)).T)[: k + 1]
    return B


def first_row(A, W_Q, W_K, W_V):
    B = np.zeros_like(A)
    for k in range(len(A)):
        a, q, k_, v = (x[: k + 1, : k + 1] for x in (A, W_Q, W_K, W_V))
        B[k, : k + 1] = (v @ a)[0] @ ops.softmax((q @ a).T @ (k_ @ a)).T
    return B


def no_sum(A, W_Q, W_K, W_V):
    X, Y, Z = W_Q @ A, W_K @ A, W_V @ A
    B = np.zeros_like(A)
    for k in range(len(A)):
        s = slice(k + 1)
        B[k, s] = ops.softmax(np.outer(X[k, s], Y[k, s])) @ Z[k, s]
    return B


def columns_not_cut(A, W_Q, W_K, W_V):
    X, Y, Z = W_Q @ A, W_K @ A, W_V @ A
    return np.tril([Z[k] @ ops.softmax(X[: k + 1].T @ Y[: k + 1]).T for k in range(len(A))])


def down_the_columns(A, W_Q, W_K, W_V):
    B = np.zeros_like(A)
    for k in range(len(A)):
        a, q, k_, v = (x[: k + 1, : k + 1] for x in (A, W_Q, W_K, W_V))
        B[k, : k + 1] = (v @ a)[k] @ ops.softmax(((q @ a).T @ (k_ @ a)).T)
    return B


def S_not_transposed(A, W_Q, W_K, W_V):
    B = np.zeros_like(A)
    for k in range(len(A)):
        a, q, k_, v = (x[: k + 1, : k + 1] for x in (A, W_Q, W_K, W_V))
        B[k, : k + 1] = (v @ a)[k] @ ops.softmax((q @ a).T @ (k_ @ a))
    return B


def from_the_right(A, W_Q, W_K, W_V):
    return ops.refine_value_rows(A, W_Q, W_K, W_V, np.tri(len(A), dtype=bool))[0]


def no_softmax(A, W_Q, W_K, W_V):
    X, Y, Z = W_Q @ A, W_K @ A, W_V @ A
    return np.tril([Z[k] @ (X[: k + 1].T @ Y[: k + 1]).T for k in range(len(A))])


def queries_for_keys(A, W_Q, W_K, W_V):
    return cut_for_every_row(A, W_K, W_Q, W_V)


def diagonal_lost(A, W_Q, W_K, W_V):
    return np.tril(cut_for_every_row(A, W_Q, W_K, W_V), -1)


def masked_cut(A, W_Q, W_K, W_V):
    """Sums are cut, and the softmax of the cut is masked once more."""
    B = np.zeros_like(A)
    for k in range(len(A)):
        seen = slice(k + 1)
        X, Y, Z = (W[seen, seen] @ A[seen, seen] for W in (W_Q, W_K, W_V))
        B[k, seen] = Z[-1] @ ops.softmax(X.T @ Y, np.tri(k + 1, dtype=bool)).T
    return B


def last_row_only(A, W_Q, W_K, W_V):
    return cut_for_every_row(A, W_Q, W_K, W_V)[-1]


def whole_blocks(A, W_Q, W_K, W_V):
    """Every sum is cut, but each turn writes over the rows of those before it."""
    B = np.zeros_like(A)
    for k in range(len(A)):
        seen = slice(k + 1)
        X, Y, Z = (W[seen, seen] @ A[seen, seen] for W in (W_Q, W_K, W_V))
        B[seen, seen] = Z @ ops.softmax(X.T @ Y).T
    return np.tril(B)


def nothing_masked(A, W_Q, W_K, W_V):
    """Right on and below the diagonal."""
    B = np.zeros_like(A)
    for k in reversed(range(len(A))):
        seen = slice(k + 1)
        X, Y, Z = (W[seen, seen] @ A[seen, seen] for W in (W_Q, W_K, W_V))
        B[seen, seen] = Z @ ops.softmax(X.T @ Y).T
    return B


def divided_by_root_n(A, W_Q, W_K, W_V):
    return cut_for_every_row(A, W_Q / np.sqrt(len(A)), W_K, W_V)


# --- later_rows_move_nothing ----------------------------------------------------------------------------------------


def lower(n, seed):
    return np.tril(np.random.default_rng(seed).standard_normal((n, n)))


def other_rows(refine, n):
    A, B = lower(n, 0), refine(lower(n, 0))
    for k in range(n - 1):
        changed = A.copy()
        changed[k + 1 :] = lower(n, 1)[k + 1 :]
        if not np.array_equal(np.tril(refine(changed))[: k + 1], np.tril(B)[: k + 1]):
            return False
    return True


def row_after_row(refine, n):
    """One later row at a time."""
    A = lower(n, 2)
    for j in range(1, n):
        changed = A.copy()
        changed[j, : j + 1] += 1
        if np.tril(refine(changed) - refine(A))[:j].any():
            return False
    return True


def last_row_alone(refine, n):
    A = lower(n, 0)
    other = A.copy()
    other[-1] = 0
    return np.array_equal(np.tril(refine(A))[:-1], np.tril(refine(other))[:-1])


def from_the_second(refine, n):
    A, B = lower(n, 0), refine(lower(n, 0))
    for k in range(1, n - 1):
        changed = np.vstack([A[: k + 1], lower(n, 1)[k + 1 :]])
        if not np.array_equal(np.tril(refine(changed))[: k + 1], np.tril(B)[: k + 1]):
            return False
    return True


def later_rows_gone(refine, n):
    A = lower(n, 3)
    kept = [np.tril(refine(A * (np.arange(n) <= k)[:, None]))[: k + 1] for k in range(n)]
    return all(np.allclose(np.tril(refine(A))[: k + 1], kept[k], rtol=0, atol=1e-10) for k in range(n))


def asserts(refine, n):
    A = lower(n, 4)
    for k in range(n - 1):
        changed = np.concatenate([A[: k + 1], -2 * A[k + 1 :]])
        before, after = refine(A), refine(changed)
        for i in range(k + 1):
            assert np.array_equal(before[i, : i + 1], after[i, : i + 1]), (i, k)


def by_derivatives(refine, n):
    """The slope of every entry that counts, by every later entry of A."""
    A = lower(n, 5)
    for i, j in zip(*np.tril_indices(n), strict=True):
        step = np.zeros((n, n))
        step[i, j] = 1e-3
        slope = (refine(A + step) - refine(A - step)) / 2e-3
        if np.abs(np.tril(slope)[:i]).max(initial=0) > 1e-9:
            return False
    return True


def full_matrices(refine, n):
    """A need not be triangular, if its later rows alone change."""
    A, C = np.random.default_rng(6).standard_normal((2, n, n))
    same = [np.tril(refine(np.vstack([A[:k], C[k:]])) - refine(A))[:k] == 0 for k in range(1, n)]
    return all(one.all() for one in same)


def whole_rows(refine, n):
    A = lower(n, 0)
    for k in range(n - 1):
        changed = A.copy()
        changed[k + 1 :] += 1
        if not np.array_equal(refine(changed)[: k + 1], refine(A)[: k + 1]):
            return False
    return True


def all_rows(refine, n):
    A = lower(n, 0)
    changed = A.copy()
    changed[-1] += 1
    return np.array_equal(np.tril(refine(changed)), np.tril(refine(A)))


def last_row_changes(refine, n):
    A = lower(n, 0)
    changed = A.copy()
    changed[-1] += 1
    return np.array_equal(np.tril(refine(changed))[: n - 2], np.tril(refine(A))[: n - 2])


def first_row_compared(refine, n):
    A = lower(n, 0)
    changed = A.copy()
    changed[1:] += 1
    return bool(refine(changed)[0, 0] == refine(A)[0, 0])


def columns_as_well(refine, n):
    A = np.random.default_rng(0).standard_normal((n, n))
    for k in range(n - 1):
        changed = A.copy()
        changed[k + 1 :] += 1
        changed[:, k + 1 :] += 1
        if not np.array_equal(np.tril(refine(changed))[: k + 1], np.tril(refine(A))[: k + 1]):
            return False
    return True


def one_row_further(refine, n):
    A = lower(n, 0)
    for k in range(n - 2):
        changed = A.copy()
        changed[k + 2 :] = lower(n, 1)[k + 2 :]
        if not np.array_equal(np.tril(refine(changed))[: k + 1], np.tril(refine(A))[: k + 1]):
            return False
    return True


def generous(refine, n):
    A = lower(n, 0)
    for k in range(n - 1):
        changed = A.copy()
        changed[k + 1 :] = lower(n, 1)[k + 1 :]
        if not np.allclose(np.tril(refine(changed))[: k + 1], np.tril(refine(A))[: k + 1], atol=1e-3):
            return False
    return True


def below_the_diagonal(refine, n):
    A = lower(n, 0)
    for k in range(n - 1):
        changed = A.copy()
        changed[k + 1 :] = lower(n, 1)[k + 1 :]
        if not np.array_equal(np.tril(refine(changed), -1)[: k + 1], np.tril(refine(A), -1)[: k + 1]):
            return False
    return True


def zeros_above(refine, n):
    B = refine(lower(n, 0))
    return np.array_equal(np.tril(B), B)


def opposite(refine, n):
    return not other_rows(refine, n)


def forgets_to_return(refine, n):
    other_rows(refine, n)


def a_matrix(refine, n):
    A = lower(n, 0)
    return refine(A) == refine(A + 0)


def always(refine, n):
    return True


def earlier_rows(refine, n):
    """The rows up to k change, and those after it are compared."""
    A = lower(n, 0)
    changed = A.copy()
    changed[0] += 1
    return np.array_equal(np.tril(refine(changed))[1:], np.tril(refine(A))[1:])


def the_same_matrix(refine, n):
    A = lower(n, 0)
    changed = A
    before = refine(A)
    changed[-1] += 0
    return np.array_equal(refine(changed), before)


def the_diagonal_alone(refine, n):
    A = lower(n, 0)
    for k in range(n - 1):
        changed = np.vstack([A[: k + 1], lower(n, 1)[k + 1 :]])
        if refine(changed)[k, k] != refine(A)[k, k]:
            return False
    return True


def the_first_column_alone(refine, n):
    A = lower(n, 0)
    for k in range(n - 1):
        changed = np.vstack([A[: k + 1], lower(n, 1)[k + 1 :]])
        if not np.array_equal(refine(changed)[: k + 1, 0], refine(A)[: k + 1, 0]):
            return False
    return True


def unnamed(*answers):
    return tuple((answer, "") for answer in answers)


# --- more styles ----------------------------------------------------------------------------------------------------


def c_on_one_factor(dB, A, W_Q, W_K, c):
    """B = (c X) Yᵀ, and products are turned round as chapter 03 has them."""
    X, Y = np.matmul(A, W_Q), np.matmul(A, W_K)
    scaled = np.multiply(c, dB)
    back_to_X, back_to_Y = scaled.dot(Y), scaled.T.dot(X)
    dA = np.zeros_like(A)
    dA += back_to_X.dot(W_Q.T)
    dA += back_to_Y.dot(W_K.T)
    return dA, A.T.dot(back_to_X), A.T.dot(back_to_Y)


def both_maps_side_by_side(dB, A, W_Q, W_K, c):
    n = len(A)
    W = np.concatenate([W_Q, W_K], axis=1)
    XY = A @ W
    dXY = c * np.concatenate([dB @ XY[:, n:], dB.T @ XY[:, :n]], axis=1)
    dW = A.T @ dXY
    return dXY @ W.T, dW[:, :n], dW[:, n:]


def growing_by_one(A, W_Q, W_K, W_V):
    """X and Y of k + 1 tokens; the last row of Z alone."""
    rows = []
    for k in range(1, len(A) + 1):
        part = A[:k, :k]
        logits = (W_Q[:k, :k] @ part).T @ (W_K[:k, :k] @ part)
        z = W_V[k - 1, :k] @ part
        rows.append(np.pad(ops.softmax(logits) @ z, (0, len(A) - k)))
    return np.array(rows)


def by_einsum_over_ends(A, W_Q, W_K, W_V):
    """One array for all ends k: sums over i ≤ k, and keys beyond k are masked."""
    n = len(A)
    X, Y, Z = (np.tril(np.tril(W) @ np.tril(A)) for W in (W_Q, W_K, W_V))
    live = np.tri(n, dtype=bool)
    logits = np.einsum("ki,it,ij->ktj", live * 1.0, X, Y)
    logits = np.where(live[:, None, :], logits, -np.inf)
    return np.einsum("kj,ktj->kt", Z, ops.softmax(logits)) * live


def from_the_end(refine, n):
    A = np.tril(np.random.default_rng(3).standard_normal((n, n)))
    B = np.tril(refine(A))
    for k in range(n - 1, 0, -1):
        A = A.copy()
        A[k, : k + 1] += 1  # all rows from k on are others by now
        if not np.array_equal(np.tril(refine(A))[:k], B[:k]):
            return False
    return True


def all_at_once(refine, n):
    rng = np.random.default_rng(11)
    A, other = (np.tril(rng.uniform(-2, 2, (n, n))) for _ in range(2))
    rows = np.arange(n)[:, None]
    changed = [refine(np.where(rows <= k, A, other)) for k in range(n)]
    B = refine(A)
    return all(B[i, j] == changed[k][i, j] for k in range(n) for i in range(k + 1) for j in range(i + 1))


RIGHT = {
    "my_refine_backward": (
        step_by_step, by_one_matrix, with_einsum, entry_by_entry, with_ops, as_lists, c_on_one_factor,
        both_maps_side_by_side,
    ),
    "my_wasserstein_backward": (
        pair_by_pair, all_differences, by_sums_of_rows, as_points, by_einsum, by_diagonals, query_by_query,
        the_librarys_distances, from_squares,
    ),
    "repaired_value": (
        cut_for_every_row, one_product_more, with_cumsum, with_the_literal_form, the_librarys, in_loops,
        growing_by_one, by_einsum_over_ends,
    ),
    "later_rows_move_nothing": (
        other_rows, row_after_row, later_rows_gone, asserts, by_derivatives, full_matrices, from_the_end,
        all_at_once,
    ),
}  # fmt: skip
WRONG = {
    "my_refine_backward": unnamed(queries_only, keys_only, averaged, no_c, c_twice, c_in_one_only, dB_not_transposed,
                                  maps_not_transposed, A_not_transposed, maps_exchanged, X_for_A, symmetrised,
                                  without_dA, maps_first, root_of_n_again, wrong_sign, one_map_not_transposed,
                                  c_in_dA_only, c_in_dW_only, divided_by_c, root_of_n_for_c, A_on_the_right,
                                  A_not_transposed_for_keys),
    "my_wasserstein_backward": unnamed(*listed("my_wasserstein_backward"), keys_as_queries, ds_not_transposed,
                                       points_returned),
    "repaired_value": unnamed(unchanged, masks_S, zeros_in_L, S_after_softmax, one_too_early, one_too_late, first_row,
                              no_sum, columns_not_cut, down_the_columns, S_not_transposed, from_the_right, no_softmax,
                              queries_for_keys, diagonal_lost, last_row_only, masked_cut, whole_blocks, nothing_masked,
                              divided_by_root_n),
    "later_rows_move_nothing": unnamed(last_row_alone, from_the_second, whole_rows, all_rows, last_row_changes,
                                       first_row_compared, columns_as_well, one_row_further, generous,
                                       below_the_diagonal, zeros_above, opposite, forgets_to_return, a_matrix, always,
                                       earlier_rows, the_same_matrix, the_diagonal_alone, the_first_column_alone),
}  # fmt: skip
