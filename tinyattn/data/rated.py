"""Ratings as a model reads them: user, item, time, and the user's other items; training batches of them."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..backend import Array, transfer
from .distinct import ranges
from .interactions import Interactions, offsets_of
from .slices import rows_of_step, steps_of


class RatingBatch(NamedTuple):
    """Row b is one rating. `seen` has the items that each distinct user has rated, user by user."""

    users: Array              # (B,) user numbers, 0 = unknown
    items: Array              # (B,) item numbers
    bins: Array               # (B,) item number · bins + the number of the rating's period
    dev: Array                # (B,) sign(t - t̄) |t - t̄|^β, with the time t in days and the user's mean t̄
    ratings: Array            # (B,) the ratings, or 0 in prediction
    place: Array              # (B,) index of the user among the U distinct ones
    begins: Array             # (U,) where each distinct user's items begin in `seen`
    seen: Array               # (M,) item numbers

    @property
    def rows(self) -> Array:
        return self.users

    @property
    def total(self) -> float:
        return float(len(self.users))

    def slices(self, tokens: int) -> "list[RatingBatch]":
        """Slices of about `tokens` ratings, sorted by user, so that few users are in two slices."""
        order = np.argsort(self.place, kind="stable")
        return [self._take(rows) for rows in np.array_split(order, -(-len(order) // tokens))]

    def _take(self, rows: np.ndarray) -> "RatingBatch":
        distinct, place = np.unique(self.place[rows], return_inverse=True)
        ends = np.append(self.begins[1:], len(self.seen))
        begins, seen = lists(self.seen, self.begins[distinct], ends[distinct])
        users, items, bins, dev, ratings = (x[rows] for x in self[:5])
        return RatingBatch(users, items, bins, dev, ratings, place, begins, seen)

    def to(self, xp: Any) -> "RatingBatch":
        return RatingBatch(*transfer(list(self), xp))


def lists(flat: np.ndarray, begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Joins flat[begin[0]:end[0]], flat[begin[1]:end[1]], ... -> where each begins in the result, and the result."""
    return offsets_of(end - begin)[:-1], flat[ranges(begin, end)]


@dataclass(frozen=True)
class Rated:
    """What a model keeps of its training ratings, beside its parameters.

    Times are in the data's unit. N(u) lists the items that user u has rated, an item once for each of u's ratings of
    it; for a user without ratings it holds 0, padding.
    """

    scale: np.ndarray         # (3,) mean, least and greatest rating
    span: np.ndarray          # (2,) first and last time
    means: np.ndarray         # (n_users + 1,) mean time of each user's ratings; 0 where there are none
    offsets: np.ndarray       # (n_users + 2,): user u, 0 = unknown, has rated seen[offsets[u]:offsets[u + 1]]
    seen: np.ndarray          # (M,) item numbers

    @classmethod
    def of(cls, data: Interactions) -> "Rated":
        """From interactions with ratings and times."""
        ratings, times = data.rated
        counts = np.concatenate([[0], data.lengths])
        kept = np.maximum(counts, 1)
        seen = np.zeros(int(np.sum(kept)), dtype=np.int64)
        seen[np.repeat(counts > 0, kept)] = data.flat
        times, scale = times.astype(np.float64), (np.mean(ratings), *np.percentile(ratings, [0, 100]))
        origin = float(np.min(times))          # subtracted: sums of seconds since 1970 would lose digits
        means = np.bincount(data.owner + 1, times - origin, minlength=len(counts)) / kept + origin * (counts > 0)
        return cls(np.array(scale), np.array([origin, np.max(times)]), means, offsets_of(kept), seen)

    def batch(
        self, users: np.ndarray, items: np.ndarray, times: np.ndarray, ratings: np.ndarray | None = None, *, bins: int,
        beta: float, day: float,
    ) -> RatingBatch:  # fmt: skip
        """A batch of (B,) ratings, absent in prediction. A day has `day` units; times outside the span are clipped."""
        distinct, place = np.unique(users, return_inverse=True)
        begins, seen = lists(self.seen, self.offsets[distinct], self.offsets[distinct + 1])
        away = (times - self.means[users]) / day
        dev = np.sign(away) * np.abs(away) ** beta
        first, last = self.span.tolist()
        period = np.clip((times - first) / max(last - first, 1e-9) * bins, 0, bins - 1).astype(np.int64)
        ratings = np.zeros(len(users)) if ratings is None else ratings
        real = (dev.astype(np.float32), ratings.astype(np.float32))
        return RatingBatch(users, items, items * bins + period, *real, place, begins, seen)


@dataclass(frozen=True)
class RatingSampler:
    """The training batches of a run, a function of the step. In an epoch each rating comes once, in a new order."""

    data: Interactions
    rated: Rated
    batch_size: int
    seed: int
    how: dict[str, Any]       # bins, beta and day, for `Rated.batch`

    @property
    def steps(self) -> int:
        return steps_of(len(self.data), self.batch_size)

    def batch(self, step: int) -> RatingBatch:
        return self.of(rows_of_step(len(self.data), self.steps, self.seed, step))

    def of(self, rows: np.ndarray) -> RatingBatch:
        """The batch of the ratings with these numbers, counted from 0 in the order of the data."""
        ratings, times = self.data.rated
        users = np.searchsorted(self.data.offsets, rows, side="right")   # user numbers are counted from 1
        items = self.data.flat[rows].astype(np.int64)
        return self.rated.batch(users, items, times[rows], ratings[rows], **self.how)
