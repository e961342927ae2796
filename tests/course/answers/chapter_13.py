"""Answers to the exercises of chapter 13."""

import collections
import itertools
import math

import numpy as np

from tinyattn import evaluation

# --- my_mean_ranks --------------------------------------------------------------------------------------------------


def by_counts(scores, targets):
    own = scores[np.arange(len(scores)), targets]
    return 1 + (scores > own[:, None]).sum(axis=1) + ((scores == own[:, None]).sum(axis=1) - 1) / 2


def by_loops(scores, targets):
    ranks = []
    for row, target in zip(scores, targets, strict=True):
        rank = 1.0
        for column, score in enumerate(row):
            if score > row[target]:
                rank += 1
            elif score == row[target] and column != target:
                rank += 0.5
        ranks.append(rank)
    return ranks


def first_and_last(scores, targets):
    own = np.take_along_axis(scores, targets[:, None], axis=1)
    return ((scores > own).sum(axis=1) + 1 + (scores >= own).sum(axis=1)) / 2


def by_the_library(scores, targets):
    return evaluation.all_ranks(scores)[np.arange(len(targets)), targets]


def sorted_both_ways(scores, targets):
    its = np.arange(scores.shape[1]) == targets[:, None]
    best, worst = (np.argmax(np.argsort(-np.where(its, np.nextafter(scores, end), scores), axis=1) == targets[:, None],
                             axis=1) for end in (np.inf, -np.inf))  # fmt: skip
    return 1 + (best + worst) / 2


def in_place(scores, targets):
    scores -= np.take_along_axis(scores, targets[:, None], axis=1)
    return 0.5 + np.sign(scores).sum(axis=1) / 2 + scores.shape[1] / 2


def as_a_tuple(scores, targets):
    """One person's is a tuple of one number."""
    rows = zip(np.sort(scores)[:, ::-1], scores[np.arange(len(scores)), targets], strict=True)
    return tuple(np.flatnonzero(row == own).mean() + 1 for row, own in rows)


def nearly_equal(scores, targets):
    """Tiny scores that differ are taken for equal."""
    own = scores[np.arange(len(scores)), targets][:, None]
    same = np.isclose(scores, own)
    return 1 + ((scores > own) & ~same).sum(axis=1) + (same.sum(axis=1) - 1) / 2


def a_column(scores, targets):
    return by_counts(scores, targets)[:, None]


def everybodys_targets(scores, targets):
    own = scores[:, targets]
    return 1 + (scores > own).sum(axis=1) + ((scores == own).sum(axis=1) - 1) / 2


def different_scores(scores, targets):
    return np.array([1.0 + len(set(row[row > row[t]])) for row, t in zip(scores, targets, strict=True)])


def optimistic(scores, targets):
    return first_and_last(scores, targets) * 0 + 1 + (scores > scores[np.arange(len(scores)), targets][:, None]).sum(1)


def pessimistic(scores, targets):
    return (scores >= scores[np.arange(len(scores)), targets][:, None]).sum(axis=1)


def ties_with_itself(scores, targets):
    return by_counts(scores, targets) + 0.5


def from_zero(scores, targets):
    return by_counts(scores, targets) - 1


def from_zero_and_itself(scores, targets):
    return by_counts(scores, targets) - 0.5


def whole_ranks(scores, targets):
    return np.floor(by_counts(scores, targets))


def all_halved(scores, targets):
    return 1 + ((scores >= scores[np.arange(len(scores)), targets][:, None]).sum(axis=1) - 1) / 2


def ties_only(scores, targets):
    return 1 + ((scores == scores[np.arange(len(scores)), targets][:, None]).sum(axis=1) - 1) / 2


def lowest_first(scores, targets):
    return by_counts(-scores, targets)


def by_one_sort(scores, targets):
    return 1 + np.argmax(np.argsort(-scores, axis=1, kind="stable") == targets[:, None], axis=1)


def of_the_column(scores, targets):
    return 1 + np.asarray(targets)


def of_all_together(scores, targets):
    return np.full(len(scores), by_counts(scores, targets).mean())


# --- repaired_counts ------------------------------------------------------------------------------------------------


def cut_first(sequences, n_items):
    train = sequences[:, :-1]
    counts = np.zeros((n_items + 1, n_items + 1))
    np.add.at(counts, (train[:, :-1], train[:, 1:]), 1)
    return counts


def by_rows(sequences, n_items):
    counts = np.zeros((n_items + 1, n_items + 1), dtype=int)
    for row in sequences:
        for before, after in itertools.pairwise(row[:-1]):
            counts[before, after] += 1
    return counts


def by_bincount(sequences, n_items):
    pairs = sequences[:, :-2] * (n_items + 1) + sequences[:, 1:-1]
    return np.bincount(pairs.reshape(-1), minlength=(n_items + 1) ** 2).reshape(n_items + 1, n_items + 1)


def taken_off_again(sequences, n_items):
    counts = np.zeros((n_items + 1, n_items + 1))
    np.add.at(counts, (sequences[:, :-1], sequences[:, 1:]), 1)
    np.add.at(counts, (sequences[:, -2], sequences[:, -1]), -1)
    return counts


def by_products(sequences, n_items):
    one = np.eye(n_items + 1)[sequences[:, :-1]]
    return np.einsum("uti,utj->ij", one[:, :-1], one[:, 1:])


def of_lists(sequences, n_items):
    counts = [[0] * (n_items + 1) for _ in range(n_items + 1)]
    for row in sequences.tolist():
        for t in range(len(row) - 2):
            counts[row[t]][row[t + 1]] += 1
    return counts


def after_alone_cut(sequences, n_items):
    counts = np.zeros((n_items + 1, n_items + 1))
    np.add.at(counts, (sequences[:, :-1], sequences[:, 1:-1]), 1)
    return counts


def taken_off_once(sequences, n_items):
    counts = leaking(sequences, n_items)
    counts[sequences[:, -2], sequences[:, -1]] -= 1
    return counts


def all_that_follow(sequences, n_items):
    return sum(np.eye(n_items + 1)[sequences[:, t]].T @ np.eye(n_items + 1)[sequences[:, t + 1 : -1]].sum(axis=1)
               for t in range(sequences.shape[1] - 1))


def leaking(sequences, n_items):
    counts = np.zeros((n_items + 1, n_items + 1))
    np.add.at(counts, (sequences[:, :-1], sequences[:, 1:]), 1)
    return counts


def two_left_out(sequences, n_items):
    return cut_first(sequences[:, :-1], n_items)


def first_left_out(sequences, n_items):
    return leaking(sequences[:, 1:], n_items)


def backwards(sequences, n_items):
    return cut_first(sequences, n_items).T


def added_once(sequences, n_items):
    counts = np.zeros((n_items + 1, n_items + 1))
    counts[sequences[:, :-2], sequences[:, 1:-1]] += 1
    return counts


def without_padding(sequences, n_items):
    return cut_first(sequences, n_items)[1:, 1:]


def itself(sequences, n_items):
    counts = np.zeros((n_items + 1, n_items + 1))
    np.add.at(counts, (sequences[:, :-1], sequences[:, :-1]), 1)
    return counts


def both_ways(sequences, n_items):
    return cut_first(sequences, n_items) + cut_first(sequences, n_items).T


def last_person_left_out(sequences, n_items):
    return leaking(sequences[:-1], n_items)


def across_people(sequences, n_items):
    return leaking(sequences[:, :-1].reshape(1, -1), n_items)


def as_shares(sequences, n_items):
    counts = cut_first(sequences, n_items)
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


# --- my_sampled_hit -------------------------------------------------------------------------------------------------


def by_the_sum(ranks, N, m, k):
    a = (ranks - 1) / N
    return sum(math.comb(m, j) * a**j * (1 - a) ** (m - j) for j in range(k))


def person_by_person(ranks, N, m, k):
    found = []
    for r in ranks:
        a, total = (r - 1) / N, 0.0
        for j in range(k):
            total += math.comb(m, j) * a**j * (1 - a) ** (m - j)
        found.append(total)
    return found


def draw_by_draw(ranks, N, m, k):
    """The distribution of the number above, after each draw."""
    a = (ranks - 1) / N
    p = np.zeros((len(ranks), m + 1))
    p[:, 0] = 1
    for _ in range(m):
        p[:, 1:] = p[:, 1:] * (1 - a)[:, None] + p[:, :-1] * a[:, None]
        p[:, 0] *= 1 - a
    return p[:, :k].sum(axis=1)


def from_the_other_side(ranks, N, m, k):
    a = (np.asarray(ranks, float) - 1) / N
    return 1 - sum(math.comb(m, j) * a**j * (1 - a) ** (m - j) for j in range(k, m + 1))


def by_broadcasting(ranks, N, m, k):
    j = np.arange(k)
    ways = np.array([math.comb(m, i) for i in range(k)])
    a = ((ranks - 1) / N)[:, None]
    return (ways * a**j * (1 - a) ** (m - j)).sum(axis=-1)


def by_polynomials(ranks, N, m, k):
    powers = [np.array([1.0])] * len(ranks)
    for i, r in enumerate(ranks):
        for _ in range(m):
            powers[i] = np.convolve(powers[i], [1 - (r - 1) / N, (r - 1) / N])
    return np.array([p[:k].sum() for p in powers])


def one_too_many(ranks, N, m, k):
    return by_the_sum(ranks, N, m, k + 1)


def one_too_few(ranks, N, m, k):
    return by_the_sum(ranks, N, m, k - 1) + 0 * ranks


def rank_not_above(ranks, N, m, k):
    return by_the_sum(ranks + 1, N, m, k)


def target_drawn(ranks, N, m, k):
    return by_the_sum(ranks, N + 1, m, k)


def missed(ranks, N, m, k):
    return 1 - by_the_sum(ranks, N, m, k)


def last_term(ranks, N, m, k):
    a = (ranks - 1) / N
    return math.comb(m, k - 1) * a ** (k - 1) * (1 - a) ** (m - k + 1)


def in_full(ranks, N, m, k):
    return (ranks <= k) * 1.0


def at_the_mean(ranks, N, m, k):
    return (1 + m * (ranks - 1) / N <= k) * 1.0


def without_ways(ranks, N, m, k):
    a = (ranks - 1) / N
    return sum(a**j * (1 - a) ** (m - j) for j in range(k))


def first_term(ranks, N, m, k):
    return (1 - (ranks - 1) / N) ** m


def turned(ranks, N, m, k):
    a = (ranks - 1) / N
    return sum(math.comb(m, j) * (1 - a) ** j * a ** (m - j) for j in range(k))


def from_one(ranks, N, m, k):
    a = (ranks - 1) / N
    return sum(math.comb(m, j) * a**j * (1 - a) ** (m - j) for j in range(1, k)) + 0 * a


def ways_of_all(ranks, N, m, k):
    a = (ranks - 1) / N
    return sum(math.comb(N, j) * a**j * (1 - a) ** (m - j) for j in range(k))


def others_forgotten(ranks, N, m, k):
    a = (ranks - 1) / N
    return sum(math.comb(m, j) * a**j * (1 - a) ** m for j in range(k))


def averaged(ranks, N, m, k):
    return by_the_sum(ranks, N, m, k).mean()


# --- more styles ----------------------------------------------------------------------------------------------------


def by_searching(scores, targets):
    """Two places in the sorted row: before all that are equal, and after them."""
    ranks = np.empty(len(targets))
    for person, target in enumerate(targets):
        row = np.sort(scores[person])
        low, high = (np.searchsorted(row, scores[person, target], side) for side in ("left", "right"))
        ranks[person] = len(row) - (low + high - 1) / 2
    return ranks


def by_histogram(sequences, n_items):
    train = sequences[:, :-1]
    edges = np.arange(n_items + 2) - 0.5
    return np.histogram2d(train[:, :-1].ravel(), train[:, 1:].ravel(), bins=[edges, edges])[0]


def by_a_dictionary(sequences, n_items):
    pairs = collections.Counter(pair for row in sequences for pair in itertools.pairwise(map(int, row[:-1])))
    return np.array([[pairs[i, j] for j in range(n_items + 1)] for i in range(n_items + 1)])


def last_rows_left_out(sequences, n_items):
    return leaking(sequences[:, :-1][: len(sequences) // 2], n_items)


def by_terms(ranks, N, m, k):
    a = (np.asarray(ranks, float) - 1) / N
    terms = [np.power(a, j) * np.power(1 - a, m - j) for j in range(m + 1)]
    return np.add.reduce([math.comb(m, j) * term for j, term in enumerate(terms)][:k])


def with_a_matrix_product(ranks, N, m, k):
    """(people, k) powers times the ways."""
    a, j = np.subtract(ranks, 1)[:, None] / N, np.arange(k)
    return np.where(j == 0, 1.0, a**j) * (1 - a) ** (m - j) @ [math.comb(m, i) for i in range(k)]


RIGHT = {
    "my_mean_ranks": (
        by_counts, by_loops, first_and_last, by_the_library, sorted_both_ways, in_place, as_a_tuple, by_searching,
    ),
    "repaired_counts": (
        cut_first, by_rows, by_bincount, taken_off_again, by_products, of_lists, by_histogram, by_a_dictionary,
    ),
    "my_sampled_hit": (
        by_the_sum, person_by_person, draw_by_draw, from_the_other_side, by_broadcasting, by_polynomials, by_terms,
        with_a_matrix_product,
    ),
}  # fmt: skip

WRONG = {
    "my_mean_ranks": tuple(
        (answer, "")
        for answer in (
            optimistic, pessimistic, ties_with_itself, from_zero, from_zero_and_itself, whole_ranks, all_halved,
            ties_only, lowest_first, by_one_sort, of_the_column, of_all_together, a_column,
            everybodys_targets, different_scores, nearly_equal,
        )
    ),
    "repaired_counts": tuple(
        (answer, "")
        for answer in (
            leaking, two_left_out, first_left_out, backwards, added_once, without_padding, itself, both_ways,
            last_person_left_out, across_people, as_shares, after_alone_cut, taken_off_once, all_that_follow,
            last_rows_left_out,
        )
    ),
    "my_sampled_hit": tuple(
        (answer, "")
        for answer in (
            one_too_many, one_too_few, rank_not_above, target_drawn, missed, last_term, in_full, at_the_mean,
            without_ways, first_term, turned, averaged, from_one, ways_of_all, others_forgotten,
        )
    ),
}  # fmt: skip
