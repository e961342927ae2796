"""Item-based neighbourhoods: items are near if the same users have them (Sarwar et al. 2001)."""

from dataclasses import dataclass

import numpy as np

from ...data import Interactions, Split
from ...data.distinct import ranges
from ...files import Arrays
from ..parameters import checked, checked_cuts
from ..recommender import Recommender
from .co_occurrence import co_occurrence


@dataclass(eq=False)
class ItemCosine(Recommender):
    """An item's score is the sum of its cosines to the history's items; an item is the set of its training users.

    cos(i, j) = |users of both| / √(|users of i| |users of j|); the item-based neighbourhood of Sarwar et al. (2001).
    """

    name = "cosine"

    def _learn(self, train: Interactions, split: Split | None) -> None:
        rows, values, users_of = [], [], []
        for i, counts in enumerate(co_occurrence(train)):
            users_of.append(max(counts[i], 1))
            counts[i] = 0
            rows.append(np.flatnonzero(counts))
            values.append(counts[rows[-1]])
        self._begin = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
        self._neighbours = np.concatenate(rows).astype(np.int32)
        norm = np.sqrt(users_of)
        norms = np.repeat(norm, np.diff(self._begin)) * norm[self._neighbours]
        self._cosines = (np.concatenate(values) / norms).astype(np.float32)

    def score(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> np.ndarray:
        scores = np.zeros((len(histories), len(self._begin) - 1))
        for row, history in zip(scores, histories, strict=True):
            known = np.unique(history)
            near = ranges(self._begin[known], self._begin[known + 1])
            row += np.bincount(self._neighbours[near], weights=self._cosines[near], minlength=len(row))
        return scores

    def arrays(self) -> dict[str, np.ndarray]:
        return {"begin": self._begin, "neighbours": self._neighbours, "cosines": self._cosines}

    def _restore(self, arrays: Arrays) -> None:
        n_items = len(self.fitted())
        self._neighbours = checked(arrays, "neighbours", (None,), np.int32, n_items)
        self._cosines = checked(arrays, "cosines", self._neighbours.shape, np.float32)
        self._begin = checked_cuts(arrays, "begin", n_items + 1, len(self._neighbours))
