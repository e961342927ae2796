"""Tastes: people like different items, and order is uninformative, or shows only the drift of a taste."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...options import option
from ...random import Stream, generator
from .world import World, popularity


@dataclass(frozen=True, kw_only=True)
class TasteWorld(World):
    """Each person has one of K hidden tastes; an item is drawn from the taste's distribution.

        P(next | history) = Σ_z P(z | history) P(next | z) / P(not in history | z),   0 for items of the history

    which is a matrix of rank K apart from the exclusion of seen items. P(z | history) follows from Bayes' theorem, item
    by item. At each step a taste changes into the next one with probability `drift`, so that newer items are more
    informative. With one taste no model can do better than popularity.
    """

    items: int = option(120, "items", at_least=2)
    tastes: int = option(8, "K: tastes", at_least=1)
    sharpness: float = option(2.0, "0: all tastes are equal; the higher, the fewer items a taste likes", at_least=0)
    drift: float = option(0.0, "the probability that a taste changes into the next one", at_least=0, at_most=1)

    name = "tastes"
    title = "tastes: people who like different things"

    @property
    def n_items(self) -> int:
        return self.items

    @cached_property
    def _likes(self) -> np.ndarray:
        """(K, items): P(item | taste), popularity times a random factor of the taste for each item."""
        rng = generator(self.seed, Stream.WORLD, 1)
        weight = popularity(self.items) * np.exp(self.sharpness * rng.standard_normal((self.tastes, self.items)))
        return weight / np.sum(weight, axis=1, keepdims=True)

    def after(self, seen: np.ndarray) -> np.ndarray:
        likes, people = self._likes, np.arange(len(seen))
        belief = np.full((len(seen), self.tastes), 1 / self.tastes)              # P(z | history so far)
        left = np.ones((len(seen), self.tastes, self.items))                     # P(item | z) of items not yet seen
        left *= likes
        for item in seen.T.astype(np.int64) - 1:
            belief *= left[people, :, item] / np.sum(left, axis=2)
            belief /= np.sum(belief, axis=1, keepdims=True)
            belief = (1 - self.drift) * belief + self.drift * np.roll(belief, 1, axis=1)
            left[people, :, item] = 0
        return np.sum(belief[:, :, None] * left / np.sum(left, axis=2, keepdims=True), axis=1)
