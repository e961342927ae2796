"""A generated world whose true next-item distribution is known: people who watch several series at once.

Every series is a fixed order of episodes. A person has up to `most_open` unfinished series. At each moment they watch
the next episode of one of these, all equally likely, or, with probability `curiosity`, start a series not seen before,
popular ones more often. The next episode depends on all unfinished series and how far each has been watched. A Markov
chain sees only the last item; attention sees the whole history.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..random import Stream, generator
from .interactions import Interactions
from .vocabulary import Vocabulary


@dataclass(frozen=True)
class SeriesWorld:
    """`generate()` draws the interactions; `next_item(histories)` is the true distribution of the item that follows."""

    series: int = 12
    episodes: int = 8
    users: int = 3000
    most_open: int = 4
    curiosity: float = 0.2
    shortest: int = 10
    longest: int = 30
    seed: int = 0

    def __post_init__(self) -> None:
        if not 3 <= self.shortest <= self.longest < self.n_items:
            raise ValueError(
                f"expected 3 <= shortest <= longest < {self.n_items} (all episodes), "
                f"got shortest {self.shortest}, longest {self.longest}"
            )

    @property
    def n_items(self) -> int:
        return self.series * self.episodes

    def generate(self) -> Interactions:
        """Draw interactions. Item ids are like `s07e3`; users are 1, 2, 3, ... The same settings give the same data."""
        rng = generator(self.seed, Stream.WORLD)
        lengths = rng.integers(self.shortest, self.longest + 1, size=self.users)
        progress = np.zeros((self.users, self.series), dtype=np.int64)      # episodes seen of each series
        everyone = np.arange(self.users)
        watched = np.zeros((self.users, self.longest), dtype=np.int32)
        for t in range(self.longest):
            up_to = np.cumsum(self._next_series(progress), axis=1)
            drawn = rng.random((self.users, 1)) * up_to[:, -1:]
            chosen = np.argmax(up_to > drawn, axis=1)
            watched[:, t] = chosen * self.episodes + progress[everyone, chosen] + 1
            progress[everyone, chosen] += 1
        real = np.arange(self.longest) < lengths[:, None]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        a, b = len(str(self.series)), len(str(self.episodes))               # leading zeros keep ids sorted
        names = [f"s{s:0{a}}e{e:0{b}}" for s in range(1, self.series + 1) for e in range(1, self.episodes + 1)]
        users = Vocabulary(np.arange(1, self.users + 1), "user")
        return Interactions(watched[real], offsets, Vocabulary(np.array(names), "item"), users)

    def next_item(self, histories: list[np.ndarray]) -> np.ndarray:
        """P(next item | history), exactly: (len(histories), n_items + 1), rows sum to 1, column 0 (padding) is 0."""
        progress = np.zeros((len(histories), self.series), dtype=np.int64)
        for row, history in zip(progress, histories, strict=True):
            row += np.bincount((history - 1) // self.episodes, minlength=self.series)
        truth = np.zeros((len(histories), self.n_items + 1))
        unfinished = progress < self.episodes
        rows, series = np.nonzero(unfinished)
        truth[rows, series * self.episodes + progress[unfinished] + 1] = self._next_series(progress)[unfinished]
        return truth

    def best_ranking(self, histories: list[np.ndarray]) -> np.ndarray:
        """Scores that rank items by `next_item`: no other ranking has better expected metrics.

        Equally likely items are ranked by item number: with equal scores they would share a mean rank.
        """
        order = np.argsort(-self.next_item(histories), axis=1, kind="stable")
        scores = np.empty(order.shape)
        np.put_along_axis(scores, order, -np.arange(order.shape[1], dtype=np.float64), axis=1)
        return scores

    def _next_series(self, progress: np.ndarray) -> np.ndarray:
        """P(next episode is of series s): (users, series), given how many episodes of each series a user has seen."""
        going = (progress > 0) & (progress < self.episodes)
        popularity = (progress == 0) / np.arange(2.0, self.series + 2)       # of the series not yet begun
        n_open = np.sum(going, axis=1, keepdims=True)
        left = np.sum(popularity, axis=1, keepdims=True)
        may_start = (n_open < self.most_open) & (left > 0)
        start = np.where(n_open == 0, 1.0, np.where(may_start, self.curiosity, 0.0))
        return start * popularity / np.maximum(left, 1e-12) + (1 - start) * going / np.maximum(n_open, 1)
