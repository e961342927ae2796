"""Exercises of chapter 13, how not to fool yourself."""

import math
from typing import Any

import numpy as np

from ... import evaluation
from ...check.cases import CaseDrawer
from ..graders import Function, Number
from ..plain import plain_spec
from ..prose import Prose

MODELS, PEOPLE, TRUE_RATE = 20, 500, 0.25           # of best_of_twenty


# my_mean_ranks
def _few_scores(draw: CaseDrawer) -> dict[str, Any]:
    """Scores of few different values, which make ties; some are as tiny as probabilities of many items."""
    people, items, unit = draw.size(), draw.size(), draw.choose((1.0, 1e-9))
    scores = unit * draw.rng.integers(0, draw.size(1, 4), (people, items))
    return {"scores": scores, "targets": draw.rng.integers(0, items, people)}


MEAN_RANKS = plain_spec(
    "mean_ranks", "1 + how many score higher + half of the others that score the same", _few_scores,
    evaluation.ranks, "ranks")  # fmt: skip


def _parts(scores: Any, targets: Any) -> tuple[Any, Any]:
    """The numbers of items that score higher than each target, and of others that score the same."""
    of_target = np.take_along_axis(scores, targets[:, None], axis=1)
    return np.sum(scores > of_target, axis=1), np.sum(scores == of_target, axis=1) - 1


def _off(f: Any) -> Any:
    """An answer f(above, equal), by the counts of `_parts`."""
    return lambda scores, targets: f(*_parts(scores, targets))


_mean_ranks = _off(lambda above, equal: 1 + above + equal / 2)             # right
WRONG_RANKS = dict(
    ties_in_favour=_off(lambda above, equal: 1 + above),
    ties_against=_off(lambda above, equal: 1 + above + equal),
    itself_a_tie=_off(lambda above, equal: 1 + above + (equal + 1) / 2),
    counted_from_zero=_off(lambda above, equal: above + equal / 2),
    counted_from_zero_with_itself=_off(lambda above, equal: above + (equal + 1) / 2),
    rounded_down=_off(lambda above, equal: 1 + above + equal // 2),
    rounded_up=_off(lambda above, equal: 1 + above + np.ceil(equal / 2)),
    column=_off(lambda above, equal: (1 + above + equal / 2)[:, None]),
    averaged=_off(lambda above, equal: np.mean(1 + above + equal / 2)),
    reciprocal=_off(lambda above, equal: 1 / (1 + above + equal / 2)),
    column_zero_for_target=lambda scores, targets: _mean_ranks(scores, 0 * targets),
    equal_scores_once=lambda scores, targets: (
        1 + np.array([len({*row[row > row[t]]}) for row, t in zip(scores, targets, strict=True)])
    ),
    targets_of_everybody=lambda scores, targets: (
        1 + np.sum(scores > scores[:, targets], axis=1) + (np.sum(scores == scores[:, targets], axis=1) - 1) / 2
    ),
    column_for_rank=lambda scores, targets: 1 + targets,
    mean_for_each=_off(lambda above, equal: np.full(len(above), np.mean(1 + above + equal / 2))),
    half_for_those_above=_off(lambda above, equal: 1 + (above + equal) / 2),
    those_above_ignored=_off(lambda above, equal: 1.0 + equal / 2),
    lowest_first=lambda scores, targets: _mean_ranks(-scores, targets),
    ties_by_column=lambda scores, targets: (
        1 + np.argmax(np.argsort(-scores, axis=1, kind="stable") == targets[:, None], axis=1)
    ),
)


# repaired_counts
def _rows_of_items(draw: CaseDrawer) -> dict[str, Any]:
    """Rows without repeats, of so few items that pairs occur more than once."""
    n = draw.size(2, 5)
    n_items = n + draw.size(0, 2)
    rows = [draw.rng.permutation(n_items)[:n] + 1 for _ in range(draw.size(1, 5))]
    return {"sequences": np.array(rows), "n_items": n_items}


def _counted(before: Any, after: Any, n_items: int) -> Any:
    counts = np.zeros((n_items + 1, n_items + 1))
    np.add.at(counts, (before, after), 1)
    return counts


def _counts(sequences: Any, n_items: int) -> Any:
    return _counted(sequences[:, :-2], sequences[:, 1:-1], n_items)


COUNTS = plain_spec(
    "counts", "how often item j followed item i among all items but the last of each row", _rows_of_items,
    _counts, "counts")  # fmt: skip


WRONG_COUNTS = dict(
    test_item_counted=lambda sequences, n_items: _counted(sequences[:, :-1], sequences[:, 1:], n_items),
    one_item_too_few=lambda sequences, n_items: _counted(sequences[:, :-3], sequences[:, 1:-2], n_items),
    first_item_left_out=lambda sequences, n_items: _counted(sequences[:, 1:-1], sequences[:, 2:], n_items),
    turned_round=lambda sequences, n_items: _counted(sequences[:, 1:-1], sequences[:, :-2], n_items),
    once=lambda sequences, n_items: np.minimum(_counts(sequences, n_items), 1),
    only_after_cut=lambda sequences, n_items: _counted(sequences[:, :-1], sequences[:, 1:-1], n_items),
    only_before_cut=lambda sequences, n_items: _counted(sequences[:, :-2], sequences[:, 1:], n_items),
    subtracted_once=lambda sequences, n_items: (
        _counted(sequences[:, :-1], sequences[:, 1:], n_items)
        - np.minimum(_counted(sequences[:, -2], sequences[:, -1], n_items), 1)
    ),
    two_places_later=lambda sequences, n_items: _counted(sequences[:, :-2], sequences[:, 2:], n_items),
    all_later=lambda sequences, n_items: sum(
        (_counted(sequences[:, : -1 - gap], sequences[:, gap:-1], n_items) for gap in range(1, sequences.shape[1])),
        start=np.zeros((n_items + 1,) * 2),
    ),
    rows_joined=lambda sequences, n_items: _counted(
        sequences[:, :-1].ravel()[:-1], sequences[:, :-1].ravel()[1:], n_items
    ),
    shares=lambda sequences, n_items: (
        _counts(sequences, n_items) / np.maximum(_counts(sequences, n_items).sum(axis=1, keepdims=True), 1)
    ),
    padding_cut_off=lambda sequences, n_items: _counts(sequences, n_items)[1:, 1:],
    item_after_itself=lambda sequences, n_items: _counted(sequences[:, :-1], sequences[:, :-1], n_items),
    both_orders=lambda sequences, n_items: _counts(sequences, n_items) + _counts(sequences, n_items).T,
    last_row_left_out=lambda sequences, n_items: _counted(sequences[:-1, :-1], sequences[:-1, 1:], n_items),
)


# my_sampled_hit
def _term(a: Any, m: int, j: int) -> Any:
    """The probability that j of m draws are above the target, each with probability a."""
    return math.comb(m, j) * a**j * (1 - a) ** (m - j)


def sampled_hit(ranks: Any, N: int, m: int, k: int) -> Any:
    """P(fewer than k of m draws are above) = Σ_{j<k} C(m, j) a^j (1 - a)^(m - j), a = (r - 1) / N.

    Shapes: ranks (people,) -> (people,). The m items are drawn uniformly, with replacement (Krichene & Rendle 2020).
    """
    return sum(_term((ranks - 1) / N, m, j) for j in range(k))


def _ranks_among(draw: CaseDrawer) -> dict[str, Any]:
    N = draw.size(1, 12)
    m = draw.size(1, min(N, 8))                 # draws without replacement, a likely mistake, must not raise
    ranks = 1 + draw.rng.integers(0, N + 1, draw.size()).astype(float)
    return {"ranks": ranks, "N": N, "m": m, "k": 1 + int(draw.rng.integers(m))}


SAMPLED_HIT = plain_spec(
    "sampled_hit", "the probability that fewer than k of m drawn items are above the target", _ranks_among,
    sampled_hit, "probability")  # fmt: skip


def _without(ranks: Any, N: int, m: int, k: int) -> Any:
    """Draws without replacement, at most N of them."""
    above, drawn = (np.asarray(ranks) - 1).astype(int).tolist(), min(m, N)
    ways = [sum(math.comb(b, j) * math.comb(N - b, drawn - j) for j in range(min(k, drawn + 1))) for b in above]
    return np.array(ways) / math.comb(N, drawn)


def _changed_sum(terms: Any) -> Any:
    """A sum of the terms `terms(a, N, m, k)`, with a = (r - 1) / N."""
    return lambda ranks, N, m, k: sum(terms((ranks - 1) / N, N, m, k)) + 0.0 * ranks


WRONG_HITS = dict(
    one_term_too_many=lambda ranks, N, m, k: sampled_hit(ranks, N, m, k + 1),
    last_term_missing=lambda ranks, N, m, k: sampled_hit(ranks, N, m, k - 1) + 0.0 * ranks,
    itself_above=lambda ranks, N, m, k: sampled_hit(ranks + 1, N, m, k),
    itself_drawn=lambda ranks, N, m, k: sampled_hit(ranks, N + 1, m, k),
    miss_for_hit=lambda ranks, N, m, k: 1 - sampled_hit(ranks, N, m, k),
    last_term_alone=_changed_sum(lambda a, N, m, k: [_term(a, m, k - 1)]),
    among_all=lambda ranks, N, m, k: (ranks <= k) * 1.0,
    at_expected_rank=lambda ranks, N, m, k: (1 + m * (ranks - 1) / N <= k) * 1.0,
    without=_without,
    no_binomial=lambda ranks, N, m, k: sum(((ranks - 1) / N) ** j * (1 - (ranks - 1) / N) ** (m - j) for j in range(k)),
    above_and_not_exchanged=_changed_sum(lambda a, N, m, k: (_term(1 - a, m, j) for j in range(k))),
    first_term_missing=_changed_sum(lambda a, N, m, k: (_term(a, m, j) for j in range(1, k))),
    from_one_to_k=_changed_sum(lambda a, N, m, k: (_term(a, m, j) for j in range(1, k + 1))),
    ways_of_all=_changed_sum(lambda a, N, m, k: (math.comb(N, j) * a**j * (1 - a) ** (m - j) for j in range(k))),
    power_of_all_draws=_changed_sum(lambda a, N, m, k: (math.comb(m, j) * a**j * (1 - a) ** m for j in range(k))),
    averaged=lambda ranks, N, m, k: np.mean(sampled_hit(ranks, N, m, k)),
    share_rounded=lambda ranks, N, m, k: sampled_hit(1 + (ranks - 1) // N * N, N, m, k),
    of_the_drawn=lambda ranks, N, m, k: sampled_hit(1 + (ranks - 1) * N / m, N, m, k),
    first_term_alone=lambda ranks, N, m, k: (1 - (ranks - 1) / N) ** m,
)


# best_of_twenty
def _best_of_twenty() -> float:
    """E[max] of independent binomial hit rates, less the true rate."""
    up_to = np.minimum(np.cumsum([_term(TRUE_RATE, PEOPLE, h) for h in range(PEOPLE + 1)]), 1.0)
    highest = np.sum(1 - up_to[:-1] ** MODELS)                       # E[max] = Σ_h P(max > h)
    return float(highest) / PEOPLE - TRUE_RATE


EXERCISES = Prose(13).exercises(
    my_mean_ranks=Function(MEAN_RANKS, tempting=WRONG_RANKS),
    repaired_counts=Function(COUNTS, tempting=WRONG_COUNTS),
    my_sampled_hit=Function(SAMPLED_HIT, tempting=WRONG_HITS),
    best_of_twenty=Number(_best_of_twenty, tolerance=0.03),
)
