"""Answers to the exercises of chapter 12."""

import itertools

import numpy as np

from tinyattn.data import pad

from . import listed

# --- my_shifted_batch -----------------------------------------------------------------------------------------------


def row_by_row(sequences, maxlen):
    newest = [s[-(maxlen + 1) :] for s in sequences]
    width = max(len(s) for s in newest) - 1
    ids = np.zeros((len(newest), width), int)
    targets = np.zeros((len(newest), width), int)
    for b, s in enumerate(newest):
        ids[b, : len(s) - 1] = s[:-1]
        targets[b, : len(s) - 1] = s[1:]
    return ids, targets


def pairs_of_items(sequences, maxlen):
    """In whole lists, and lists come back."""
    rows = [list(itertools.pairwise(s))[-maxlen:] for s in sequences]
    width = max(map(len, rows))
    filled = [row + [(0, 0)] * (width - len(row)) for row in rows]
    return [[a for a, _ in row] for row in filled], [[b for _, b in row] for row in filled]


def pads_first(sequences, maxlen):
    """float64, and cut afterwards."""
    newest = [s[-maxlen - 1 :] for s in sequences]
    width = max(map(len, newest))
    whole = np.stack([np.concatenate([s, np.zeros(width - len(s))]) for s in newest])
    targets = whole[:, 1:]
    return whole[:, :-1] * (targets > 0), targets


def with_the_library(sequences, maxlen):
    return pad([s[:-1] for s in sequences], maxlen).ids, pad([s[1:] for s in sequences], maxlen).ids


def by_position(sequences, maxlen):
    counts = [min(len(s) - 1, maxlen) for s in sequences]
    ids, targets = np.zeros((2, len(sequences), max(counts)), np.int32)
    for b, n in enumerate(counts):
        for t in range(n):
            at = len(sequences[b]) - 1 - n + t
            ids[b, t], targets[b, t] = sequences[b][at], sequences[b][at + 1]
    return ids, targets


def by_a_mask(sequences, maxlen):
    lengths = np.array([min(len(s) - 1, maxlen) for s in sequences])
    real = np.arange(lengths.max()) < lengths[:, None]
    ids, targets = np.zeros_like(real, int), np.zeros_like(real, int)
    ids[real] = np.concatenate([s[-n - 1 : -1] for s, n in zip(sequences, lengths, strict=True)])
    targets[real] = np.concatenate([s[-n:] for s, n in zip(sequences, lengths, strict=True)])
    return ids, targets


def both_in_one_array(sequences, maxlen):
    width = min(maxlen, max(map(len, sequences)) - 1)
    both = np.zeros((2, len(sequences), width), np.float32)
    for b, items in enumerate(sequences):
        items = items[-width - 1 :]
        both[:, b, : len(items) - 1] = items[:-1], items[1:]
    return both


def both_in_a_list(sequences, maxlen):
    return list(row_by_row(sequences, maxlen))


def minus_one_for_padding(sequences, maxlen):
    return [np.where(x == 0, -1, x) for x in row_by_row(sequences, maxlen)]


def one_column_too_many(sequences, maxlen):
    width = min(maxlen, max(map(len, sequences)))
    ids, targets = np.zeros((2, len(sequences), width), int)
    for b, s in enumerate(sequences):
        s = s[-maxlen - 1 :]
        ids[b, : len(s) - 1], targets[b, : len(s) - 1] = s[:-1], s[1:]
    return ids, targets


def last_item_too(sequences, maxlen):
    ids = np.zeros((len(sequences), min(maxlen, max(map(len, sequences)))), int)
    for b, s in enumerate(sequences):
        ids[b, : len(s[-maxlen:])] = s[-maxlen:]
    targets = np.zeros_like(ids)
    targets[:, :-1] = ids[:, 1:]
    return ids, targets


def without_padding(sequences, maxlen):
    """Rows of different lengths."""
    return [s[-maxlen - 1 : -1] for s in sequences], [s[-maxlen - 1 :][1:] for s in sequences]


def nothing_returned(sequences, maxlen):
    row_by_row(sequences, maxlen)


def cut_by_columns(sequences, maxlen):
    ids, targets = row_by_row(sequences, 100)
    return ids[:, -maxlen:], targets[:, -maxlen:]


# --- my_pair_loss_backward ------------------------------------------------------------------------------------------


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def directly(dloss, h, good, bad):
    up = dloss * (sigmoid((h * good).sum(-1)) - 1)
    down = dloss * sigmoid((h * bad).sum(-1))
    return up[..., None] * good + down[..., None] * bad, up[..., None] * h, down[..., None] * h


def with_einsum(dloss, h, good, bad):
    up = -dloss * sigmoid(-np.einsum("...d,...d->...", h, good))
    down = dloss * sigmoid(np.einsum("...d,...d->...", h, bad))
    return (
        np.einsum("...,...d->...d", up, good) + np.einsum("...,...d->...d", down, bad),
        np.einsum("...,...d->...d", up, h),
        np.einsum("...,...d->...d", down, h),
    )


def one_position_at_a_time(dloss, h, good, bad):
    dh, dgood, dbad = np.zeros(h.shape), np.zeros(h.shape), np.zeros(h.shape)
    dloss = np.asarray(dloss)
    for at in np.ndindex(h.shape[:-1]):
        up = dloss[at] * (sigmoid(h[at] @ good[at]) - 1)
        down = dloss[at] * sigmoid(h[at] @ bad[at])
        dh[at], dgood[at], dbad[at] = up * good[at] + down * bad[at], up * h[at], down * h[at]
    return dh, dgood, dbad


def both_items_stacked(dloss, h, good, bad):
    e = np.stack([good, bad])
    truth = np.array([1, 0]).reshape(2, *[1] * (h.ndim - 1))
    dz = (dloss * (sigmoid((h * e).sum(-1)) - truth))[..., None]
    return (dz * e).sum(0), *(dz * h)


def with_tanh(dloss, h, good, bad):
    """σ(z) = (1 + tanh(z / 2)) / 2."""
    up = np.expand_dims(dloss * (np.tanh((h * good).sum(-1) / 2) - 1) / 2, -1)
    down = np.expand_dims(dloss * (np.tanh((h * bad).sum(-1) / 2) + 1) / 2, -1)
    return [up * good + down * bad, up * h, down * h]


def through_sigma(dloss, h, good, bad):
    """Divides by a σ that may have been rounded to 0."""
    p, q = sigmoid((h * good).sum(-1, keepdims=True)), sigmoid((h * bad).sum(-1, keepdims=True))
    dp, dq = -np.expand_dims(dloss, -1) / p, np.expand_dims(dloss, -1) / (1 - q)
    dz, dy = dp * p * (1 - p), dq * q * (1 - q)
    return dz * good + dy * bad, dz * h, dy * h


def overflowing(dloss, h, good, bad):
    up, down = np.exp((h * good).sum(-1)), np.exp((h * bad).sum(-1))
    dz, dy = (np.expand_dims(dloss * s, -1) for s in (up / (1 + up) - 1, down / (1 + down)))
    return dz * good + dy * bad, dz * h, dy * h


def each_product_alone(dloss, h, good, bad):
    dz, dy = (np.expand_dims(dloss, -1) * s for s in (sigmoid(h * good) - 1, sigmoid(h * bad)))
    return dz * good + dy * bad, dz * h, dy * h


def dh_alone(dloss, h, good, bad):
    return directly(dloss, h, good, bad)[0]


def dh_last(dloss, h, good, bad):
    dh, dgood, dbad = directly(dloss, h, good, bad)
    return dgood, dbad, dh


def margin(dloss, h, good, bad):
    """The gradient of -log σ(h·good - h·bad)."""
    dz = (dloss * (sigmoid((h * (good - bad)).sum(-1)) - 1))[..., None]
    return dz * (good - bad), dz * h, -dz * h


# --- repaired_scores ------------------------------------------------------------------------------------------------


def fancy(h, ids, table):
    n = (ids > 0).sum(axis=1)
    scores = h[np.arange(len(h)), n - 1] @ table.T
    scores[np.arange(len(h))[:, None], ids] = -np.inf
    scores[:, 0] = -np.inf
    return scores


def person_by_person(h, ids, table):
    rows = []
    for states, history in zip(h, ids, strict=True):
        seen = [int(i) for i in history if i]
        rows.append([-np.inf if i in (0, *seen) else states[len(seen) - 1] @ row for i, row in enumerate(table)])
    return rows


def along_an_axis(h, ids, table):
    at = np.count_nonzero(ids, axis=1) - 1
    last = np.take_along_axis(h, at[:, None, None], axis=1)[:, 0]
    scores = last @ table.T
    np.put_along_axis(scores, ids, -np.inf, axis=1)
    scores[:, 0] = -np.inf
    return scores


def all_positions_first(h, ids, table):
    scores = h @ table.T
    at = [len(row[row > 0]) - 1 for row in ids]
    scores = np.array([s[t] for s, t in zip(scores, at, strict=True)])
    for row, history in zip(scores, ids, strict=True):
        row[history] = row[0] = -np.inf
    return scores


def from_the_end(h, ids, table):
    """The first real item, counted from the right."""
    at = ids.shape[1] - 1 - np.argmax(ids[:, ::-1] != 0, axis=1)
    one_hot = (np.arange(ids.shape[1]) == at[:, None])[..., None]
    scores = (h * one_hot).sum(axis=1) @ table.T
    hidden = (ids[:, :, None] == np.arange(len(table))).any(axis=1)
    hidden[:, 0] = True
    return np.where(hidden, -np.inf, scores)


def ranked_last(h, ids, table):
    """Low, but not hidden."""
    return np.maximum(fancy(h, ids, table), -1e9)


def first_zero(h, ids, table):
    scores = h[np.arange(len(h)), np.argmin(ids, axis=1) - 1] @ table.T
    np.put_along_axis(scores, ids, -np.inf, axis=1)
    scores[:, 0] = -np.inf
    return scores


def first_zero_or_the_end(h, ids, table):
    """argmax of a full row is 0, and position -1 the last."""
    scores = h[np.arange(len(h)), np.argmax(ids == 0, axis=1) - 1] @ table.T
    np.put_along_axis(scores, ids, -np.inf, axis=1)
    scores[:, 0] = -np.inf
    return scores


def sum_of_states(h, ids, table):
    scores = (h * (ids != 0)[..., None]).sum(axis=1) @ table.T
    np.put_along_axis(scores, ids, -np.inf, axis=1)
    scores[:, 0] = -np.inf
    return scores


def shows_only_seen(h, ids, table):
    scores = np.full((len(h), len(table)), -np.inf)
    right = h[np.arange(len(h)), (ids > 0).sum(1) - 1] @ table.T
    for b, row in enumerate(ids):
        scores[b, row] = right[b, row]
    return scores


def unnamed(*answers):
    return tuple((answer, "") for answer in answers)


# --- more styles ----------------------------------------------------------------------------------------------------


def through_the_margin_of_each(dloss, h, good, bad):
    """Exponentials of negative numbers only."""

    def rises(z):  # σ(z)
        e = np.exp(-np.abs(z))
        return np.where(z >= 0, 1, e) / (1 + e)

    dz = -np.asarray(dloss) * rises(-np.sum(h * good, axis=-1))
    dy = np.asarray(dloss) * rises(np.sum(h * bad, axis=-1))
    return dz[..., None] * good + dy[..., None] * bad, dz[..., None] * h, dy[..., None] * h


def in_rows(dloss, h, good, bad):
    """Leading axes are merged, and restored."""
    shape, d = h.shape, h.shape[-1]
    h, good, bad = (a.reshape(-1, d) for a in (h, good, bad))
    flat = np.broadcast_to(dloss, shape[:-1]).reshape(-1, 1)
    z, y = (np.sum(h * e, axis=1, keepdims=True) for e in (good, bad))
    dz, dy = flat * (sigmoid(z) - 1), flat * sigmoid(y)
    return [a.reshape(shape) for a in (dz * good + dy * bad, dz * h, dy * h)]


def with_logaddexp(dloss, h, good, bad):
    """σ(z) = exp(-log(1 + e^-z))."""
    up = -np.exp(-np.logaddexp(0, (h * good).sum(-1, keepdims=True)))
    down = np.exp(-np.logaddexp(0, -(h * bad).sum(-1, keepdims=True)))
    up, down = np.asarray(dloss)[..., None] * up, np.asarray(dloss)[..., None] * down
    return up * good + down * bad, up * h, down * h


def with_add_at(h, ids, table):
    """The newest item's place is the number of the others."""
    newest = np.zeros(len(ids), int)
    np.add.at(newest, np.nonzero(ids)[0], 1)
    scores = np.einsum("bd,id->bi", h[range(len(h)), newest - 1], table)
    for b in range(len(ids)):
        scores[b, list({0, *ids[b]})] = -np.inf
    return scores


def masked_after_a_copy(h, ids, table):
    seen = np.zeros((len(h), len(table)), dtype=bool)
    seen[:, 0] = True
    np.put_along_axis(seen, ids, True, axis=1)
    newest = np.array([np.flatnonzero(row)[-1] for row in ids])
    scores = np.array([state[t] @ table.T for state, t in zip(h, newest, strict=True)])
    return np.where(seen, -np.inf, scores)


RIGHT = {
    "my_shifted_batch": (
        row_by_row, pairs_of_items, pads_first, with_the_library, by_position, by_a_mask, both_in_one_array,
        both_in_a_list,
    ),
    "my_pair_loss_backward": (
        directly, with_einsum, one_position_at_a_time, both_items_stacked, with_tanh, through_the_margin_of_each,
        in_rows, with_logaddexp,
    ),
    "repaired_scores": (
        fancy, person_by_person, along_an_axis, all_positions_first, from_the_end, first_zero_or_the_end,
        with_add_at, masked_after_a_copy,
    ),
}  # fmt: skip
WRONG = {
    "my_shifted_batch": unnamed(*listed("my_shifted_batch"), nothing_returned, cut_by_columns,
                                minus_one_for_padding, one_column_too_many, last_item_too, without_padding),
    "my_pair_loss_backward": unnamed(*listed("my_pair_loss_backward"), dh_alone, dh_last, margin,
                                     through_sigma, overflowing, each_product_alone),
    "repaired_scores": unnamed(*listed("repaired_scores"), sum_of_states, shows_only_seen, ranked_last,
                               first_zero),
}
