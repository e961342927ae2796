"""Series: people who watch several series at once.

Every series is a fixed order of episodes. A person has up to `most_open` unfinished series. They watch the next episode
of one of these, all equally likely, or, with probability `curiosity`, start a new series, popular ones more often. The
next episode depends on the progress in all unfinished series: on the whole history, not on the last item alone.
"""

from dataclasses import dataclass

import numpy as np

from ...options import option
from .world import World


@dataclass(frozen=True, kw_only=True)
class SeriesWorld(World):
    """Series are watched in order, several at once: `after` depends on the progress in each."""

    series: int = option(12, "series", at_least=1)
    episodes: int = option(8, "episodes of each", at_least=1)
    most_open: int = option(4, "unfinished series at once", at_least=1)
    curiosity: float = option(0.2, "the probability of a new series", at_least=0, at_most=1)

    name = "series"
    title = "series: people who watch several series at once"

    @property
    def n_items(self) -> int:
        return self.series * self.episodes

    @property
    def ids(self) -> np.ndarray:
        a, b = len(str(self.series)), len(str(self.episodes))               # s07e3: leading zeros keep ids sorted
        return np.array([f"s{s:0{a}}e{e:0{b}}" for s in range(1, self.series + 1) for e in range(1, self.episodes + 1)])

    def after(self, seen: np.ndarray) -> np.ndarray:
        watched = np.arange(len(seen))[:, None] * self.series + (seen - 1) // self.episodes
        progress = np.bincount(watched.ravel(), minlength=len(seen) * self.series).reshape(-1, self.series)
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
