"""Markov chains: what followed the last items in training, with back-off to fewer of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...data import Interactions, Split
from ...options import check_options, option
from ..recommender import Recommender


class Followers(NamedTuple):
    """What followed each context of one length: context c was followed by items[begin[c]:begin[c + 1]].

    A context of k items is its oldest item and the context of the k - 1 items after it, as one number: oldest item
    times the number of shorter contexts, plus the place of the shorter one. Places, not the numbers themselves, go into
    longer contexts: so no number exceeds items times interactions, whatever the order.
    """

    contexts: np.ndarray      # (C,) the contexts seen in training, ascending
    begin: np.ndarray         # (C + 1,)
    items: np.ndarray         # (N,) in each context ascending
    counts: np.ndarray        # (N,) how often each followed


@dataclass(eq=False)
class Markov(Recommender):
    """An item's score is how often it followed the history's last `order` items in training.

    Ties are broken by the counts after the last `order` - 1 items, and so on down to popularity. Where the last `order`
    items never came one after the other, the scores are those of the next lower order. A score has 53 bits for all of
    this: where the counts of many levels fill them, ties of the lowest levels stay.
    """

    name = "markov"

    order: int = option(1, "last items that are looked at", at_least=1)

    def __post_init__(self) -> None:
        check_options(self)

    def _learn(self, train: Interactions, split: Split | None) -> None:
        size, flat = train.n_items + 1, train.flat.astype(np.int64)
        behind = np.arange(len(train)) - np.repeat(train.offsets[:-1], train.lengths)  # items before it, of this user
        place, shorter, tables = np.zeros(len(flat), dtype=np.int64), 1, []
        for level in range(1, self.order + 1):
            at = np.flatnonzero(behind >= level)
            contexts, found = np.unique(flat[at - level] * shorter + place[at], return_inverse=True)
            pairs, counts = np.unique(found * size + flat[at], return_counts=True)
            tables.append(_followers(contexts, pairs, counts, size))
            place[at], shorter = found, len(contexts)
        self._keep(np.bincount(flat, minlength=size), tables)

    def _keep(self, popularity: np.ndarray, tables: list[Followers]) -> None:
        """The counts of single items, and a table a level."""
        self._popularity, self._tables = popularity, tables
        self._ties = popularity / (np.max(popularity) + 1)                                # below 1, the smallest count

    def score(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> np.ndarray:
        """(len(histories), n_items + 1)."""
        scores = np.tile(self._ties, (len(histories), 1))
        for row, history in zip(scores, histories, strict=True):
            place, shorter = 0, 1
            for item, table in zip(history[::-1].tolist(), self._tables, strict=False):   # newest first
                context = item * shorter + place
                place, shorter = int(np.searchsorted(table.contexts, context)), len(table.contexts)
                if place == shorter or table.contexts[place] != context:
                    break                                                                 # nor is any longer one known
                here = slice(table.begin[place], table.begin[place + 1])
                if table is not self._tables[0]:
                    row /= np.max(row) + 1                                                # what came before breaks ties
                row[table.items[here]] += table.counts[here]
        return scores

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = {"popularity": self._popularity}
        for level, table in enumerate(self._tables, start=1):
            arrays |= {f"{name}.{level}": array for name, array in table._asdict().items()}
        return arrays

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        if "keys.1" in arrays:
            arrays = _from_keys(arrays, len(arrays["popularity"]))
        levels = range(1, self.order + 1)
        tables = [Followers(*(arrays[f"{name}.{level}"] for name in Followers._fields)) for level in levels]
        self._keep(arrays["popularity"], tables)


def _followers(contexts: np.ndarray, pairs: np.ndarray, counts: np.ndarray, size: int) -> Followers:
    """The table of ascending `pairs`, place of the context times `size` plus follower."""
    begin = np.searchsorted(pairs, np.arange(len(contexts) + 1) * size)
    return Followers(contexts, begin, pairs % size, counts)


def _from_keys(arrays: dict[str, np.ndarray], size: int) -> dict[str, np.ndarray]:
    """The arrays of a file in which a pair is one number to the base `size`, of orders 1 and 2, as they are now."""
    found, known = {"popularity": arrays["popularity"]}, np.zeros(1, dtype=np.int64)
    for level in range(1, 3):
        if f"keys.{level}" in arrays:
            keys = arrays[f"keys.{level}"]
            contexts, place = np.unique(keys // size, return_inverse=True)
            older, last = contexts // size, contexts % size
            numbers = contexts if level == 1 else older * len(known) + np.searchsorted(known, last)
            table = _followers(numbers, place * size + keys % size, arrays[f"counts.{level}"], size)
            found |= {f"{name}.{level}": array for name, array in table._asdict().items()}
            known = contexts
    return found
