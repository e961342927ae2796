"""Scores that are computed as far as a rank asks for them: how many items score above the target, how many the same.

A row of scores has one for each item, and of all of them a rank takes two counts. What `LazyScores` has to answer is
that, and the scores of single pairs: of the items a user has had, which are no candidates, and of drawn candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .ranking import refuse_nan

Score = Callable[[list[np.ndarray], np.ndarray | None], np.ndarray]
SCORES_AT_ONCE = 4_000_000       # bounds the memory of whole rows of scores


class Counts(NamedTuple):
    """What `LazyScores.counts` says of B targets and P pairs."""

    own: np.ndarray              # (B,) the score of each row's target
    above: np.ndarray            # (B,) how many items, 1 to n_items, score higher
    equal: np.ndarray            # (B,) how many score the same: the target itself, and ties
    values: np.ndarray           # (P,) the score of each pair


class LazyScores:
    """The scores of all items for B histories. A model whose scores have a structure has a subclass that uses it."""

    def counts(self, targets: np.ndarray, rows: np.ndarray, items: np.ndarray) -> Counts:
        """Shapes: targets (B,) item numbers; the pairs' rows and items (P,) -> `Counts`.

        All are of the same scores: a pair whose score `whole` gives as equal to the target's is equal here.
        Raises NaNScoreError for a NaN score.
        """
        raise NotImplementedError

    def whole(self) -> np.ndarray:
        """(B, n_items + 1): all scores; column 0 is padding."""
        raise NotImplementedError


class WholeRows(LazyScores):
    """Of any function that scores all items: rows are computed whole, for a few histories at once."""

    def __init__(self, score: Score, histories: list[np.ndarray], users: np.ndarray | None, n_items: int) -> None:
        self._score, self._histories, self._users = score, histories, users
        self._at_once = max(1, SCORES_AT_ONCE // (n_items + 1))

    def counts(self, targets: np.ndarray, rows: np.ndarray, items: np.ndarray) -> Counts:
        parts = np.array_split(np.arange(len(targets)), max(1, -(-len(targets) // self._at_once)))
        order = np.argsort(rows, kind="stable")
        ends = np.cumsum(np.bincount(rows, minlength=len(targets)))              # of each row's pairs, in this order
        found = []
        for part in parts:
            scores = self._of(part)
            refuse_nan(scores)
            own = scores[np.arange(len(part)), targets[part]]
            above = np.count_nonzero(scores[:, 1:] > own[:, None], axis=1)
            equal = np.count_nonzero(scores[:, 1:] == own[:, None], axis=1)
            pairs = order[ends[part[0] - 1] if part[0] else 0 : ends[part[-1]]]
            found.append((own, above, equal, scores[rows[pairs] - part[0], items[pairs]]))
        own, above, equal, ordered = map(np.concatenate, zip(*found, strict=True))
        values = np.empty_like(ordered)
        values[order] = ordered
        return Counts(own, above, equal, values)

    def whole(self) -> np.ndarray:
        return self._of(np.arange(len(self._histories)))

    def _of(self, part: np.ndarray) -> np.ndarray:
        users = None if self._users is None else self._users[part]
        return self._score([self._histories[i] for i in part.tolist()], users)


class SharedScores(LazyScores):
    """Scores that are the same for all histories, but for a few items of each: they are ranked without making rows.

    Row b has base[i], divided one after the other by each of `divisors[:, b]`, and `values` where `keys` says so.
    Nothing is assumed of what is rounded: each comparison is of two scores as `whole` has them. Dividing by a positive
    number never changes which of two numbers is the larger, so that one sorted base serves all rows.
    """

    def __init__(
        self, base: np.ndarray, rows: int, keys: np.ndarray | None = None, values: np.ndarray | None = None,
        divisors: Sequence[np.ndarray] = (),
    ) -> None:  # fmt: skip
        """Shapes: base (n_items + 1,); keys (K,), row * (n_items + 1) + item, ascending and distinct; values (K,)."""
        self._base, self._rows, self._divisors = base, rows, divisors
        self._keys = np.empty(0, dtype=np.int64) if keys is None else keys
        self._values = np.empty(0, dtype=base.dtype) if values is None else values

    def counts(self, targets: np.ndarray, rows: np.ndarray, items: np.ndarray) -> Counts:
        everyone = np.arange(self._rows)
        refuse_nan(self._base[None])
        own, values = self._at(everyone, targets), self._at(rows, items)
        ordered = np.sort(self._base[1:])
        least, above = (self._first(ordered, own, strictly) for strictly in (False, True))
        above, equal = len(ordered) - above, above - least
        row, item = np.divmod(self._keys, len(self._base))
        before = self._scaled(row, item)                         # what the base has in the place of `values`
        for count, compare in ((above, np.greater), (equal, np.equal)):
            count += np.bincount(row[compare(self._values, own[row])], minlength=self._rows)
            count -= np.bincount(row[compare(before, own[row])], minlength=self._rows)
        return Counts(own, above, equal, values)

    def whole(self) -> np.ndarray:
        scores = np.tile(self._base, (self._rows, 1))
        for divisor in self._divisors:
            scores /= divisor[:, None]
        scores.reshape(-1)[self._keys] = self._values
        return scores

    def _scaled(self, rows: np.ndarray, items: np.ndarray) -> np.ndarray:
        scores = self._base[items]
        for divisor in self._divisors:
            scores = scores / divisor[rows]
        return scores

    def _at(self, rows: np.ndarray, items: np.ndarray) -> np.ndarray:
        scores, keys = self._scaled(rows, items), rows * len(self._base) + items
        if len(self._keys):
            place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            scores = np.where(self._keys[place] == keys, self._values[place], scores)
        return scores

    def _first(self, ordered: np.ndarray, own: np.ndarray, strictly: bool) -> np.ndarray:
        """By bisection, the place in each row's ordered base of the first score that is at least (or above) `own`."""
        low, high = np.zeros(len(own), dtype=np.int64), np.full(len(own), len(ordered))
        for _ in range(len(ordered).bit_length()):
            middle = np.minimum((low + high) // 2, len(ordered) - 1)
            scores = ordered[middle]
            for divisor in self._divisors:
                scores = scores / divisor
            reached, searching = scores > own if strictly else scores >= own, low < high
            high = np.where(searching & reached, middle, high)
            low = np.where(searching & ~reached, middle + 1, low)
        return low
