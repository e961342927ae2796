"""Series: people who watch several series at once.

Every series is a fixed order of episodes. A person has up to `most_open` unfinished series. They watch the next episode
of one of these, all equally likely, or, with probability `curiosity`, start a new series, popular ones more often. The
next episode depends on the progress in all unfinished series: on the whole history, not on the last item alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...options import option
from ...random import Stream, generator
from ..interactions import Interactions
from .world import World


@dataclass(frozen=True, kw_only=True)
class SeriesWorld(World):
    """Series are watched in order, several at once: `after` depends on the progress in each."""

    series: int = option(12, "series", at_least=1)
    episodes: int = option(8, "episodes of each", at_least=1)
    most_open: int = option(4, "series that are watched at once", at_least=1)
    curiosity: float = option(0.2, "the probability that a new series is begun", at_least=0, at_most=1)

    name = "series"
    title = "series: people who watch several series at once"

    @property
    def n_items(self) -> int:
        return self.series * self.episodes

    def generate(self) -> Interactions:
        """Item ids are like `s07e3`."""
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
        a, b = len(str(self.series)), len(str(self.episodes))               # leading zeros keep ids sorted
        names = [f"s{s:0{a}}e{e:0{b}}" for s in range(1, self.series + 1) for e in range(1, self.episodes + 1)]
        return self.interactions(watched, lengths, np.array(names))

    def after(self, seen: np.ndarray) -> np.ndarray:
        progress = np.zeros((len(seen), self.series), dtype=np.int64)
        np.add.at(progress, (np.arange(len(seen))[:, None], (seen - 1) // self.episodes), 1)
        truth = np.zeros((len(seen), self.n_items))
        unfinished = progress < self.episodes
        rows, series = np.nonzero(unfinished)
        truth[rows, series * self.episodes + progress[unfinished]] = self._next_series(progress)[unfinished]
        return truth

    def _next_series(self, progress: np.ndarray) -> np.ndarray:
        """P(next episode is of series s), (users, series). Shapes: progress, episodes seen, (users, series)."""
        going = (progress > 0) & (progress < self.episodes)
        popularity = (progress == 0) / np.arange(2.0, self.series + 2)       # of the series not yet begun
        n_open = np.sum(going, axis=1, keepdims=True)
        left = np.sum(popularity, axis=1, keepdims=True)
        may_start = (n_open < self.most_open) & (left > 0)
        start = np.where(n_open == 0, 1.0, np.where(may_start, self.curiosity, 0.0))
        return start * popularity / np.maximum(left, 1e-12) + (1 - start) * going / np.maximum(n_open, 1)
