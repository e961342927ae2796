"""Full ranking under leave-one-out: every item is a candidate, except those the user has had."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..data import Split
from .ranking import all_ranks, metrics, ranks

Score = Callable[[list[np.ndarray], np.ndarray], np.ndarray]
Truth = Callable[[list[np.ndarray]], np.ndarray]
_SCORES_AT_ONCE = 4_000_000      # bounds the memory of the score matrix


def full_ranking(
    score: Score, split: Split, stage: str = "test", ks: tuple[int, ...] = (10,), truth: Truth | None = None
) -> dict[str, float]:
    """HR@k, NDCG@k and MRR over all users who have a target.

    `score(histories, users)` gives (B, n_items + 1) scores, column 0 being padding; `users` are user numbers.
    The items of a user's history are left out, unless one of them is the target itself. `stage` is "valid"
    or "test". With `truth`, which gives P(next | history) in the same layout, metrics are expectations under
    it rather than the outcome of one draw.
    Raises NaNScoreError for a NaN score.
    """
    targets = getattr(split, stage)
    everyone = split.evaluated
    found = []
    at_once = max(1, _SCORES_AT_ONCE // (split.data.n_items + 1))
    for users in np.array_split(everyone, -(-len(everyone) // at_once)):
        histories = split.histories(users, stage)
        scores = np.array(score(histories, users + 1))       # our own copy: seen items are struck out in place
        target = targets[users]
        own = np.take_along_axis(scores, target[:, None], axis=1)
        rows = np.repeat(np.arange(len(users)), [len(h) for h in histories])
        scores[rows, np.concatenate(histories)] = -np.inf
        np.put_along_axis(scores, target[:, None], own, axis=1)
        scores[:, 0] = -np.inf
        if truth is None:
            found.append((len(users), metrics(ranks(scores, target), ks)))
        else:
            found.append((len(users), metrics(all_ranks(scores), ks, weight=truth(histories))))
    return {name: sum(n * m[name] for n, m in found) / len(everyone) for name in found[0][1]}
