"""Splits: of each evaluated user one item is for testing, the one before it for validation, the others for training.

    leave-one-out    the test item is the user's last (Kang & McAuley 2018): what others did later is trained on
    time             the test item is the user's first after one moment for all: nothing after it is trained on
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..random import Stream, generator
from .interactions import Interactions


@dataclass(frozen=True)
class Split:
    """The data, and who is tested. Users whose targets are 0 are only trained on.

    These are users with fewer than three interactions; of a split by time all who have not two up to its moment, and
    one after it.
    """

    data: Interactions        # all that the split uses: of each evaluated user, the test item is the last
    train: Interactions       # all but the last two of each evaluated user
    valid: np.ndarray         # (n_users,) item numbers, 0 = none
    test: np.ndarray          # (n_users,) item numbers, 0 = none

    @property
    def evaluated(self) -> np.ndarray:
        """The users, counted from 0, that have targets."""
        return np.flatnonzero(self.test)

    @property
    def tested(self) -> str:
        """The tested part, in words."""
        repeats = self.repeats                              # which looks at all interactions
        again = f" ({repeats:,} of them on an item that they had before)" if repeats else ""
        return f"{len(self.evaluated):,} users{again}"

    @property
    def repeats(self) -> int:
        """How many users had the test item before: it is then ranked among items that they never had."""
        owner = np.repeat(np.arange(self.data.n_users), self.data.lengths)
        times = np.bincount(owner[self.data.flat == self.test[owner]], minlength=self.data.n_users)
        return int(np.sum(times[self.evaluated] > 1))

    def histories(self, users: np.ndarray, stage: str) -> list[np.ndarray]:
        """Each user's items before the target of `stage` ("valid" or "test")."""
        drop = {"valid": 2, "test": 1}[stage]
        return [self.data.sequence(u)[:-drop] for u in users.tolist()]

    def sample(self, count: int, seed: int = 0) -> Split:
        """The same data, with targets for `count` users only, drawn by `seed`: the same ones at every call.

        Raises ValueError where fewer users have targets.
        """
        users = self.evaluated
        if count > len(users):
            raise ValueError(f"{count:,} users were asked for, but only {len(users):,} have an item to validate on")
        kept = np.zeros(len(self.test), dtype=bool)
        kept[generator(seed, Stream.VALIDATION).choice(users, count, replace=False)] = True
        return replace(self, valid=np.where(kept, self.valid, 0), test=np.where(kept, self.test, 0))


def leave_one_out(data: Interactions) -> Split:
    """Split by position, as Kang & McAuley (2018) do. Raises ValueError where no user has three interactions."""
    long = data.lengths >= 3
    if not np.any(long):
        raise ValueError(
            f"none of the {data.n_users:,} users has 3 interactions: leave-one-out needs one to train on, "
            "one to validate and one to test"
        )
    return _last_two_apart(data, long)


def by_time(data: Interactions, share: float = 0.9) -> Split:
    """Split at the moment T that `share` of all interactions do not come after.

    Of users with an interaction after T, and two or more up to T, the first one after T is the test item, and the last
    one up to T the validation item. Everything else up to T is for training, also that of other users; what comes
    after T is otherwise not used, so no model is trained on, or chosen by, what happened after T. This is the split at
    one point of time with the first item as the target and the last training item for validation, of those that Gusak
    et al. (2025, Time to Split) compare, with their share. No model knows an item that is new after T.

    Raises ValueError for data without times, and where no user has interactions on both sides.
    """
    if data.times is None:
        raise ValueError("a split by time needs times, and these interactions have none; leave-one-out needs none")
    moment = np.sort(data.times)[max(0, math.ceil(share * len(data)) - 1)]
    owner = np.repeat(np.arange(data.n_users), data.lengths)
    early = data.times <= moment
    before = np.bincount(owner[early], minlength=data.n_users)
    evaluated = (before >= 2) & (data.lengths > before)
    if not np.any(evaluated):
        raise ValueError(
            f"none of the {data.n_users:,} users has 2 interactions up to time {moment} and 1 after it: a split by "
            "time needs one to train on, one to validate and one to test"
        )
    used = early.copy()
    used[(data.offsets[:-1] + before)[evaluated]] = True             # the first one after T
    offsets = np.concatenate([[0], np.cumsum(before + evaluated)])
    return _last_two_apart(replace(data, flat=data.flat[used], offsets=offsets, times=data.times[used]), evaluated)


SPLITS: dict[str, Callable[[Interactions], Split]] = {"leave-one-out": leave_one_out, "time": by_time}


def _last_two_apart(data: Interactions, long: np.ndarray) -> Split:
    """The last item of each user in `long` (n_users,), boolean, is for testing, the one before for validation."""
    ends = data.offsets[1:]
    keep = np.ones(len(data), dtype=bool)
    keep[ends[long] - 1] = keep[ends[long] - 2] = False
    offsets = np.concatenate([[0], np.cumsum(data.lengths - 2 * long)])
    train = Interactions(data.flat[keep], offsets, data.items, data.users)
    valid = np.where(long, data.flat[ends - 2], 0)
    test = np.where(long, data.flat[ends - 1], 0)
    return Split(data, train, valid, test)
