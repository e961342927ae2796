"""Lazy scores: the counts and single scores that ranks need, without whole rows of scores.

A rank needs two counts, of the items that score higher than the target and of those that tie with it, and the scores of
a few items: those of the history, which are no candidates, and drawn candidates.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..data.vocabulary import refuse_masked
from .ranking import refuse_nan

Score = Callable[[list[np.ndarray], np.ndarray | None], np.ndarray]
NONE = np.empty((0, 0))
SCORES_AT_ONCE = 4_000_000       # bounds the memory of whole rows of scores


class Counts(NamedTuple):
    """The counts of B targets, and the scores of P pairs."""

    target: np.ndarray           # (B,) the score of each row's target
    above: np.ndarray            # (B,) the number of items, 1 to n_items, with a higher score
    equal: np.ndarray            # (B,) the number with the same score: the target itself, and ties
    values: np.ndarray           # (P,) the score of each pair


class LazyScores:
    """The scores of all items for B histories; subclasses use the structure of a model's scores."""

    def counts(self, targets: np.ndarray, rows: np.ndarray, items: np.ndarray) -> Counts:
        """Shapes: targets (B,) item numbers; the pairs' rows and items (P,) -> `Counts`.

        Scores compare exactly as those of `whole`. Raises NaNScoreError for a NaN score.
        """
        raise NotImplementedError

    def whole(self) -> np.ndarray:
        """(B, n_items + 1): all scores; column 0 is padding."""
        raise NotImplementedError


class WholeRows(LazyScores):
    """The scores of any function that scores all items: whole rows, for a few histories at once."""

    def __init__(self, score: Score, histories: list[np.ndarray], users: np.ndarray | None, n_items: int) -> None:
        self._score, self._histories, self._users, self._n_items = score, histories, users, n_items
        self._at_once = max(1, SCORES_AT_ONCE // (n_items + 1))

    def counts(self, targets: np.ndarray, rows: np.ndarray, items: np.ndarray) -> Counts:
        parts = np.array_split(np.arange(len(targets)), max(1, -(-len(targets) // self._at_once)))
        order = np.argsort(rows, kind="stable")
        ends = np.cumsum(np.bincount(rows, minlength=len(targets)))              # of each row's pairs in `order`
        counts = []
        for part in parts:
            scores = self._of(part)
            refuse_nan(scores)
            target = scores[np.arange(len(part)), targets[part]]
            above = np.count_nonzero(scores[:, 1:] > target[:, None], axis=1)
            equal = np.count_nonzero(scores[:, 1:] == target[:, None], axis=1)
            pairs = order[ends[part[0] - 1] if part[0] else 0 : ends[part[-1]]]
            counts.append((target, above, equal, scores[rows[pairs] - part[0], items[pairs]]))
        target, above, equal, ordered = map(np.concatenate, zip(*counts, strict=True))
        values = np.empty_like(ordered)
        values[order] = ordered
        return Counts(target, above, equal, values)

    def whole(self) -> np.ndarray:
        return self._of(np.arange(len(self._histories)))

    def _of(self, part: np.ndarray) -> np.ndarray:
        users = None if self._users is None else self._users[part]
        scores = self._score([self._histories[i] for i in part.tolist()], users)
        refuse_other_scores(scores, len(part), self._n_items)
        return scores


def refuse_other_scores(scores: Any, n: int, n_items: int) -> None:
    """Raise ValueError for what are no scores of n histories: without a column of padding all ranks would be wrong."""
    refuse_masked(scores)
    if not isinstance(scores, np.ndarray) or scores.shape != (n, n_items + 1) or scores.dtype.kind not in "biuf":
        are = f"{scores.shape} {scores.dtype}" if isinstance(scores, np.ndarray) else type(scores).__name__
        raise ValueError(f"scores are {are}, expected an array of numbers ({n}, {n_items + 1}): a row for each "
                         "history, and a column for padding before those of the items")  # fmt: skip


class SharedScores(LazyScores):
    """Scores that are the same for all histories, except for a few items, so that no rows of scores are needed.

    The score of item i in group g is base[i], divided by each of divisors[:, g], or, if `keys` has i and g, the entry
    of `values`. Division by a positive number keeps the order, so one sorted base serves all groups.
    """

    def __init__(
        self, base: np.ndarray, groups: np.ndarray, keys: np.ndarray, values: np.ndarray, divisors: np.ndarray
    ) -> None:
        """Shapes: base (n_items + 1,), groups (B,) 0 to G - 1; keys (K,), group * (n_items + 1) + item, ascending and
        distinct; values (K,), divisors (d, G)."""
        self._base, self._groups, self._keys, self._values, self._divisors = base, groups, keys, values, divisors

    def counts(self, targets: np.ndarray, rows: np.ndarray, items: np.ndarray) -> Counts:
        refuse_nan(self._base[None])
        mine, n_items = self._groups, len(self._base) - 1
        target, values = self._at(mine, targets), self._at(mine[rows], items)
        everything = np.zeros_like(mine), np.full_like(mine, n_items)
        least, higher = _bisect(np.sort(self._base[1:]), *everything, target, self._divisors[:, mine])
        above, equal = n_items - higher, higher - least
        group, item = np.divmod(self._keys, len(self._base))
        edges = np.searchsorted(group, np.arange(self._divisors.shape[1] + 1))
        before = self._scaled(group, item)                       # the scores that `values` replace
        for sign, scores in ((1, self._values), (-1, before)):
            ordered = scores[np.lexsort((scores, group))]
            least, higher = _bisect(ordered, edges[mine], edges[mine + 1], target)
            above += sign * (edges[mine + 1] - higher)
            equal += sign * (higher - least)
        return Counts(target, above, equal, values)

    def whole(self) -> np.ndarray:
        scores = np.tile(self._base, (self._divisors.shape[1], 1))
        for divisor in self._divisors:
            scores /= divisor[:, None]
        scores.reshape(-1)[self._keys] = self._values
        return scores[self._groups]

    def _scaled(self, groups: np.ndarray, items: np.ndarray) -> np.ndarray:
        return _divided(self._base[items], self._divisors[:, groups])

    def _at(self, groups: np.ndarray, items: np.ndarray) -> np.ndarray:
        scores, keys = self._scaled(groups, items), groups * len(self._base) + items
        if len(self._keys):
            place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            scores = np.where(self._keys[place] == keys, self._values[place], scores)
        return scores


def _divided(scores: np.ndarray, divisors: np.ndarray) -> np.ndarray:
    for divisor in divisors:
        scores = scores / divisor
    return scores


def _bisect(
    ordered: np.ndarray, begin: np.ndarray, end: np.ndarray, target: np.ndarray, divisors: np.ndarray = NONE
) -> tuple[np.ndarray, np.ndarray]:
    """Two places in each row's ascending range of `ordered`: of the first score >= its target, of the first above it.

    Shapes: begin, end, target (B,), divisors (d, B) of the scores of each row -> (B,), (B,).
    """
    places = []
    for reaches in (np.greater_equal, np.greater):
        low, high = begin, end
        while np.any(searching := low < high):
            middle = np.where(searching, (low + high) // 2, 0)
            reached = reaches(_divided(ordered[middle], divisors), target)
            low, high = np.where(searching & ~reached, middle + 1, low), np.where(searching & reached, middle, high)
        places.append(low)
    return places[0], places[1]
