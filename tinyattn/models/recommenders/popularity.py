"""Popularity, a baseline of every table."""

from dataclasses import dataclass

import numpy as np

from ...data import Interactions, Split
from ...evaluation import SharedScores
from ...files import Arrays
from ..parameters import checked
from ..recommender import Recommender


@dataclass(eq=False)
class Popularity(Recommender):
    """An item's score is how often it occurs in training."""

    name = "popularity"

    def _learn(self, train: Interactions, split: Split | None) -> None:
        self.counts = np.bincount(train.flat, minlength=train.n_items + 1)

    def score(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> np.ndarray:
        return self.lazy_scores(histories).whole()

    def lazy_scores(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> SharedScores:
        groups, none = np.zeros(len(histories), dtype=np.int64), np.empty(0)
        return SharedScores(self.counts.astype(np.float64), groups, none.astype(np.int64), none, np.empty((0, 1)))

    def item_scores(self, item: int) -> np.ndarray:
        raise ValueError("a popularity model knows nothing of pairs of items: no item is near another")

    def arrays(self) -> dict[str, np.ndarray]:
        return {"counts": self.counts}

    def _restore(self, arrays: Arrays) -> None:
        self.counts = checked(arrays, "counts", (len(self.fitted()) + 1,), np.int64)
