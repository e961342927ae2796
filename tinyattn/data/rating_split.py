"""Splits of explicit ratings into training, validation and test."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..random import Stream, generator
from .interactions import Interactions, offsets_of

TRAIN, VALID, TEST = 0, 1, 2
SHARE = 0.1              # of the ratings for validation, and for testing


@dataclass(frozen=True)
class RatingSplit:
    """Every rating is in one part; users and items have the same numbers in all three."""

    data: Interactions
    part: np.ndarray         # (N,) TRAIN, VALID or TEST

    @cached_property
    def train(self) -> Interactions:
        return self._of(TRAIN)

    @cached_property
    def valid(self) -> Interactions:
        return self._of(VALID)

    @cached_property
    def test(self) -> Interactions:
        return self._of(TEST)

    @property
    def tested(self) -> str:
        """The tested part, in words."""
        return f"{int(np.sum(self.part == TEST)):,} ratings"

    def _of(self, part: int) -> Interactions:
        data, keep = self.data, self.part == part
        (ratings, times), owner = data.rated, data.owner[keep]
        offsets = offsets_of(np.bincount(owner, minlength=data.n_users))
        return replace(data, offsets=offsets, flat=data.flat[keep], times=times[keep], ratings=ratings[keep])


def by_user(data: Interactions, seed: int = 0) -> np.ndarray:
    """(N,): rank of each rating among those of its user, by time, 0 to 1. Every user's newest ones are predicted."""
    place = np.arange(len(data)) - np.repeat(data.offsets[:-1], data.lengths)
    return (place + 1) / np.repeat(data.lengths, data.lengths)


def by_time(data: Interactions, seed: int = 0) -> np.ndarray:
    """(N,): rank of each rating among all, by time, 0 to 1. Ratings after one moment are predicted, as in real use."""
    return _places(np.argsort(data.rated[1], kind="stable"))


def at_random(data: Interactions, seed: int = 0) -> np.ndarray:
    """(N,): a random order. Models then know each user's future, as in most published measurements."""
    return _places(generator(seed, Stream.RATINGS).permutation(len(data)))


def _places(order: np.ndarray) -> np.ndarray:
    place = np.empty(len(order))
    place[order] = np.arange(1, len(order) + 1) / len(order)
    return place


RATING_SPLITS: dict[str, Callable[..., np.ndarray]] = {"user": by_user, "time": by_time, "random": at_random}


def split_ratings(data: Interactions, by: str = "user", share: float = SHARE, seed: int = 0) -> RatingSplit:
    """The last `share` in the order `by`, a key of RATING_SPLITS, is for testing, as many before it for validation.

    By "user", the shares are of each user's ratings, and the newest is always for testing: users with fewer than
    1 / `share` ratings have a larger share in testing, and perhaps none in validation. Only "random" uses `seed`.
    Raises ValueError for data without ratings or times, an unknown `by`, and where a part would be empty.
    """
    refuse_unrated(data)
    if by not in RATING_SPLITS:
        raise ValueError(f"split is {by!r}, expected one of {', '.join(RATING_SPLITS)}")
    place = RATING_SPLITS[by](data, seed)
    part = np.where(place > 1 - share, TEST, np.where(place > 1 - 2 * share, VALID, TRAIN))
    if len(np.unique(part)) < 3:
        raise ValueError(f"{len(data)} ratings are too few for a split into three parts with {share:.0%} to test on")
    return RatingSplit(data, part)


def refuse_unrated(data: Interactions) -> None:
    """Raise ValueError for data without ratings or without times; the message says how to provide them."""
    lacking = [what for what, column in (("ratings", data.ratings), ("times", data.times)) if column is None]
    if lacking:
        raise ValueError(
            f"the data has no {' and no '.join(lacking)}, and this model learns from ratings with times: give a "
            "file that has both, read(path, ratings=True), or a DataFrame with numbers in columns rating and timestamp"
        )
