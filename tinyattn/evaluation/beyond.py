"""Metrics beyond accuracy: coverage, novelty and popularity of recommendations, and the overlap of two models.

They need the k best items of every evaluated user (`best_items`), and c_i, the number of times that item i occurs in
training. In the equations B_u are the items recommended to user u.
"""

import numpy as np

from ..data import Split
from .lazy import refuse_other_scores
from .protocol import SCORES_AT_ONCE, Score, as_floats, as_read, numbers_of, parts_of
from .ranking import refuse_nan, top


def best_items(score: Score, split: Split, k: int = 10, users: np.ndarray | None = None) -> np.ndarray:
    """The k best next items of every evaluated user, from all but the test item: (evaluated users, k) item numbers.

    Items of the history are left out, unless the split keeps repeats; 0 fills a list where fewer than k items remain.
    `score`, such as `model.score`, and `users` are as in `evaluate`. Raises NaNScoreError for a NaN score, and
    ValueError for scores of another shape or type.
    """
    everyone, lists = split.evaluated, []
    for part in parts_of(len(everyone), max(1, SCORES_AT_ONCE // (split.data.n_items + 1))):
        rows = everyone[part]
        histories = split.histories(rows, "test")
        read = as_read(score, split, histories, rows)
        scores = score(read, numbers_of(split, users)[rows])
        refuse_other_scores(scores, len(rows), split.data.n_items)
        scores = as_floats(scores)                                                       # a copy, written into
        refuse_nan(scores)
        for row, history in zip(scores, histories, strict=True):
            row[history if split.repeats == "drop" else []] = row[0] = -np.inf
        best = top(scores, min(k, split.data.n_items))
        best[np.take_along_axis(scores, best, axis=1) == -np.inf] = 0
        lists.append(np.pad(best, ((0, 0), (0, k - best.shape[1]))))
    return np.concatenate(lists)


def popularity_of(split: Split) -> np.ndarray:
    """c (n_items + 1,): the count of each item in training, 0 for padding."""
    return np.bincount(split.train.flat, minlength=split.data.n_items + 1)


def coverage(best: np.ndarray, n_items: int) -> float:
    """|∪_u B_u| / n_items: the share of the catalogue that is recommended to anybody. Shapes: best (B, k)."""
    return len(np.unique(best[best > 0])) / n_items


def novelty(best: np.ndarray, popularity: np.ndarray) -> float:
    """mean over all recommendations i of -log2 p_i, with p_i = max(c_i, 1) / Σⱼ cⱼ: bits of surprise at an item.

    Shapes: best (B, k), popularity (n_items + 1,). High for rare items; an item that training lacks has count 1.
    The mean self-information (Zhou et al. 2010, who divide by the number of users).
    """
    items = best[best > 0]
    return float(np.mean(np.log2(np.sum(popularity)) - np.log2(np.maximum(popularity[items], 1))))


def popularity_lift(best: np.ndarray, histories: list[np.ndarray], popularity: np.ndarray) -> float:
    """Σ_u mean_{i in B_u} c_i / Σ_u mean_{i in H_u} c_i: the popularity of recommendations over that of histories.

    Shapes: best (B, k), histories: B arrays of items (H_u), popularity (n_items + 1,). Above 1 the model favours
    popular items. The ratio of group average popularities (Abdollahpouri et al. 2019, who subtract 1). Users without
    recommendations are left out of both sums.
    """
    lengths = np.sum(best > 0, axis=1)
    after = np.sum(popularity[best] * (best > 0), axis=1) / np.maximum(lengths, 1)
    before = np.array([np.mean(popularity[history]) for history in histories])
    return float(np.sum(after) / np.sum(before[lengths > 0]))


def overlap(best: np.ndarray, other: np.ndarray) -> float:
    """mean_u |B_u ∩ B'_u| / max(|B_u|, |B'_u|): the share of recommendations that two models have in common.

    Shapes: best, other (B, k), of the same users. 1: the same items, in any order. Users for whom neither model
    recommends anything are left out.
    """
    shares = []
    for mine, theirs in zip(best, other, strict=True):
        a, b = set(mine[mine > 0].tolist()), set(theirs[theirs > 0].tolist())
        if a or b:
            shares.append(len(a & b) / max(len(a), len(b)))
    return float(np.mean(shares))


def beyond_accuracy(best: np.ndarray, split: Split) -> dict[str, float]:
    """{"coverage", "novelty", "popularity" (the lift)} of the lists of `best_items`: best (evaluated users, k)."""
    counts, histories = popularity_of(split), split.histories(split.evaluated, "test")
    return {
        "coverage": coverage(best, split.data.n_items),
        "novelty": novelty(best, counts),
        "popularity": popularity_lift(best, histories, counts),
    }
