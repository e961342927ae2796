"""Markov chains: what followed the last items in training, with back-off to fewer of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...data import Interactions, Split, distinct
from ...data.distinct import ranges
from ...evaluation import SharedScores
from ...options import option
from ..parameters import checked, checked_cuts
from ..recommender import Recommender


class Followers(NamedTuple):
    """What followed each context of one length: context c was followed by items[begin[c]:begin[c + 1]].

    A context of k items has the number a c + b: a is its oldest item, c the count of contexts of k - 1 items, and b the
    place of its other items among these. So no number exceeds items times interactions.
    """

    contexts: np.ndarray      # (C,) the contexts seen in training, ascending
    begin: np.ndarray         # (C + 1,)
    items: np.ndarray         # (N,) in each context ascending
    counts: np.ndarray        # (N,) how often each followed


class Followed(NamedTuple):
    """The followers of the last items of groups of histories."""

    known: np.ndarray         # (G,) are there any in training?
    keys: np.ndarray          # (N,) group * (n_items + 1) + follower, ascending
    counts: np.ndarray        # (N,)


@dataclass(eq=False)
class Markov(Recommender):
    """An item's score is how often it followed the history's last `order` items in training.

    Ties are broken by the counts after the last `order` - 1 items, and so on down to popularity. If the last `order`
    items did not occur in training, the scores are the next lower order's. If counts of many orders fill the 53 bits of
    a score, the lowest orders break no ties.
    """

    name = "markov"

    order: int = option(1, "last items that are looked at", at_least=1, at_most=100_000)

    def _learn(self, train: Interactions, split: Split | None) -> None:
        size, flat = train.n_items + 1, train.flat.astype(np.int64)
        behind = np.arange(len(train)) - np.repeat(train.offsets[:-1], train.lengths)  # this user's earlier items
        place, shorter, tables = np.zeros(len(flat), dtype=np.int64), 1, []
        for level in range(1, self.order + 1):
            at = np.flatnonzero(behind >= level)
            contexts, place_of = np.unique(flat[at - level] * shorter + place[at], return_inverse=True)
            pairs, counts = np.unique(place_of * size + flat[at], return_counts=True)
            tables.append(_followers(contexts, pairs, counts, size))
            place[at], shorter = place_of, len(contexts)
        self._keep(np.bincount(flat, minlength=size), tables)

    def _keep(self, popularity: np.ndarray, tables: list[Followers]) -> None:
        self._popularity, self._tables = popularity, tables
        self._ties = popularity / (np.max(popularity) + 1)                                # below 1, the smallest count

    def score(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> np.ndarray:
        return self.lazy_scores(histories).whole()

    def lazy_scores(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> SharedScores:
        """Every item scores by popularity; followers get counts added, and each order divides the scores before it.

            level 1    s = ties + counts_1            ties: popularity, below 1
            level l    s = s / (max(s) + 1) + counts_l, where the last l items are known
        """
        newest = np.zeros((len(histories), self.order), dtype=np.int64)
        for row, history in zip(newest, histories, strict=True):
            row[max(0, self.order - len(history)) :] = history[-self.order :]
        newest, groups = np.unique(newest, axis=0, return_inverse=True)     # the same last items, the same scores
        levels = self._followers(newest)
        keys = distinct(np.concatenate([level.keys for level in levels]))
        group, item = np.divmod(keys, len(self._popularity))
        values, divisors = self._ties[item], np.ones((self.order - 1, len(newest)))
        largest = np.full(len(newest), np.max(self._ties))           # of the items that never followed
        for number, level in enumerate(levels):
            if number:
                most = largest.copy()
                np.maximum.at(most, group, values)
                divisor = divisors[number - 1]
                divisor[level.known] += most[level.known]
                values, largest = values / divisor[group], largest / divisor
            values[np.searchsorted(keys, level.keys)] += level.counts
        return SharedScores(self._ties, groups.reshape(-1), keys, values, divisors)     # NumPy 2.0 has groups (B, 1)

    def _followers(self, newest: np.ndarray) -> list[Followed]:
        """The followers of each group's last item, last two items, ... Shapes: newest (G, order), 0 = none."""
        size, levels = len(self._popularity), []
        known, place, shorter = np.ones(len(newest), dtype=bool), np.zeros(len(newest), dtype=np.int64), 1
        for table, item in zip(self._tables, newest.T[::-1], strict=True):                  # newest first
            context = item * shorter + place
            place, shorter = np.searchsorted(table.contexts, context), len(table.contexts)
            known = known & (place < shorter)
            place = np.where(known, place, 0)
            if shorter:
                known = known & (table.contexts[place] == context)
            begin = table.begin[place]
            end = np.where(known, table.begin[np.minimum(place + 1, shorter)], begin)
            here = ranges(begin, end)
            keys = np.repeat(np.arange(len(newest)), end - begin) * size + table.items[here]
            levels.append(Followed(known, keys, table.counts[here]))
        return levels

    def arrays(self) -> dict[str, np.ndarray]:
        arrays = {"popularity": self._popularity}
        for level, table in enumerate(self._tables, start=1):
            arrays |= {f"{name}.{level}": array for name, array in table._asdict().items()}
        return arrays

    def _restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        if "keys.1" in arrays:
            arrays = _from_keys(arrays, len(arrays["popularity"]))
        levels = range(1, self.order + 1)
        n_items = len(self.fitted())
        tables = [_checked_table(arrays, level, n_items) for level in levels]
        self._keep(checked(arrays, "popularity", (n_items + 1,), np.int64), tables)


def _checked_table(arrays: Mapping[str, np.ndarray], level: int, n_items: int) -> Followers:
    contexts = checked(arrays, f"contexts.{level}", (None,), np.int64)
    if np.any(contexts[1:] <= contexts[:-1]):
        raise ValueError(f"contexts.{level} do not ascend")
    items = checked(arrays, f"items.{level}", (None,), np.int64, n_items)
    begin = checked_cuts(arrays, f"begin.{level}", len(contexts), len(items))
    return Followers(contexts, begin, items, checked(arrays, f"counts.{level}", items.shape, np.int64))


def _followers(contexts: np.ndarray, pairs: np.ndarray, counts: np.ndarray, size: int) -> Followers:
    """The table of ascending `pairs`, place of the context times `size` plus follower."""
    begin = np.searchsorted(pairs, np.arange(len(contexts) + 1) * size)
    return Followers(contexts, begin, pairs % size, counts)


def _from_keys(arrays: Mapping[str, np.ndarray], size: int) -> dict[str, np.ndarray]:
    """The arrays of an older file, of order 1 or 2, whose pairs are numbers to the base `size`."""
    converted, known = {"popularity": arrays["popularity"]}, np.zeros(1, dtype=np.int64)
    for level in range(1, 3):
        if f"keys.{level}" in arrays:
            keys = arrays[f"keys.{level}"]
            contexts, place = np.unique(keys // size, return_inverse=True)
            older, last = contexts // size, contexts % size
            numbers = contexts if level == 1 else older * len(known) + np.searchsorted(known, last)
            table = _followers(numbers, place * size + keys % size, arrays[f"counts.{level}"], size)
            converted |= {f"{name}.{level}": array for name, array in table._asdict().items()}
            known = contexts
    return converted
