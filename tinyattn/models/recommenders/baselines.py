"""Baselines: they count, and learn no parameters. Every table prints some of them, and on some data they win."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...data import Interactions, Split
from ...options import check_options, option
from ..recommender import Recommender


@dataclass(eq=False)
class Popularity(Recommender):
    """An item's score is how often it occurs in training."""

    name = "popularity"

    def _learn(self, train: Interactions, split: Split | None) -> None:
        self.counts = np.bincount(train.flat, minlength=train.n_items + 1)

    def score(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> np.ndarray:
        """(len(histories), n_items + 1), the same for all."""
        return np.tile(self.counts.astype(np.float64), (len(histories), 1))

    def item_scores(self, item: int) -> np.ndarray:
        """Raises ValueError."""
        raise ValueError("a popularity model knows nothing of pairs of items: no item is near another")

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"counts": self.counts}

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.counts = arrays["counts"]


@dataclass(eq=False)
class Markov(Recommender):
    """An item's score is how often it followed the history's last `order` items in training.

    Ties are broken by the counts after the last `order` - 1 items, and so on down to popularity.
    """

    name = "markov"

    order: int = option(1, "last items that are looked at", at_least=1, at_most=2)

    def __post_init__(self) -> None:
        check_options(self)

    def _learn(self, train: Interactions, split: Split | None) -> None:
        size = train.n_items + 1
        place = np.arange(len(train)) - np.repeat(train.offsets[:-1], train.lengths)  # within the user's sequence
        tables = []
        for level in range(1, self.order + 1):
            at = np.flatnonzero(place >= level)                    # items with so many before them
            keys = _context(train.flat, at, level, size) * size + train.flat[at]
            tables.append(np.unique(keys, return_counts=True))
        self._keep(np.bincount(train.flat, minlength=size), tables)

    def _keep(self, popularity: np.ndarray, tables: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """A table a level: keys context * (n_items + 1) + follower, ascending, each with its count."""
        self._popularity, self._tables = popularity, tables
        self._ties = popularity / (np.max(popularity) + 1)                                # below 1, the smallest count

    def score(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> np.ndarray:
        """(len(histories), n_items + 1)."""
        size = len(self._popularity)
        scores = np.tile(self._ties, (len(histories), 1))
        for level, (keys, counts) in enumerate(self._tables, start=1):
            for row, history in zip(scores, histories, strict=True):
                if level > 1:
                    row /= np.max(row) + 1                                                # what came before breaks ties
                if len(history) >= level:
                    context = _context(history, np.array([len(history)]), level, size)[0]
                    here = slice(*np.searchsorted(keys, [context * size, (context + 1) * size]))
                    row[keys[here] % size] += counts[here]
        return scores

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = {"popularity": self._popularity}
        for level, (keys, counts) in enumerate(self._tables, start=1):
            arrays |= {f"keys.{level}": keys, f"counts.{level}": counts}
        return arrays

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        tables = [(arrays[f"keys.{level}"], arrays[f"counts.{level}"]) for level in range(1, self.order + 1)]
        self._keep(arrays["popularity"], tables)


def _context(flat: np.ndarray, at: np.ndarray, level: int, size: int) -> np.ndarray:
    """One number for the `level` items before each of the places `at`."""
    context = np.zeros(len(at), dtype=np.int64)
    for back in range(level, 0, -1):
        context = context * size + flat[at - back]
    return context


@dataclass(eq=False)
class ItemCosine(Recommender):
    """An item's score is the sum of its cosines to the items of the history, as sets of training users.

    cos(i, j) = |users of both| / √(|users of i| |users of j|); the item-based neighbourhood of Sarwar et al. (2001).
    """

    name = "cosine"

    def _learn(self, train: Interactions, split: Split | None) -> None:
        size = train.n_items + 1
        owner = np.repeat(np.arange(train.n_users), train.lengths)
        pairs = np.unique(owner * np.int64(size) + train.flat)     # each user's set of items
        user, item = pairs // size, pairs % size
        starts = np.searchsorted(user, np.arange(train.n_users + 1))
        order = np.argsort(item, kind="stable")
        users_of = user[order]                                     # item i's users: users_of[begins[i]:begins[i + 1]]
        begins = np.searchsorted(item[order], np.arange(size + 1))
        norm = np.sqrt(np.maximum(np.diff(begins), 1))
        rows, values = [], []
        for i in range(size):
            mine = users_of[begins[i] : begins[i + 1]]
            counts = np.bincount(item[_ranges(starts[mine], starts[mine + 1])], minlength=size)
            counts[i] = 0
            rows.append(np.flatnonzero(counts))
            values.append(counts[rows[-1]] / (norm[i] * norm[rows[-1]]))
        self._begin = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
        self._neighbours = np.concatenate(rows).astype(np.int32)
        self._cosines = np.concatenate(values).astype(np.float32)

    def score(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> np.ndarray:
        """(len(histories), n_items + 1)."""
        scores = np.zeros((len(histories), len(self._begin) - 1))
        for row, history in zip(scores, histories, strict=True):
            known = np.unique(history)
            near = _ranges(self._begin[known], self._begin[known + 1])
            row += np.bincount(self._neighbours[near], weights=self._cosines[near], minlength=len(row))
        return scores

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"begin": self._begin, "neighbours": self._neighbours, "cosines": self._cosines}

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        self._begin, self._neighbours, self._cosines = arrays["begin"], arrays["neighbours"], arrays["cosines"]


BASELINES: dict[str, Callable[[], Recommender]] = {
    "popularity": Popularity,
    "cosine": ItemCosine,
    "markov": Markov,
    "markov2": partial(Markov, order=2),
}


def _ranges(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """All the numbers of begin[0]:end[0], begin[1]:end[1], ..., one after the other."""
    length = end - begin
    return np.repeat(end - np.cumsum(length), length) + np.arange(int(np.sum(length)))
