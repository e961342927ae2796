"""Popularity: what everybody takes. Every table prints it, and on some data it is hard to beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...data import Interactions, Split
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

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"counts": self.counts}

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.counts = arrays["counts"]
