"""Chapter 14: answers to my_cloze, my_cloze_backward and no_target_is_read."""

import numpy as np

from tinyattn import ops

# --- my_cloze -------------------------------------------------------------------------------------------------------


def count_of(ids, rho):
    return np.maximum(1, np.rint(rho * (ids != 0).sum(axis=1))).astype(int)


def hide(ids, hidden, mask):
    return np.where(hidden, mask, ids), np.where(hidden, ids, 0)


def smallest(ids, turn, count):
    order = np.argsort(np.where(ids != 0, turn, np.inf), axis=1)
    return np.argsort(order, axis=1) < np.asarray(count)[:, None]


def by_ranks(ids, turn, rho, mask):
    return hide(ids, smallest(ids, turn, count_of(ids, rho)), mask)


def by_rows(ids, turn, rho, mask):
    inputs, targets = ids.copy(), np.zeros_like(ids)
    for b, row in enumerate(ids):
        real = np.flatnonzero(row)
        for t in real[np.argsort(turn[b, real])][: max(1, round(rho * len(real)))]:
            inputs[b, t], targets[b, t] = mask, row[t]
    return inputs, targets


def by_counting(ids, turn, rho, mask):
    """The rank is how many real ones have a smaller turn."""
    real = ids != 0
    rank = ((turn[:, None, :] < turn[:, :, None]) & real[:, None, :]).sum(axis=2)
    return hide(ids, real & (rank < count_of(ids, rho)[:, None]), mask)


def by_threshold(ids, turn, rho, mask):
    """The count-th smallest turn of each row."""
    numbers = np.where(ids != 0, turn, 10**9)
    limit = np.take_along_axis(np.sort(numbers, axis=1), count_of(ids, rho)[:, None] - 1, axis=1)
    return hide(ids, numbers <= limit, mask)


def in_place(ids, turn, rho, mask):
    hidden = smallest(ids, turn, count_of(ids, rho))
    targets = ids * hidden
    ids[hidden] = mask
    return ids, targets


def in_lists(ids, turn, rho, mask):
    inputs, targets = by_rows(ids, turn, rho, mask)
    return inputs.tolist(), targets.tolist()


def both_in_one_array(ids, turn, rho, mask):
    return np.stack(by_ranks(ids, turn, rho, mask))


def hidden_items_only(ids, turn, rho, mask):
    """Rows of different lengths."""
    inputs, targets = by_ranks(ids, turn, rho, mask)
    return inputs, [row[row != 0] for row in targets]


def overwritten(ids, turn, rho, mask):
    hidden = smallest(ids, turn, count_of(ids, rho))
    ids[hidden] = mask
    return ids, ids * hidden


def turn_itself(ids, turn, rho, mask):
    return hide(ids, (turn < count_of(ids, rho)[:, None]) & (ids != 0), mask)


def where_alone(ids, turn, rho, mask):
    inputs, targets = by_ranks(ids, turn, rho, mask)
    return inputs, targets != 0


def not_hidden(ids, turn, rho, mask):
    return ids, by_ranks(ids, turn, rho, mask)[1]


def all_asked(ids, turn, rho, mask):
    return by_ranks(ids, turn, rho, mask)[0], ids


def asks_for_the_mask(ids, turn, rho, mask):
    inputs = by_ranks(ids, turn, rho, mask)[0]
    return inputs, np.where(inputs == mask, inputs, 0)


def padding_too(ids, turn, rho, mask):
    rank = np.argsort(np.argsort(turn, axis=1), axis=1)
    return hide(ids, rank < count_of(ids, rho)[:, None], mask)


def width_for_length(ids, turn, rho, mask):
    count = np.full(len(ids), max(1, round(rho * ids.shape[1])))
    return hide(ids, smallest(ids, turn, count) & (ids != 0), mask)


def none_of_short_rows(ids, turn, rho, mask):
    return hide(ids, smallest(ids, turn, np.rint(rho * (ids != 0).sum(axis=1))), mask)


def rounded_down(ids, turn, rho, mask):
    return hide(ids, smallest(ids, turn, np.maximum(1, (rho * (ids != 0).sum(axis=1) + 1e-9).astype(int))), mask)


def rounded_up(ids, turn, rho, mask):
    return hide(ids, smallest(ids, turn, np.ceil(rho * (ids != 0).sum(axis=1) - 1e-9)), mask)


def argsort_once(ids, turn, rho, mask):
    order = np.argsort(np.where(ids != 0, turn, np.inf), axis=1)
    return hide(ids, order < count_of(ids, rho)[:, None], mask)


def largest(ids, turn, rho, mask):
    return by_ranks(ids, -turn, rho, mask)


def the_others(ids, turn, rho, mask):
    return by_ranks(ids, turn, 1 - rho, mask)


def exchanged(ids, turn, rho, mask):
    return by_ranks(ids, turn, rho, mask)[::-1]


def zero_for_mask(ids, turn, rho, mask):
    return by_ranks(ids, turn, rho, 0)


def inputs_alone(ids, turn, rho, mask):
    return by_ranks(ids, turn, rho, mask)[0]


def only_the_last(ids, turn, rho, mask):
    return by_ranks(ids, -np.arange(ids.shape[1]) + 0 * ids, rho, mask)


# --- my_cloze_backward ----------------------------------------------------------------------------------------------


def parts(h, E, targets):
    s = h @ E[1:].T
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    p = p / p.sum(axis=-1, keepdims=True)
    return p, targets[..., None] == np.arange(1, len(E)), (targets != 0)[..., None]


def through(ds, h, E):
    return ds @ E[1:], np.vstack([0 * E[:1], ds.reshape(-1, len(E) - 1).T @ h.reshape(-1, E.shape[1])])


def flat(dloss, h, E, targets):
    p, onehot, asked = parts(h, E, targets)
    return through(dloss * asked * (p - onehot) / asked.sum(), h, E)


def by_loops(dloss, h, E, targets):
    dh, dE, count = np.zeros_like(h), np.zeros_like(E), np.sum(targets != 0)
    for b, t in np.argwhere(targets):
        s = E[1:] @ h[b, t]
        p = np.exp(s - s.max())
        p /= p.sum()
        p[targets[b, t] - 1] -= 1
        dh[b, t] = dloss * p @ E[1:] / count
        dE[1:] += dloss * np.outer(p, h[b, t]) / count
    return dh, dE


def with_ops(dloss, h, E, targets):
    weights = (targets != 0).astype(h.dtype)
    ds = ops.cross_entropy_backward(dloss, h @ E[1:].T, np.maximum(targets - 1, 0), weights)
    return through(ds, h, E)


def asked_rows_only(dloss, h, E, targets):
    asked = targets != 0
    rows = h[asked]
    ds = ops.softmax(rows @ E[1:].T)
    ds[np.arange(len(rows)), targets[asked] - 1] -= 1
    ds *= dloss / len(rows)
    dh, dE = np.zeros_like(h), np.zeros_like(E)
    dh[asked], dE[1:] = ds @ E[1:], ds.T @ rows
    return dh, dE


def padding_at_minus_infinity(dloss, h, E, targets):
    """All rows are scored, and row 0 has no weight."""
    s = h @ E.T
    s[..., 0] = -np.inf
    ds = ops.softmax(s) - (targets[..., None] == np.arange(len(E)))
    ds = dloss * ds * (targets != 0)[..., None] / np.count_nonzero(targets)
    return ds @ E, np.tensordot(ds, h, axes=((0, 1), (0, 1)))


def nested_lists(dloss, h, E, targets):
    dh, dE = by_loops(dloss, h, E, targets)
    return dh.tolist(), dE.tolist()


def overflows(dloss, h, E, targets):
    """Its softmax subtracts nothing."""
    _, onehot, asked = parts(h, E, targets)
    e = np.exp(h @ E[1:].T)
    return through(dloss * asked * (e / e.sum(axis=-1, keepdims=True) - onehot) / asked.sum(), h, E)


def every_position(dloss, h, E, targets):
    p, onehot, asked = parts(h, E, targets)
    return through(dloss * (p - onehot) / asked.size, h, E)


def mean_over_all(dloss, h, E, targets):
    p, onehot, asked = parts(h, E, targets)
    return through(dloss * asked * (p - onehot) / asked.size, h, E)


def a_sum(dloss, h, E, targets):
    p, onehot, asked = parts(h, E, targets)
    return through(dloss * asked * (p - onehot), h, E)


def no_dloss(dloss, h, E, targets):
    return flat(1.0, h, E, targets)


def wrong_sign(dloss, h, E, targets):
    return flat(-dloss, h, E, targets)


def padding_scored(dloss, h, E, targets):
    ds = dloss * (ops.softmax(h @ E.T) - (targets[..., None] == np.arange(len(E))))
    ds = ds * (targets != 0)[..., None] / np.count_nonzero(targets)
    return ds @ E, np.einsum("bnv,bnd->vd", ds, h)


def as_columns(dloss, h, E, targets):
    p, _, asked = parts(h, E, targets)
    return through(dloss * asked * (p - (targets[..., None] == np.arange(len(E) - 1))) / asked.sum(), h, E)


def mean_of_rows(dloss, h, E, targets):
    p, onehot, asked = parts(h, E, targets)
    return through(dloss * asked * (p - onehot) / np.maximum(asked.sum(1, keepdims=True), 1) / len(h), h, E)


def one_off(dloss, h, E, targets):
    return flat(dloss, h, E, np.where(targets != 0, np.maximum(targets - 1, 1), 0))


def only_the_target(dloss, h, E, targets):
    """The other candidates have a gradient, too."""
    p, onehot, asked = parts(h, E, targets)
    return through(dloss * asked * onehot * (p - onehot) / asked.sum(), h, E)


def only_p(dloss, h, E, targets):
    p, _, asked = parts(h, E, targets)
    return through(dloss * asked * p / asked.sum(), h, E)


def dE_of_targets_only(dloss, h, E, targets):
    dh, dE = flat(dloss, h, E, targets)
    return dh, dE * np.isin(np.arange(len(E)), targets)[:, None]


def without_padding_row(dloss, h, E, targets):
    dh, dE = flat(dloss, h, E, targets)
    return dh, dE[1:]


def turned_round(dloss, h, E, targets):
    return flat(dloss, h, E, targets)[::-1]


# --- no_target_is_read ----------------------------------------------------------------------------------------------


def all_with_all(inputs, targets):
    return not ((inputs[:, :, None] == targets[:, None, :]) & (targets != 0)[:, None, :]).any()


def with_sets(inputs, targets):
    return all(set(x) & set(y) <= {0} for x, y in zip(inputs.tolist(), targets.tolist(), strict=True))


def with_isin(inputs, targets):
    return not any(np.isin(t[t != 0], x).any() for x, t in zip(inputs, targets, strict=True))


def asked_one_by_one(inputs, targets):
    return all(targets[b, t] not in inputs[b] for b, t in np.argwhere(targets))


def with_minus_one(inputs, targets):
    asked = np.where(targets == 0, -1, targets)
    return bool(np.all(inputs[:, None] != asked[..., None]))


def by_shifts(inputs, targets):
    """Every distance, all the way round."""
    found = [np.roll(inputs, k, axis=1) == targets for k in range(inputs.shape[1])]
    return not np.any(found & (targets != 0))


def asserts(inputs, targets):
    """It returns nothing where it holds."""
    for row, asked in zip(inputs, targets, strict=True):
        for item in asked[asked != 0]:
            assert item not in row, f"item {item} can be read"


def asserts_too_little(inputs, targets):
    assert not np.any((inputs == targets) & (targets != 0)), "an item can be read where it is asked for"


def same_place(inputs, targets):
    return not ((inputs == targets) & (targets != 0)).any()


def any_row(inputs, targets):
    return not np.isin(targets[targets != 0], inputs).any()


def zeros_count(inputs, targets):
    return not (inputs[:, :, None] == targets[:, None, :]).any()


def opposite(inputs, targets):
    return not all_with_all(inputs, targets)


def first_target_of_each(inputs, targets):
    return all(not any(t) or t[np.argmax(t != 0)] not in x for x, t in zip(inputs, targets, strict=True))


def later_only(inputs, targets):
    same = (inputs[:, :, None] == targets[:, None, :]) & (targets[:, None, :] != 0)
    return not np.triu(same).any()


def in_words(inputs, targets):
    return str(all_with_all(inputs, targets))


def masked_there(inputs, targets):
    return bool((inputs[targets != 0] == inputs.max()).all())


def always(inputs, targets):
    return True


def never(inputs, targets):
    return False


def neighbours_only(inputs, targets):
    left, right = inputs[:, :-1] == targets[:, 1:], inputs[:, 1:] == targets[:, :-1]
    return not ((left & (targets[:, 1:] != 0)).any() or (right & (targets[:, :-1] != 0)).any())


def all_must_leak(inputs, targets):
    same = (inputs[:, :, None] == targets[:, None, :]).any(axis=1)
    return not same[targets != 0].all()


def first_row_only(inputs, targets):
    return all_with_all(inputs[:1], targets[:1])


def nothing(inputs, targets):
    all_with_all(inputs, targets)


def a_row_each(inputs, targets):
    return ~((inputs[:, :, None] == targets[:, None, :]) & (targets != 0)[:, None, :]).any(axis=(1, 2))


def unnamed(*answers):
    return tuple((answer, "") for answer in answers)


# --- more styles ----------------------------------------------------------------------------------------------------


def one_smallest_after_another(ids, turn, rho, mask):
    """Hides the smallest that is left, as often as there is one to hide."""
    left, hidden = np.where(ids > 0, turn, np.inf), np.zeros(ids.shape, bool)
    counts = count_of(ids, rho)
    for k in range(counts.max()):
        rows = np.flatnonzero(counts > k)
        at = left[rows].argmin(axis=1)
        hidden[rows, at], left[rows, at] = True, np.inf
    return hide(ids, hidden, mask)


def by_intersections(inputs, targets):
    return all(np.intersect1d(x, t[t > 0]).size == 0 for x, t in zip(inputs, targets, strict=True))


def by_log_softmax(dloss, h, E, targets):
    """exp(s - log Σ e^s), row after row of all positions."""
    rows, asked = h.reshape(-1, h.shape[-1]), targets.reshape(-1)
    s = rows @ E[1:].T
    top = s.max(axis=1, keepdims=True)
    ds = np.exp(s - top - np.log(np.exp(s - top).sum(axis=1, keepdims=True)))
    at = np.flatnonzero(asked)
    ds[at, asked[at] - 1] -= 1
    ds *= (dloss * (asked > 0) / len(at))[:, None]
    dE = np.zeros_like(E)
    dE[1:] += ds.T @ rows
    return (ds @ E[1:]).reshape(h.shape), dE


def with_a_wide_one_hot(dloss, h, E, targets):
    p = ops.softmax(np.einsum("bld,vd->blv", h, E[1:]))
    asked = (targets > 0).astype(float)
    ds = (p - np.eye(len(E))[targets][..., 1:]) * asked[..., None] * (dloss / asked.sum())
    return np.einsum("blv,vd->bld", ds, E[1:]), np.pad(np.einsum("blv,bld->vd", ds, h), ((1, 0), (0, 0)))


RIGHT = {
    "my_cloze": (
        by_ranks, by_rows, by_counting, by_threshold, in_place, in_lists, both_in_one_array,
        one_smallest_after_another,
    ),
    "my_cloze_backward": (
        flat, by_loops, with_ops, asked_rows_only, padding_at_minus_infinity, nested_lists, by_log_softmax,
        with_a_wide_one_hot,
    ),
    "no_target_is_read": (
        all_with_all, with_sets, with_isin, asked_one_by_one, with_minus_one, by_shifts, asserts, by_intersections,
    ),
}  # fmt: skip
WRONG = {
    "my_cloze": unnamed(not_hidden, all_asked, asks_for_the_mask, padding_too, width_for_length, none_of_short_rows,
                        rounded_down, rounded_up, argsort_once, largest, the_others, exchanged, zero_for_mask,
                        inputs_alone, only_the_last, hidden_items_only, overwritten, turn_itself, where_alone),
    "my_cloze_backward": unnamed(every_position, mean_over_all, a_sum, no_dloss, wrong_sign, padding_scored, one_off,
                                 only_the_target, only_p, dE_of_targets_only, without_padding_row, turned_round,
                                 as_columns, mean_of_rows, overflows),
    "no_target_is_read": unnamed(same_place, any_row, zeros_count, opposite, masked_there, always, never,
                                 neighbours_only, all_must_leak, first_row_only, nothing, a_row_each,
                                 first_target_of_each, later_only, in_words, asserts_too_little),
}  # fmt: skip
