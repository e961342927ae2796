"""Answers to the exercises of chapter 11."""

import itertools
from collections import deque

import numpy as np

from . import listed

# --- my_bpr_backward ------------------------------------------------------------------------------------------------


def sigmoid(z):
    return (1 + np.tanh(z / 2)) / 2


def directly(dloss, x, good, bad):
    z = (x * (good - bad)).sum(-1)
    dz = (-dloss * sigmoid(-z))[..., None]
    return dz * (good - bad), dz * x, -dz * x


def predicted_minus_true(dloss, x, good, bad):
    """σ(z) - 1 in place of -σ(-z)."""
    z = (x * good).sum(-1) - (x * bad).sum(-1)
    dz = np.expand_dims(dloss * (sigmoid(z) - 1), -1)
    dgood = dz * x
    return dz * good - dz * bad, dgood, -dgood


def with_einsum(dloss, x, good, bad):
    z = np.einsum("...d,...d->...", x, good - bad)
    dz = -dloss * sigmoid(-z)
    return (
        np.einsum("...,...d->...d", dz, good - bad),
        np.einsum("...,...d->...d", dz, x),
        np.einsum("...,...d->...d", -dz, x),
    )


def pair_by_pair(dloss, x, good, bad):
    dx, dgood, dbad = np.zeros(x.shape), np.zeros(x.shape), np.zeros(x.shape)
    dloss = np.asarray(dloss)
    for at in np.ndindex(x.shape[:-1]):
        dz = dloss[at] * (sigmoid(x[at] @ good[at] - x[at] @ bad[at]) - 1)
        dx[at], dgood[at], dbad[at] = dz * (good[at] - bad[at]), dz * x[at], -dz * x[at]
    return dx, dgood, dbad


def by_the_sign_of_z(dloss, x, good, bad):
    """e^(-|z|) never overflows."""
    z = (x * (good - bad)).sum(-1, keepdims=True)
    e = np.exp(-np.abs(z))
    slope = -np.where(z > 0, e, 1) / (1 + e)
    dz = np.asarray(dloss)[..., None] * slope
    return [dz * (good - bad), dz * x, dz * -x]


def stacked(dloss, x, good, bad):
    items, signs = np.stack([good, bad]), np.array([1, -1]).reshape(2, *[1] * x.ndim)
    z = (signs * x * items).sum(axis=(0, -1))
    dz = np.expand_dims(-dloss * sigmoid(-z), -1)
    return np.stack([(signs * dz * items).sum(0), *(signs * dz * x)])


def by_logaddexp(dloss, x, good, bad):
    z = np.sum(x * good - x * bad, axis=-1)
    dz = -np.exp(-np.logaddexp(0, z)) * dloss                       # σ(-z) = 1 / (1 + e^z)
    dz = dz.reshape(*dz.shape, 1)
    return dz * (good - bad), dz * x, -dz * x


def writes_into_arguments(dloss, x, good, bad):
    good -= bad
    dz = -np.asarray(dloss)[..., None] * sigmoid(-(x * good).sum(-1, keepdims=True))
    good *= dz
    x *= dz
    return good, x, -x


def by_matmul(dloss, x, good, bad):
    z = (x[..., None, :] @ (good - bad)[..., :, None])[..., 0, 0]
    dz = -dloss * sigmoid(-z)
    return dz[..., None] * (good - bad), dz[..., None] * x, dz[..., None] * x * -1


# --- repaired_fism --------------------------------------------------------------------------------------------------


def all_less_itself(Y, Q, alpha):
    x = (Y.sum(axis=0) - Y) / (len(Y) - 1) ** alpha
    return (x * Q).sum(axis=1)


def item_by_item(Y, Q, alpha):
    scores = []
    for t in range(len(Y)):
        others = [Y[j] for j in range(len(Y)) if j != t]
        scores.append(sum(others) / len(others) ** alpha @ Q[t])
    return scores


def by_deletion(Y, Q, alpha):
    n = len(Y) - 1
    return np.array([np.delete(Y, t, axis=0).sum(0) @ Q[t] * n**-alpha for t in range(n + 1)])


def by_a_matrix(Y, Q, alpha):
    """Ones, and 0 on the diagonal: EASE's constraint."""
    A = 1 - np.eye(len(Y))
    return np.diag(A @ Y @ Q.T) / (len(Y) - 1) ** alpha


def all_products_less_the_diagonal(Y, Q, alpha):
    S = Q @ Y.T
    return (S.sum(axis=1) - np.diag(S)) / np.power(len(Y) - 1.0, alpha)


def with_a_mask(Y, Q, alpha):
    S = np.where(np.eye(len(Y), dtype=bool), 0, Q @ Y.T)
    return S.sum(-1) * (len(S) - 1.0) ** -alpha


def einsums(Y, Q, alpha):
    n = Y.shape[0] - 1
    return (np.einsum("jd,td->t", Y, Q) - np.einsum("td,td->t", Y, Q)) / n**alpha


def before_and_after(Y, Q, alpha):
    none = np.zeros_like(Y[:1])
    before = np.concatenate([none, np.cumsum(Y, axis=0)[:-1]])
    after = np.concatenate([np.cumsum(Y[::-1], axis=0)[::-1][1:], none])
    return np.sum((before + after) * Q, axis=-1) / (len(Y) - 1) ** alpha


def subtracted_in_place(Y, Q, alpha):
    total = Y.sum(axis=0)
    Y *= -1
    Y += total
    Y *= Q
    return Y.sum(axis=1) / (len(Q) - 1) ** alpha


# --- my_ease --------------------------------------------------------------------------------------------------------


def as_in_the_text(X, l2):
    P = np.linalg.inv(X.T @ X + l2 * np.eye(X.shape[1]))
    return np.eye(len(P)) - P / np.diag(P)


def diagonal_set_to_0(X, l2):
    G = X.T @ X
    G[np.diag_indices(len(G))] += l2
    P = np.linalg.inv(G)
    B = P / (-np.diag(P))
    B[np.diag_indices(len(B))] = 0
    return B


def solved_for_the_identity(X, l2):
    n = X.shape[1]
    P = np.linalg.solve(X.T @ X + np.diag(np.full(n, l2)), np.eye(n))
    return np.eye(n) - P @ np.diag(1 / np.diag(P))


def column_by_column(X, l2):
    P = np.linalg.inv(X.T @ X + l2 * np.identity(X.shape[1]))
    B = np.zeros_like(P)
    for i in range(len(P)):
        for j in range(len(P)):
            if i != j:
                B[i, j] = -P[i, j] / P[j, j]
    return B


def a_regression_for_each_item(X, l2):
    """Ridge regression of each column on the others: the constraint, literally."""
    m = X.shape[1]
    B = np.zeros((m, m))
    for j in range(m):
        others = [i for i in range(m) if i != j]
        Z = X[:, others]
        B[others, j] = np.linalg.solve(Z.T @ Z + l2 * np.eye(m - 1), Z.T @ X[:, j])
    return B


def least_squares_with_more_rows(X, l2):
    """λ as rows √λ I under X."""
    m = X.shape[1]
    longer = np.concatenate([X, np.sqrt(l2) * np.eye(m)])
    target = np.concatenate([X, np.zeros((m, m))])
    B = np.zeros((m, m))
    for j in range(m):
        B[np.arange(m) != j, j] = np.linalg.lstsq(np.delete(longer, j, 1), target[:, j], rcond=None)[0]
    return B


def by_eigenvectors(X, l2):
    squares, V = np.linalg.eigh(X.T @ X)
    P = (V / (squares + l2)) @ V.T
    return np.where(np.eye(len(P), dtype=bool), 0, -P / np.diagonal(P)[None, :])


def by_singular_values(X, l2):
    _, s, Vt = np.linalg.svd(X, full_matrices=False)
    P = Vt.T @ np.diag(1 / (s**2 + l2) - 1 / l2) @ Vt + np.eye(X.shape[1]) / l2
    B = -P / P.diagonal()
    np.fill_diagonal(B, 0)
    return B


def lists_of_rows(X, l2):
    P = np.linalg.pinv(np.einsum("ui,uj->ij", X, X) + l2 * np.eye(X.shape[1]))
    return [[0.0 if i == j else float(-P[i, j] / P[j, j]) for j in range(len(P))] for i in range(len(P))]


# --- ignores_order --------------------------------------------------------------------------------------------------


def shuffled(score):
    rng = np.random.default_rng(0)
    history = np.arange(1, 9)
    return all(np.allclose(score(history), score(rng.permutation(history))) for _ in range(10))


def every_order_of_four(score):
    expected = score(np.array([5, 2, 9, 7]))
    return all(np.allclose(score(np.array(order)), expected) for order in itertools.permutations([5, 2, 9, 7]))


def it_asserts(score):
    rng = np.random.default_rng(1)
    for _ in range(6):
        history = rng.choice(np.arange(1, 13), 6, replace=False)
        np.testing.assert_allclose(score(rng.permutation(history)), score(history), atol=1e-8)


def neighbours_exchanged(score):
    """Exchanges of neighbours make every order."""
    history = np.array([3, 1, 12, 6, 8, 4])
    before = score(history)
    for i in range(5):
        other = history.copy()
        other[[i, i + 1]] = history[[i + 1, i]]
        if not np.allclose(before, score(other)):
            return False
    return True


def sorted_first(score):
    rng = np.random.default_rng(2)
    drawn = [rng.permutation(12)[:7] + 1 for _ in range(8)]
    return bool(max(np.abs(score(h) - score(np.sort(h))).max() for h in drawn) < 1e-6)


def no_spread(score):
    rng = np.random.default_rng(3)
    items = rng.permutation(12)[:8] + 1
    return np.stack([score(rng.permutation(items)) for _ in range(20)]).std(axis=0).max() < 1e-6


def any_two_exchanged(score):
    history = np.array([2, 4, 6, 8, 10])
    for i, j in itertools.combinations(range(5), 2):
        other = history.copy()
        other[i], other[j] = history[j], history[i]
        if np.linalg.norm(score(history) - score(other)) > 1e-6:
            return False
    return True


def unseeded(score):
    rng = np.random.default_rng()
    return all(
        np.allclose(score(h), score(rng.permutation(h)))
        for h in (rng.choice(np.arange(1, 13), n, replace=False) for n in (4, 5, 6, 7, 8, 9, 10))
    )


def lists_shuffled(score):
    rng = np.random.default_rng(4)
    history = [int(i) for i in rng.permutation(12)[:6] + 1]
    first = score(np.array(history))
    for _ in range(12):
        rng.shuffle(history)
        if not np.isclose(score(np.array(history)), first).all():
            return False
    return True


_H = np.array([7, 3, 11, 5, 2, 9])


def _compared(change):
    """A test that compares a history with one change of it."""
    return lambda score: np.allclose(score(_H), score(change(_H.copy())))


def reversed_alone(score):
    return _compared(lambda h: h[::-1])(score)


def rolled_alone(score):
    return _compared(lambda h: np.roll(h, 1))(score)


def last_two_exchanged(score):
    return _compared(lambda h: h[[0, 1, 2, 3, 5, 4]])(score)


def first_two_exchanged(score):
    return _compared(lambda h: h[[1, 0, 2, 3, 4, 5]])(score)


def same_twice(score):
    return _compared(lambda h: h)(score)


def middle_shuffled(score):
    return _compared(lambda h: h[[0, 3, 1, 2, 4, 5]])(score)


def other_items(score):
    return _compared(lambda h: h + 1)(score)


def one_item_fewer(score):
    return _compared(lambda h: h[1:])(score)


def last_item_repeated(score):
    return _compared(lambda h: np.append(h, h[-1]))(score)


def always_true(score):
    return True


def always_false(score):
    return False


def to_the_bit(score):
    rng = np.random.default_rng(0)
    history = np.arange(1, 13)
    return all(np.array_equal(score(history), score(rng.permutation(history))) for _ in range(20))


def the_other_way_round(score):
    return not shuffled(score)


def an_array_of_truths(score):
    return np.isclose(score(_H), score(_H[[2, 0, 1, 5, 3, 4]]))


def no_return(score):
    shuffled(score)


def a_wide_tolerance(score):
    return np.allclose(score(_H), score(_H[[2, 0, 1, 5, 3, 4]]), atol=1e3)


def one_item(score):
    return np.allclose(score(np.array([4])), score(np.array([4])[::-1]))


def number_of_scores(score):
    return score(_H).shape == score(_H[[2, 0, 1, 5, 3, 4]]).shape


def first_score_alone(score):
    """Index 0 is padding."""
    return bool(np.isfinite(score(_H)[0]) and np.isfinite(score(_H[::-1])[0]))


def differs_from_another_history(score):
    return shuffled(score) and not np.allclose(score(_H), score(_H + 1))


# --- my_lanes -------------------------------------------------------------------------------------------------------


def step_by_step(sessions, lanes):
    waiting = list(sessions)
    now = [waiting.pop(0) if waiting else None for _ in range(lanes)]
    at = [0] * lanes
    rows = []
    while any(s is not None for s in now):
        ids, targets, starts = [0] * lanes, [0] * lanes, [False] * lanes
        for b in range(lanes):
            if now[b] is None:
                continue
            ids[b], targets[b], starts[b] = now[b][at[b]], now[b][at[b] + 1], at[b] == 0
            at[b] += 1
            if at[b] == len(now[b]) - 1:
                now[b], at[b] = waiting.pop(0) if waiting else None, 0
        rows.append((ids, targets, starts))
    return tuple(np.array(part) for part in zip(*rows, strict=True))


def by_the_free_lane(sessions, lanes):
    """Each session goes to the lane that is free first; then all lanes are written."""
    free, placed = [0] * lanes, []
    for s in sessions:
        b = int(np.argmin(free))
        placed.append((s, b, free[b]))
        free[b] += len(s) - 1
    ids, targets = np.zeros((2, max(free), lanes), int)
    starts = np.zeros((max(free), lanes), bool)
    for s, b, t in placed:
        ids[t : t + len(s) - 1, b], targets[t : t + len(s) - 1, b], starts[t, b] = s[:-1], s[1:], True
    return ids, targets, starts


def generators(sessions, lanes):
    queue = deque(sessions)

    def lane():
        while True:
            if not queue:
                yield 0, 0, False
                continue
            s = queue.popleft()
            yield from ((s[t], s[t + 1], t == 0) for t in range(len(s) - 1))

    all_lanes, left, rows = [lane() for _ in range(lanes)], sum(len(s) - 1 for s in sessions), []
    while left > 0:
        rows.append([next(one) for one in all_lanes])
        left -= sum(a != 0 for a, _, _ in rows[-1])
    return [[[one[i] for one in row] for row in rows] for i in range(3)]


def one_flat_array_and_places(sessions, lanes):
    """As the released code: offsets into one array of items."""
    flat = np.concatenate(sessions)
    begin = np.concatenate([[0], np.cumsum([len(s) for s in sessions])])
    session = np.where(np.arange(lanes) < len(sessions), np.arange(lanes), -1)
    place, following = np.where(session >= 0, begin[session], 0), lanes
    ids, targets, starts = [], [], []
    fresh = session >= 0
    while (session >= 0).any():
        real = session >= 0
        ids.append(np.where(real, flat[place], 0))
        targets.append(np.where(real, flat[np.minimum(place + 1, len(flat) - 1)], 0))
        starts.append(fresh & real)
        place, fresh = place + real, np.zeros(lanes, bool)
        for b in np.flatnonzero(real):
            if place[b] + 1 == begin[session[b] + 1]:
                session[b] = following if following < len(sessions) else -1
                following += 1
                fresh[b], place[b] = session[b] >= 0, begin[max(session[b], 0)]
    return np.array(ids), np.array(targets), np.array(starts)


def lists_that_grow(sessions, lanes):
    columns = [[] for _ in range(lanes)]
    for s in sessions:
        shortest = min(columns, key=len)
        shortest += [(int(a), int(b), int(i == 0)) for i, (a, b) in enumerate(itertools.pairwise(s))]
    T = max(map(len, columns))
    table = np.array([c + [(0, 0, 0)] * (T - len(c)) for c in columns])
    return table[:, :, 0].T, table[:, :, 1].T, table[:, :, 2].T


def floats(sessions, lanes):
    return [np.array(part, float) for part in step_by_step(sessions, lanes)]


def cut_at_the_end(sessions, lanes):
    """Arrays that are long enough for one lane, then cut."""
    T = sum(len(s) - 1 for s in sessions)
    out = np.zeros((3, T, lanes), int)
    t = np.zeros(lanes, int)
    for s in sessions:
        b = t.argmin()
        for i in range(len(s) - 1):
            out[:, t[b], b] = s[i], s[i + 1], i == 0
            t[b] += 1
    ids, targets, starts = out[:, : t.max()]
    return ids, targets, starts.astype(bool)


def recursive(sessions, lanes):
    def step(now, waiting):
        now, waiting = list(now), list(waiting)
        for b in range(lanes):
            if now[b] is None and waiting:
                now[b] = (waiting.pop(0), 0)
        if all(one is None for one in now):
            return []
        row = [(0, 0, False) if one is None else (one[0][one[1]], one[0][one[1] + 1], one[1] == 0) for one in now]
        after = [None if one is None or one[1] + 2 == len(one[0]) else (one[0], one[1] + 1) for one in now]
        return [row, *step(after, waiting)]

    rows = step([None] * lanes, sessions)
    return tuple(np.array([[one[i] for one in row] for row in rows]) for i in range(3))


def empties_the_list(sessions, lanes):
    """Writes into its argument."""
    rows, now = [], [[] for _ in range(lanes)]
    while sessions or any(now):
        for b, rest in enumerate(now):
            if not rest and sessions:
                s = list(sessions.pop(0))
                now[b] = [(x, y, i == 0) for i, (x, y) in enumerate(itertools.pairwise(s))]
        rows.append([rest.pop(0) if rest else (0, 0, False) for rest in now])
    return tuple(np.array(part) for part in np.moveaxis(np.array(rows, dtype=int), -1, 0))


RIGHT = {
    "my_bpr_backward": (
        directly, predicted_minus_true, with_einsum, pair_by_pair, by_the_sign_of_z, stacked, by_logaddexp,
        writes_into_arguments, by_matmul,
    ),
    "repaired_fism": (
        all_less_itself, item_by_item, by_deletion, by_a_matrix, all_products_less_the_diagonal, with_a_mask, einsums,
        before_and_after, subtracted_in_place,
    ),
    "my_ease": (
        as_in_the_text, diagonal_set_to_0, solved_for_the_identity, column_by_column, a_regression_for_each_item,
        least_squares_with_more_rows, by_eigenvectors, by_singular_values, lists_of_rows,
    ),
    "ignores_order": (
        shuffled, every_order_of_four, it_asserts, neighbours_exchanged, sorted_first, no_spread, any_two_exchanged,
        unseeded, lists_shuffled,
    ),
    "my_lanes": (
        step_by_step, by_the_free_lane, generators, one_flat_array_and_places, lists_that_grow, floats, cut_at_the_end,
        recursive, empties_the_list,
    ),
}  # fmt: skip
WRONG = {
    name: tuple((wrong, "") for wrong in all_wrong)
    for name, all_wrong in (
        ("my_bpr_backward", listed("my_bpr_backward")),
        ("repaired_fism", listed("repaired_fism")),
        ("my_ease", listed("my_ease")),
        ("my_lanes", listed("my_lanes")),
        ("ignores_order", (
            reversed_alone, rolled_alone, last_two_exchanged, first_two_exchanged, same_twice, middle_shuffled,
            other_items, one_item_fewer, last_item_repeated, always_true, always_false, to_the_bit,
            the_other_way_round, an_array_of_truths, no_return, a_wide_tolerance, one_item, number_of_scores,
            first_score_alone, differs_from_another_history,
        )),
    )
}  # fmt: skip
