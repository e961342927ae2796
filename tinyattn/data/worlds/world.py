"""A world: interactions from a known distribution, with which a model can be compared."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...options import check_options, option
from ...random import Stream, generator
from ..interactions import Interactions, offsets_of
from ..vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True)
class World:
    """`generate()` draws the interactions; `next_item(histories)` is the true distribution of the next item.

    No user has an item twice. A subclass has a `name`, `title`, `n_items`, and `after`. Raises ValueError for invalid
    settings.
    """

    users: int = option(3000, "people", at_least=1)
    shortest: int = option(10, "items of the shortest history", at_least=3)
    longest: int = option(30, "items of the longest history", at_least=3)
    seed: int = option(0, "of the random numbers", at_least=0)

    name: ClassVar[str]
    title: ClassVar[str]            # the behaviour of its users, in a few words

    def __post_init__(self) -> None:
        check_options(self)
        if not self.shortest <= self.longest < self.n_items:
            raise ValueError(
                f"expected shortest <= longest < {self.n_items} (all items), "
                f"got shortest {self.shortest}, longest {self.longest}"
            )

    @property
    def n_items(self) -> int:
        raise NotImplementedError

    @property
    def ids(self) -> np.ndarray:
        """The ids of the items, sorted."""
        return np.arange(1, self.n_items + 1)

    def after(self, seen: np.ndarray) -> np.ndarray:
        """P(next item | history), 0 for items of the history. Shapes: seen (U, t) -> (U, n_items), rows sum to 1."""
        raise NotImplementedError

    def generate(self) -> Interactions:
        """Draw interactions; users are 1, 2, 3, ... The same settings give the same data."""
        rng = generator(self.seed, Stream.WORLD)
        lengths = rng.integers(self.shortest, self.longest + 1, size=self.users)
        seen = np.zeros((self.users, 0), dtype=np.int32)
        for _ in range(self.longest):
            up_to = np.cumsum(self.after(seen), axis=1)
            drawn = np.argmax(up_to > rng.random((self.users, 1)) * up_to[:, -1:], axis=1) + 1
            seen = np.concatenate([seen, drawn[:, None].astype(np.int32)], axis=1)
        users = Vocabulary(np.arange(1, self.users + 1), "user")
        real = np.arange(self.longest) < lengths[:, None]
        return Interactions(seen[real], offsets_of(lengths), Vocabulary(self.ids, "item"), users)

    def next_item(self, histories: list[np.ndarray]) -> np.ndarray:
        """P(next item | history), exactly: (len(histories), n_items + 1), rows sum to 1, column 0 (padding) is 0."""
        truth = np.zeros((len(histories), self.n_items + 1))
        lengths = np.array([len(history) for history in histories], dtype=np.int64)
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            some = np.array([histories[row] for row in rows.tolist()], dtype=np.int64)
            truth[rows, 1:] = self.after(some.reshape(len(rows), length))
        return truth

    def best_ranking(self, histories: list[np.ndarray]) -> np.ndarray:
        """Scores that rank items by `next_item`, ties by item number: no ranking has better expected metrics."""
        order = np.argsort(-self.next_item(histories), axis=1, kind="stable")
        scores = np.empty(order.shape)
        np.put_along_axis(scores, order, -np.arange(order.shape[1], dtype=np.float64), axis=1)
        return scores


def of_the_unseen(weights: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Weights of items, (U, items), as a distribution over the items that are not in `seen`, (U, t)."""
    left = np.array(np.broadcast_to(weights, (len(seen), weights.shape[-1])))
    np.put_along_axis(left, seen.astype(np.int64) - 1, 0.0, axis=1)
    return left / np.sum(left, axis=1, keepdims=True)


def popularity(n_items: int) -> np.ndarray:
    """Zipf's law, (n_items,): the i-th item, from 1 on, has a share in proportion to 1 / (i + 1)."""
    weight = 1 / np.arange(2.0, n_items + 2)
    return weight / np.sum(weight)
