"""Splits: for each evaluated user one item is for testing, the one before it for validation, the others for training.

    leave-one-out    the test item is the user's last (Kang & McAuley 2018); training has later items of other users
    time             the test item is the user's first after one moment for all; training has nothing later.
                     time:0.8 and time:2023-12-31 name the moment, by a share of the interactions or a date
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from ..random import Stream, generator
from .distinct import distinct
from .filters import moment_of
from .interactions import Interactions, offsets_of


@dataclass(frozen=True)
class Split:
    """The data, and the targets of each user. Users with targets 0 have too few interactions to be evaluated."""

    data: Interactions        # all that the split uses: the last item of each evaluated user is the test item
    train: Interactions       # all but the last two of each evaluated user
    valid: np.ndarray         # (n_users,) item numbers, 0 = none
    test: np.ndarray          # (n_users,) item numbers, 0 = none
    left_out: dict[str, int] = field(default_factory=dict)      # why users are not evaluated: reason -> users

    @property
    def evaluated(self) -> np.ndarray:
        """The users, counted from 0, that have targets."""
        return np.flatnonzero(self.test)

    @property
    def tested(self) -> str:
        """The tested part, in words, with the targets that a user had before, or that no model can predict."""
        new = int(np.sum(~np.isin(self.test[self.evaluated], self.train.flat)))
        counts = {"on an item that they had before": self.repeats, "on an item that training lacks": new}
        which = [f"{count:,} of them {what}" for what, count in counts.items() if count]
        return f"{len(self.evaluated):,} users" + (f" ({', '.join(which)})" if which else "")

    @property
    def untested(self) -> str:
        """The users that are not evaluated, in words; "" if all are."""
        reasons = [f"{count:,} {why}" for why, count in self.left_out.items() if count]
        return f"; not tested: {', '.join(reasons)}" if reasons else ""

    @property
    def unseen(self) -> np.ndarray:
        """(evaluated users,): how many items the user never had, the rivals of the test item in full ranking."""
        data = self.data
        pairs = distinct(data.owner * (data.n_items + 1) + data.flat)
        had = np.bincount(pairs // (data.n_items + 1), minlength=data.n_users)
        unseen: np.ndarray = (data.n_items - had)[self.evaluated]
        return unseen

    @property
    def repeats(self) -> int:
        """The number of users who had the test item before: it is then ranked among items that they never had."""
        owner = self.data.owner
        times = np.bincount(owner[self.data.flat == self.test[owner]], minlength=self.data.n_users)
        return int(np.sum(times[self.evaluated] > 1))

    def histories(self, users: np.ndarray, stage: str) -> list[np.ndarray]:
        """Each user's items before the target of `stage` ("valid" or "test")."""
        drop = {"valid": 2, "test": 1}[stage]
        return [self.data.sequence(u)[:-drop] for u in users.tolist()]

    def sample(self, count: int, seed: int = 0) -> Split:
        """The same data, with targets for `count` users only, drawn by `seed`. Raises ValueError for too few users."""
        users = self.evaluated
        if count > len(users):
            raise ValueError(f"{count:,} users were requested, but only {len(users):,} have an item to validate on")
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
    return _last_two_apart(data, long, {"have fewer than 3 interactions": int(np.sum(~long))})


def by_time(data: Interactions, share: float = 0.9, date: str | None = None) -> Split:
    """Split at the moment T up to which `share` of all interactions take place, or just before `date`.

    Users with an interaction after T, and two or more up to T, are evaluated: the first one after T is the test item,
    the last one up to T the validation item. Everything else up to T, of all users, is for training; later items are
    not used. Of the splits that Gusak et al. (2025, Time to Split) compare, this is the one with a global moment, the
    first item as target and the last training item for validation; the share is theirs. No model knows an item that
    first occurs after T.

    Raises ValueError for data without times, an invalid share or date, and where no user has interactions on
    both sides.
    """
    if data.times is None:
        raise ValueError("a split by time needs times, and these interactions have none; leave-one-out needs none")
    if not 0 < share < 1:
        raise ValueError(f"split time is at {share}, expected a share between 0 and 1, or a date such as 2023-12-31")
    if date is not None:
        moment = moment_of("split time", date, data.times)
        early = data.times < moment
    else:
        moment = np.sort(data.times)[max(0, math.ceil(share * len(data)) - 1)]
        early = data.times <= moment
    before = np.bincount(data.owner[early], minlength=data.n_users)
    evaluated = (before >= 2) & (data.lengths > before)
    if not np.any(evaluated):
        raise ValueError(
            f"none of the {data.n_users:,} users has 2 interactions up to time {moment} and 1 after it: a split by "
            "time needs one to train on, one to validate and one to test"
        )
    used = early.copy()
    used[(data.offsets[:-1] + before)[evaluated]] = True             # the first one after T
    offsets = offsets_of(before + evaluated)
    later = data.lengths > before
    left_out = {"have nothing after the moment": int(np.sum(~later)),
                "have fewer than 2 interactions before it": int(np.sum(later & ~evaluated))}  # fmt: skip
    used_data = replace(data, flat=data.flat[used], offsets=offsets, times=data.times[used])
    return _last_two_apart(used_data, evaluated, left_out)


class _Splits(dict[str, Callable[[Interactions], Split]]):
    """The splits by name; `time:0.8` and `time:2023-12-31` are `by_time` at this share or date."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and len(name) > 5 and name.startswith("time:"))

    def __missing__(self, name: str) -> Callable[[Interactions], Split]:
        if name not in self:
            raise KeyError(name)
        at = name.removeprefix("time:")
        try:
            return partial(by_time, share=float(at))
        except ValueError:
            return partial(by_time, date=at)


SPLITS = _Splits({"leave-one-out": leave_one_out, "time": by_time})


def _last_two_apart(data: Interactions, long: np.ndarray, left_out: dict[str, int]) -> Split:
    """For users in `long` (n_users,), boolean, the last item is for testing, the one before for validation."""
    ends = data.offsets[1:]
    keep = np.ones(len(data), dtype=bool)
    keep[ends[long] - 1] = keep[ends[long] - 2] = False
    train = Interactions(data.flat[keep], offsets_of(data.lengths - 2 * long), data.items, data.users)
    valid, test = (np.where(long, data.flat[ends - place], 0) for place in (2, 1))
    return Split(data, train, valid, test, left_out)
