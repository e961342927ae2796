"""Exercises of chapter 11, how not to fool yourself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import evaluation
from ...check.cases import CaseDrawer
from ..exercise import Exercise
from ..graders import Function, Number
from ..plain import plain_spec

CHAPTER = 11
MODELS, PEOPLE, TRUE_RATE = 20, 500, 0.25           # of best_of_twenty


# --- my_mean_ranks --------------------------------------------------------------------------------------------------


def _few_scores(draw: CaseDrawer) -> dict[str, Any]:
    """Scores of few different values, so that most targets have ties, and some rows nothing else; some are tiny, as
    probabilities of many items are."""
    people, items, unit = draw.size(), draw.size(), draw.choose((1.0, 1e-9))
    scores = unit * draw.rng.integers(0, draw.size(1, 4), (people, items))
    return {"scores": scores, "targets": draw.rng.integers(0, items, people)}


MEAN_RANKS = plain_spec(
    "mean_ranks", "1 + how many score higher + half of the others that score the same", _few_scores,
    evaluation.ranks, "ranks",
)  # fmt: skip


def _parts(scores: Any, targets: Any) -> tuple[Any, Any]:
    """How many score higher than each target, and how many the same, the target itself left out."""
    own = np.take_along_axis(scores, targets[:, None], axis=1)
    return np.sum(scores > own, axis=1), np.sum(scores == own, axis=1) - 1


def _off(f: Any) -> Any:
    """A wrong answer made of both counts."""
    return lambda scores, targets: f(*_parts(scores, targets))


WRONG_RANKS = (
    (_off(lambda above, equal: 1 + above), "Which rank has the target if all scores are the same?",
     "Ties are broken in favour of the target."),
    (_off(lambda above, equal: 1 + above + equal), "Which rank has the target if all scores are the same?",
     "Ties are broken against the target: that is the last of the ranks that they share."),
    (_off(lambda above, equal: 1 + above + (equal + 1) / 2), "With one item, and so no ties: what is its rank?",
     "The target is equal to itself. It is no tie, and must be left out."),
    (_off(lambda above, equal: above + equal / 2), "What is the rank of the best item, which nothing beats?"),
    (_off(lambda above, equal: above + (equal + 1) / 2), "What is the rank of the best item, which nothing beats?"),
    (_off(lambda above, equal: 1 + above + equal // 2), "Two items tie at the top: what is the mean of 1 and 2?",
     "Half a place is rounded down."),
    (_off(lambda above, equal: 1 + above + np.ceil(equal / 2)),
     "Two items tie at the top: what is the mean of 1 and 2?", "Half a place is rounded up."),
    (_off(lambda above, equal: (1 + above + equal / 2)[:, None]), "How many numbers are asked for of each person?",
     "It is a column, (people, 1): an axis is left over."),
    (_off(lambda above, equal: np.mean(1 + above + equal / 2)), "How many numbers are asked for?",
     "The ranks are averaged over people: return the rank of each."),
    (_off(lambda above, equal: 1 / (1 + above + equal / 2)), "What is the rank of the best item, and of the second?",
     "That is 1 / rank."),
    (lambda scores, targets: _off(lambda above, equal: 1 + above + equal / 2)(scores, 0 * targets),
     "Where does `targets` come in?", "The target is taken to stand in column 0. It stands in column targets[i]."),
    (lambda scores, targets: 1 + np.array([len({*row[row > row[t]]}) for row, t in zip(scores, targets, strict=True)]),
     "Scores 3, 3, 1: which rank has the last?",
     "Items above that share a score are counted once. Each takes a place of its own."),
    (lambda scores, targets: 1 + np.sum(scores > scores[:, targets], axis=1)
     + (np.sum(scores == scores[:, targets], axis=1) - 1) / 2,
     "scores[:, targets] has which shape? Whose targets are its columns?",
     "scores[:, targets] takes everybody's targets from every row. Row i needs column targets[i] alone."),
    (lambda scores, targets: 1 + targets, "What are `targets`: ranks, or columns?",
     "That is the column of the target, counted from 1. Its rank depends on the scores."),
    (_off(lambda above, equal: np.full(len(above), np.mean(1 + above + equal / 2))),
     "Have all people the same rank?", "Every row is given the mean of all. Return the rank of each."),
    (_off(lambda above, equal: 1 + (above + equal) / 2), "Is an item that scores higher half a place before it?"),
    (_off(lambda above, equal: 1.0 + equal / 2), "Where do the items come in that score higher?"),
    (lambda scores, targets: 1 + np.sum(scores < scores[np.arange(len(targets)), targets][:, None], axis=1)
     + (np.sum(scores == scores[np.arange(len(targets)), targets][:, None], axis=1) - 1) / 2,
     "Does the highest score come first, or last?"),
    (lambda scores, targets: 1 + np.argmax(np.argsort(-scores, axis=1, kind="stable") == targets[:, None], axis=1),
     "Exchange two columns with the same score: does your rank change?",
     "A sort breaks ties by the column in which an item stands."),
)  # fmt: skip


# --- repaired_counts ------------------------------------------------------------------------------------------------


def _rows_of_items(draw: CaseDrawer) -> dict[str, Any]:
    """Rows without repeats, of so few items that pairs come up more than once."""
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
    _counts, "counts",
)  # fmt: skip


def _once(sequences: Any, n_items: int) -> Any:
    counts = np.zeros((n_items + 1, n_items + 1))
    counts[sequences[:, :-2], sequences[:, 1:-1]] += 1
    return counts


def _subtracted_once(sequences: Any, n_items: int) -> Any:
    counts = _counted(sequences[:, :-1], sequences[:, 1:], n_items)
    counts[sequences[:, -2], sequences[:, -1]] -= 1
    return counts


WRONG_COUNTS = (
    (lambda sequences, n_items: _counted(sequences[:, :-1], sequences[:, 1:], n_items),
     "With two items a row, which pair is counted? Is one of the two the test item?"),
    (lambda sequences, n_items: _counted(sequences[:, :-3], sequences[:, 1:-2], n_items),
     "How many pairs are there in the training part of a row of three?",
     "You leave out one item more than the test item."),
    (lambda sequences, n_items: _counted(sequences[:, 1:-1], sequences[:, 2:], n_items),
     "Which end of a row is the test item's?", "You leave out the first item, and count the test item."),
    (lambda sequences, n_items: _counted(sequences[:, 1:-1], sequences[:, :-2], n_items),
     "Does item j follow item i in your counts, or the other way round?"),
    (_once, "The same pair comes twice: what does `counts[i, j] += 1` add, with arrays i and j?",
     "With repeated places, `+=` adds once. np.add.at adds each time."),
    (lambda sequences, n_items: _counted(sequences[:, :-1], sequences[:, 1:-1], n_items),
     "How many columns has `before`, and how many `after`?",
     "Only `after` was cut. The two must stay in step: the last item of the training part is followed by nothing."),
    (lambda sequences, n_items: _counted(sequences[:, :-2], sequences[:, 1:], n_items),
     "How many columns has `before`, and how many `after`?",
     "Only `before` was cut, and `after` still ends with the test item."),
    (_subtracted_once, "The same pair comes twice: what does `counts[i, j] -= 1` take away, with arrays i and j?",
     "With repeated places, `-=` subtracts once. np.add.at(..., -1) would subtract each time."),
    (lambda sequences, n_items: _counted(sequences[:, :-2], sequences[:, 2:], n_items),
     "Of a row 7, 8, 9, which item follows 7?", "You count what comes two places later."),
    (lambda sequences, n_items: sum(_counted(sequences[:, : -1 - gap], sequences[:, gap:-1], n_items)
                                    for gap in range(1, sequences.shape[1])) + np.zeros((n_items + 1,) * 2),
     "Of a row 7, 8, 9, 10, does 9 follow 7?", "You count all that comes later. Wanted is the next item."),
    (lambda sequences, n_items: _counted(sequences[:, :-1].ravel()[:-1], sequences[:, :-1].ravel()[1:], n_items),
     "Does the first item of a row follow the last of the row before?",
     "All rows are taken as one: where a person ends and the next begins, a pair is counted that nobody clicked."),
    (lambda sequences, n_items: _counts(sequences, n_items)
     / np.maximum(_counts(sequences, n_items).sum(axis=1, keepdims=True), 1),
     "What is asked for: counts, or shares?", "Each row is divided by its sum. Wanted are the counts."),
    (lambda sequences, n_items: _counts(sequences, n_items)[1:, 1:],
     "Which row has item 1: row 0, or row 1?", "Row and column 0 are those of padding: keep them."),
    (lambda sequences, n_items: _counted(sequences[:, :-1], sequences[:, :-1], n_items),
     "Which item follows an item: itself?"),
    (lambda sequences, n_items: _counts(sequences, n_items) + _counts(sequences, n_items).T,
     "Does order matter in your counts?"),
    (lambda sequences, n_items: _counted(sequences[:-1, :-1], sequences[:-1, 1:], n_items),
     "Is the test item the last of a row, or is it the last row?"),
)  # fmt: skip


# --- my_sampled_hit -------------------------------------------------------------------------------------------------


def sampled_hit(ranks: Any, N: int, m: int, k: int) -> Any:
    """P(fewer than k of m draws are above) = Σ_{j<k} C(m, j) a^j (1 - a)^(m - j), a = (r - 1) / N.

    Shapes: ranks (people,) -> (people,). The m items are drawn uniformly, with replacement (Krichene & Rendle 2020).
    """
    a = (ranks - 1) / N
    return sum(math.comb(m, j) * a**j * (1 - a) ** (m - j) for j in range(k))


def _ranks_among(draw: CaseDrawer) -> dict[str, Any]:
    N, m = draw.size(1, 12), draw.size(1, 8)
    ranks = 1 + draw.rng.integers(0, N + 1, draw.size()).astype(float)
    return {"ranks": ranks, "N": N, "m": m, "k": 1 + int(draw.rng.integers(m))}


SAMPLED_HIT = plain_spec(
    "sampled_hit", "the probability that fewer than k of m drawn items are above the target", _ranks_among,
    sampled_hit, "probability",
)  # fmt: skip


def _without(ranks: Any, N: int, m: int, k: int) -> Any:
    """Drawn without replacement, where so many can be drawn; k beyond N counts as N."""
    above, drawn = (np.asarray(ranks) - 1).astype(int).tolist(), min(m, N)
    ways = [sum(math.comb(b, j) * math.comb(N - b, drawn - j) for j in range(min(k, drawn + 1))) for b in above]
    return np.array(ways) / math.comb(N, drawn)


def _changed_sum(terms: Any) -> Any:
    """A sum of other terms: `terms(a, N, m, k)` are its summands, for a = (r - 1) / N."""
    return lambda ranks, N, m, k: sum(terms((ranks - 1) / N, N, m, k)) + 0.0 * ranks


WRONG_HITS = (
    (lambda ranks, N, m, k: sampled_hit(ranks, N, m, k + 1), "With k = 1, how many items may be above the target?",
     "The sum ends at k - 1: with k items above, the target has place k + 1."),
    (lambda ranks, N, m, k: sampled_hit(ranks, N, m, k - 1) + 0.0 * ranks,
     "With k = 1 the target is hit if none is above. What is your sum then?", "The term j = k - 1 is missing."),
    (lambda ranks, N, m, k: sampled_hit(ranks + 1, N, m, k), "How many items are above rank 1?",
     "r - 1 items are above rank r."),
    (lambda ranks, N, m, k: sampled_hit(ranks, N + 1, m, k), "Can the target itself be drawn?",
     "There are N others, and a = (r - 1) / N."),
    (lambda ranks, N, m, k: 1 - sampled_hit(ranks, N, m, k), "How likely is a hit at rank 1?",
     "That is the probability of a miss."),
    (lambda ranks, N, m, k: math.comb(m, k - 1) * ((ranks - 1) / N) ** (k - 1) * (1 - (ranks - 1) / N) ** (m - k + 1),
     "Is it a hit as well if fewer than k - 1 are above?", "That is one term of the sum."),
    (lambda ranks, N, m, k: (ranks <= k) * 1.0, "Where do N and m come in?", "That is the hit among all items."),
    (lambda ranks, N, m, k: (1 + m * (ranks - 1) / N <= k) * 1.0,
     "The number above is random: is the mean of a hit the hit of the mean?",
     "That is a hit at the expected rank, not the probability of a hit."),
    (_without, "May the same item be drawn twice?", "That is without replacement. The formula is for draws with it."),
    (lambda ranks, N, m, k: sum(((ranks - 1) / N) ** j * (1 - (ranks - 1) / N) ** (m - j) for j in range(k)),
     "In how many ways can j of m draws be above?", "The binomial coefficient is missing."),
    (_changed_sum(lambda a, N, m, k: (math.comb(m, j) * (1 - a) ** j * a ** (m - j) for j in range(k))),
     "Which of a and 1 - a is the probability that a drawn item is above?",
     "a and 1 - a are exchanged: j draws are above, each with probability a."),
    (_changed_sum(lambda a, N, m, k: (math.comb(m, j) * a**j * (1 - a) ** (m - j) for j in range(1, k))),
     "Is it a hit if no drawn item is above?", "The term j = 0 is missing: range(k) begins with 0."),
    (_changed_sum(lambda a, N, m, k: (math.comb(m, j) * a**j * (1 - a) ** (m - j) for j in range(1, k + 1))),
     "With k = 1, how many items may be above the target?", "j runs from 0 to k - 1, not from 1 to k."),
    (_changed_sum(lambda a, N, m, k: (math.comb(N, j) * a**j * (1 - a) ** (m - j) for j in range(k))),
     "In how many ways can j of m draws be above?", "It is C(m, j): j of the m that are drawn, not of all N."),
    (_changed_sum(lambda a, N, m, k: (math.comb(m, j) * a**j * (1 - a) ** m for j in range(k))),
     "If j of m draws are above, how many are not?", "The other m - j draws are not above: (1 - a)^(m - j)."),
    (lambda ranks, N, m, k: np.mean(sampled_hit(ranks, N, m, k)), "How many numbers are asked for?",
     "The probabilities are averaged over people: return one of each."),
    (lambda ranks, N, m, k: sampled_hit(1 + (ranks - 1) // N * N, N, m, k),
     "Is the share of others that are above a whole number?", "`//` rounds the share down to 0 or 1: divide with `/`."),
    (lambda ranks, N, m, k: sampled_hit(1 + (ranks - 1) * N / m, N, m, k), "Of how many others are r - 1 above?",
     "r - 1 of the N others are above, not of the m that are drawn."),
    (lambda ranks, N, m, k: (1 - (ranks - 1) / N) ** m, "Is one item above the target too many, if k is 2?",
     "That is the term j = 0 alone."),
)  # fmt: skip


# --- best_of_twenty -------------------------------------------------------------------------------------------------


def _best_of(models: int, people: int) -> float:
    """E[max] - the true rate, of hit rates that are independent binomial shares."""
    logs = [
        math.lgamma(people + 1) - math.lgamma(h + 1) - math.lgamma(people - h + 1)
        + h * math.log(TRUE_RATE) + (people - h) * math.log(1 - TRUE_RATE)
        for h in range(people + 1)
    ]  # fmt: skip
    up_to = np.minimum(np.cumsum(np.exp(logs)), 1.0)
    highest = np.sum(1 - up_to[:-1] ** models)                       # E[max] = Σ_h P(max > h)
    return float(highest) / people - TRUE_RATE


def _error() -> float:
    return math.sqrt(TRUE_RATE * (1 - TRUE_RATE) / PEOPLE)


EXERCISES = (
    Exercise(
        "my_mean_ranks",
        "write the op",
        difficulty=1,
        minutes=6,
        task="my_mean_ranks(scores, targets) -> the mean rank of each row's target",
        grader=Function(MEAN_RANKS, tempting=WRONG_RANKS),
        hints=(
            "A row has the scores 3, 5, 3, 3 and the target is the first. How many are above, and how many tie with "
            "it, itself left out?",
            "Take each row's own score with np.take_along_axis(scores, targets[:, None], axis=1). Then the rank is 1, "
            "plus the number of higher scores, plus half of (the number of equal ones less 1).",
        ),
        why="The tied items share the ranks from 1 + above to 1 + above + ties. Their mean is 1 + above + ties / 2, "
        "wherever the target stands in its row.",
    ),
    Exercise(
        "repaired_counts",
        "find the bug",
        difficulty=1,
        minutes=5,
        task="buggy_counts, without the leak",
        grader=Function(COUNTS, tempting=WRONG_COUNTS),
        hints=(
            "A row has three items, 7, 8, 9. Which pairs does buggy_counts count, and which may it count?",
            "`before` never holds the test item, but `after` does. Cut the last column off first, then make both from "
            "what is left.",
        ),
        why="The pair (last training item, test item) was counted, and the test asks what follows the last item: each "
        "person's answer had a vote of its own.",
    ),
    Exercise(
        "my_sampled_hit",
        "write the op",
        difficulty=2,
        minutes=8,
        task="my_sampled_hit(ranks, N, m, k) -> the probability that fewer than k of m drawn items are above",
        grader=Function(SAMPLED_HIT, tempting=WRONG_HITS),
        hints=(
            "Take k = 1: the target must be first. How likely is it that none of m draws is above?",
            "Add up m-choose-j · a^j (1 - a)^(m - j) over the right j.",
        ),
        why="Each draw is above with probability a, and independent of the others, so the number above is binomial. A "
        "hit is fewer than k.",
    ),
    Exercise(
        "best_of_twenty",
        "predict the number",
        difficulty=2,
        minutes=4,
        task="how far the highest of 20 measured hit rates is above the true .25, on average",
        grader=Number(
            lambda: _best_of(MODELS, PEOPLE),
            tolerance=0.15,
            tempting=(
                (lambda: 0.0, "The mean of the 20 is right. Is the highest of them?"),
                (_error, "That is how far one of them is off. How far is the most fortunate of 20?",
                 "That is the standard error of one share."),
                (lambda: TRUE_RATE + _best_of(MODELS, PEOPLE), "By how much is it above .25?",
                 "That is the number itself."),
                (lambda: _error() * math.sqrt(MODELS), "Do 20 errors add up, if only the highest is looked at?"),
                (lambda: 100 * _best_of(MODELS, PEOPLE), "A share lies between 0 and 1: does yours?"),
                (lambda: _error() * math.sqrt(2 * math.log(MODELS)),
                 "√(2 ln n) is where the highest of very many lies. Where is it with 20?",
                 "For n = 20 the mean of the highest is 1.87 standard deviations, not 2.45."),
            ),
        ),
        hints=(
            "How far is one measured share off, typically? And the highest of 20 normally distributed numbers?",
            "The standard error is √(.25 · .75 / 500). The highest of 20 is on average nearly two standard deviations "
            "above the mean; draw some with NumPy, if you like.",
        ),
        why="One share is off by .019, and the mean of the highest of 20 normal numbers is 1.87 standard deviations.",
    ),
)  # fmt: skip
