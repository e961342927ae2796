"""Answers to the exercises of chapter 00."""

import numpy as np

# --- my_hit_rate ----------------------------------------------------------------------------------------------------


def mean(ranks, k):
    return np.mean(ranks <= k)


def by_a_loop(ranks, k):
    hits = 0
    for rank in ranks:
        if rank <= k:
            hits += 1
    return hits / len(ranks)


def of_a_list(ranks, k):
    return sum(1 for rank in list(ranks) if not rank > k) / len(ranks)


def counted(ranks, k):
    return np.count_nonzero(ranks < k + 1) / ranks.size


def in_the_list(ranks, k):
    return np.isin(ranks, np.arange(1, k + 1)).mean(dtype=np.float32)


def averaged(ranks, k):
    return np.average(np.where(ranks <= k, 1.0, 0.0))


def below(ranks, k):
    return np.mean(ranks < k)


def number(ranks, k):
    return np.sum(ranks <= k)


def missed(ranks, k):
    return np.mean(ranks > k)


def turned(ranks, k):
    return np.mean(ranks >= k)


def mean_rank(ranks, k):
    return np.mean(ranks)


def exactly_k(ranks, k):
    return np.mean(ranks == k)


def by_offers(ranks, k):
    return np.sum(ranks <= k) / k


def by_ten(ranks, k):
    return np.sum(ranks <= k) / 10


def percent(ranks, k):
    return 100 * np.mean(ranks <= k)


def each(ranks, k):
    return ranks <= k


def one_is_enough(ranks, k):
    return float(np.any(ranks <= k))


def from_zero(ranks, k):
    return np.mean(ranks - 1 <= k)


# --- repaired_rank --------------------------------------------------------------------------------------------------


def one_more(scores, target):
    return 1 + np.sum(scores > scores[target])


def or_as_good(scores, target):
    return np.sum(scores >= scores[target])


def place_in_order(scores, target):
    return list(np.argsort(-scores)).index(target) + 1


def sorted_list(scores, target):
    return sorted(scores.tolist(), reverse=True).index(scores[target]) + 1


def rank_by_a_loop(scores, target):
    rank = 1
    for score in scores:
        if score > scores[target]:
            rank += 1
    return rank


def argsort_twice(scores, target):
    return np.argsort(np.argsort(-scores))[target] + 1.0


def from_the_end(scores, target):
    return len(scores) - np.sum(scores < scores[target])


def in_place(scores, target):
    mine = scores[target]
    scores -= mine
    return np.array(1 + np.sum(scores > 0))


def buggy(scores, target):
    return np.sum(scores > scores[target])


def lowest_first(scores, target):
    return 1 + np.sum(scores < scores[target])


def lowest_first_from_zero(scores, target):
    return np.sum(scores < scores[target])


def lowest_first_or_as_good(scores, target):
    return np.sum(scores <= scores[target])


def itself_too(scores, target):
    return 1 + np.sum(scores >= scores[target])


def argsort_once(scores, target):
    return 1 + np.argsort(-scores)[target]


def argsort_upwards(scores, target):
    return 1 + np.argsort(scores)[target]


def place_from_zero(scores, target):
    return list(np.argsort(-scores)).index(target)


def place_from_the_lowest(scores, target):
    return list(np.argsort(scores)).index(target) + 1


def its_place(scores, target):
    return 1 + target


def share(scores, target):
    return np.mean(scores > scores[target])


def above_the_place(scores, target):
    return 1 + np.sum(scores > target)


# --- more of both ---------------------------------------------------------------------------------------------------


def sorted_ranks(ranks, k):
    return np.searchsorted(np.sort(ranks), k, side="right") / len(ranks)


def one_minus_the_missed(ranks, k):
    return 1.0 - (ranks > k).sum() / ranks.shape[0]


def median_rank(ranks, k):
    return float(np.median(ranks) <= k)


def of_ranks_in_the_list(ranks, k):
    return np.mean(ranks[ranks <= k])


def reciprocal(ranks, k):
    return np.mean(np.where(ranks <= k, 1 / ranks, 0))


def two_more(scores, target):
    return 2 + np.sum(scores > scores[target])


def among_the_later(scores, target):
    return 1 + np.sum(scores[target:] > scores[target])


def among_the_earlier(scores, target):
    return 1 + np.sum(scores[:target] > scores[target])


RIGHT = {
    "my_hit_rate": (mean, by_a_loop, of_a_list, counted, in_the_list, averaged, sorted_ranks, one_minus_the_missed),
    "repaired_rank": (
        one_more, or_as_good, place_in_order, sorted_list, rank_by_a_loop, argsort_twice, from_the_end, in_place,
    ),
}  # fmt: skip

WRONG = {
    "my_hit_rate": tuple(
        (answer, "")
        for answer in (
            below, number, missed, turned, mean_rank, exactly_k, by_offers, by_ten, percent, each, one_is_enough,
            from_zero, median_rank, of_ranks_in_the_list, reciprocal,
        )
    ),
    "repaired_rank": tuple(
        (answer, "")
        for answer in (
            buggy, lowest_first, lowest_first_from_zero, lowest_first_or_as_good, itself_too, argsort_once,
            argsort_upwards, place_from_zero, place_from_the_lowest, its_place, share, above_the_place,
            two_more, among_the_later, among_the_earlier,
        )
    ),
}  # fmt: skip
