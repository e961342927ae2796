"""Chains: the next item depends on the last k items. Earlier items matter only because no item comes twice."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...options import option
from ...random import Stream, generator
from .world import World, of_the_unseen, popularity


@dataclass(frozen=True, kw_only=True)
class ChainWorld(World):
    """A Markov chain of order k over groups of items.

    Each item is in one of g groups. The groups of the last k items determine the distribution of the next item: with
    probability `noise` by popularity, else among a few followers of these groups. Items of the history are never drawn.
    Apart from this exclusion, as many groups as items and k = 1 make a first-order Markov chain over items.
    """

    items: int = option(60, "items", at_least=2)
    order: int = option(1, "k: how many of the last items matter", at_least=1, at_most=4)
    groups: int = option(60, "g: groups of items", at_least=1)
    followers: int = option(4, "items that often follow the same groups", at_least=1)
    noise: float = option(0.2, "the share of items drawn by popularity", at_least=0, at_most=1)

    name = "chain"
    title = "a chain: people whose next item depends on the last ones"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("groups", "followers"):
            if getattr(self, name) > self.items:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at most {self.items}, the number of items")

    @property
    def n_items(self) -> int:
        return self.items

    @cached_property
    def _group(self) -> np.ndarray:
        """(items,): the group of each item; groups differ in size by at most one."""
        return generator(self.seed, Stream.WORLD, 1).permutation(np.arange(self.items) % self.groups)

    @cached_property
    def _table(self) -> np.ndarray:
        """(g^k, items): P(next item | groups). Each row has random followers, the first the most frequent."""
        rng = generator(self.seed, Stream.WORLD, 2)
        table = np.tile(self.noise * popularity(self.items), (self.groups**self.order, 1))
        for row in table:
            row[rng.permutation(self.items)[: self.followers]] += (1 - self.noise) * popularity(self.followers)
        return table

    def after(self, seen: np.ndarray) -> np.ndarray:
        """After a history shorter than k, items are drawn by popularity."""
        if seen.shape[1] < self.order:
            return of_the_unseen(popularity(self.items), seen)
        context = np.zeros(len(seen), dtype=np.int64)
        for item in seen[:, seen.shape[1] - self.order :].T:
            context = context * self.groups + self._group[item - 1]
        return of_the_unseen(self._table[context], seen)
