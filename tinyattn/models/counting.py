"""Two baselines that count. Every table prints them beside the models, and on some data they win."""

from __future__ import annotations

import numpy as np

from ..data import Interactions, Split
from .recommender import Recommender


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


class Markov(Recommender):
    """An item's score is how often it followed the history's last item in training; popularity breaks ties."""

    name = "markov"

    def _learn(self, train: Interactions, split: Split | None) -> None:
        goes_on = np.ones(len(train), dtype=bool)
        goes_on[train.offsets[1:][train.lengths > 0] - 1] = False            # a user's last item has no follower
        at = np.flatnonzero(goes_on)
        size = train.n_items + 1
        pairs, counts = np.unique(train.flat[at] * np.int64(size) + train.flat[at + 1], return_counts=True)
        self._keep(pairs, counts, np.bincount(train.flat, minlength=size))

    def _keep(self, pairs: np.ndarray, counts: np.ndarray, popularity: np.ndarray) -> None:
        """`pairs` are before * (n_items + 1) + after, ascending, each with its count."""
        size = len(popularity)
        self._pairs, self._counts, self._popularity = pairs, counts, popularity
        self._begin = np.searchsorted(pairs // size, np.arange(size + 1))    # item i's followers: begin[i]:begin[i + 1]
        self._followers = pairs % size
        self._ties = popularity / (np.max(popularity) + 1)                   # below 1, the smallest count

    def score(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> np.ndarray:
        """(len(histories), n_items + 1)."""
        scores = np.tile(self._ties, (len(histories), 1))
        for row, history in zip(scores, histories, strict=True):
            here = slice(*self._begin[history[-1] : history[-1] + 2])
            row[self._followers[here]] += self._counts[here]
        return scores

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"pairs": self._pairs, "counts": self._counts, "popularity": self._popularity}

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        self._keep(arrays["pairs"], arrays["counts"], arrays["popularity"])
