"""Splits: for each evaluated user one item is for testing, the one before it for validation, the others for training.

    leave-one-out    the test item is the user's last (Kang & McAuley 2018); training has later items of other users
    time             the test item is the user's first after one moment for all; training has nothing later.
                     time:0.8 and time:2023-12-31 name the moment, by a share of the interactions or a date;
                     time:0.8..0.9 and time:2023-11-01..2023-12-01 are windows, and later interactions are not used
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from numbers import Real

import numpy as np

from ..random import Stream, generator
from .dates import unit_of
from .distinct import distinct
from .filters import moment_of
from .interactions import Interactions, offsets_of

TARGETS, REPEATS = ("first", "all"), ("drop", "keep")


@dataclass(frozen=True)
class Split:
    """The data, and the targets of each user. Users with targets 0 have too few interactions to be evaluated."""

    data: Interactions        # all that the split uses: the last item of each evaluated user is the test item
    train: Interactions       # all but the last two of each evaluated user
    valid: np.ndarray         # (n_users,) item numbers, 0 = none
    test: np.ndarray          # (n_users,) item numbers, 0 = none
    left_out: dict[str, int] = field(default_factory=dict)      # why users are not evaluated: reason -> users
    window: tuple[np.ndarray, np.ndarray] | None = None    # (M,) users, ascending, and (M,) items after the moment
    targets: str = "first"    # the test items: each user's first in the window, or "all"
    repeats: str = "drop"     # are items of the history ranked? "drop" or "keep"

    def measured(self, targets: str = "first", repeats: str = "drop") -> "Split":
        """The same parts, with these targets and candidates. Raises ValueError for all targets of leave-one-out."""
        for name, value, choices in (("targets", targets, TARGETS), ("repeats", repeats, REPEATS)):
            if value not in choices:
                raise ValueError(f"{name} is {value!r}, expected one of {', '.join(choices)}")
        if targets == "all" and self.window is None:
            raise ValueError("targets are all, and leave-one-out holds out one item for each user: use a split by time")
        return replace(self, targets=targets, repeats=repeats)

    @property
    def evaluated(self) -> np.ndarray:
        """The users, counted from 0, that have targets."""
        return np.flatnonzero(self.test)

    @property
    def tested(self) -> str:
        """The tested part, in words, with counts of targets that the user had before or that no model can predict."""
        _, items = self.relevant
        new = int(np.sum(~np.isin(items, self.train.flat)))
        if self.targets == "all":
            lost = f", {new:,} of them unknown to training" if new else ""
            return f"{len(self.evaluated):,} users on {len(items):,} items of the window{lost}"
        counts = {"on an item that they had before": self.repeated, "on an item that training lacks": new}
        which = [f"{count:,} of them {what}" for what, count in counts.items() if count]
        return f"{len(self.evaluated):,} users" + (f" ({', '.join(which)})" if which else "")

    @property
    def relevant(self) -> tuple[np.ndarray, np.ndarray]:
        """(M,) evaluated users, counted from 0, ascending, and (M,) their different test items."""
        users = self.evaluated
        if self.targets == "first" or self.window is None:
            return users, self.test[users]
        owner, items = self.window
        some, size = self.test[owner] > 0, self.data.n_items + 1         # a sample has fewer users
        return np.divmod(distinct(owner[some] * size + items[some]), size)

    @property
    def untested(self) -> str:
        """The users that are not evaluated, in words; "" if all are."""
        reasons = [f"{count:,} {why}" for why, count in self.left_out.items() if count]
        return f"; not tested: {', '.join(reasons)}" if reasons else ""

    @property
    def candidates(self) -> np.ndarray:
        """(evaluated users,): how many items full ranking ranks: the targets, and those that the user never had."""
        data, size = self.data, self.data.n_items + 1
        users, items = self.relevant
        had = np.setdiff1d(distinct(data.owner * size + data.flat), users * size + items, assume_unique=True)
        dropped = np.bincount(had // size, minlength=data.n_users) * (self.repeats == "drop")
        return (data.n_items - dropped)[self.evaluated]

    @property
    def repeated(self) -> int:
        """The number of users who had the test item before: it is then ranked among items that they never had."""
        owner = self.data.owner
        times = np.bincount(owner[self.data.flat == self.test[owner]], minlength=self.data.n_users)
        return int(np.sum(times[self.evaluated] > 1))

    def histories(self, users: np.ndarray, stage: str) -> list[np.ndarray]:
        """Each user's items before the target of `stage` ("valid" or "test")."""
        drop = {"valid": 2, "test": 1}[stage]
        return [self.data.sequence(u)[:-drop] for u in users.tolist()]

    def sample(self, count: int, seed: int = 0) -> "Split":
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


def by_time(data: Interactions, at: float | str = 0.9, until: float | str = 1.0) -> Split:
    """Split at the moment T up to which the share `at` of all interactions take place, or just before a date.

    Users with an interaction after T, and two or more up to T, are evaluated: the first one after T is the test item,
    the last one up to T the validation item. Everything else up to T, of all users, is for training. Interactions after
    T, up to the share or date `until`, are the window; all of its items may be targets (`Split.measured`). No model
    knows an item that first occurs after T.

    Gusak et al. (2025, Time to Split) compare such splits; this is the one with a global moment, the first item as
    target and the last training item for validation. The default share is theirs, too.

    Raises ValueError for data without times, an invalid share or date, an empty window, and where no user has
    interactions on both sides.
    """
    moment, early = _up_to(data, at)
    assert data.times is not None
    end, within = _up_to(data, until) if until != 1 else (np.inf, np.ones(len(data), dtype=bool))
    if not np.any(within & ~early):
        ends = ("ends", end) if until != 1 else ("the last interaction is", np.max(data.times))
        raise ValueError(f"the window of split time has no interactions: it begins after {_shown(moment, data.times)}, "
                         f"and {ends[0]} at {_shown(ends[1], data.times)}")  # fmt: skip
    before, later = (np.bincount(data.owner[mask], minlength=data.n_users) for mask in (early, within & ~early))
    evaluated = (before >= 2) & (later > 0)
    if not np.any(evaluated):
        raise ValueError(
            f"none of the {data.n_users:,} users has 2 interactions up to time {_shown(moment, data.times)} and 1 "
            "after it: a split by time needs one to train on, one to validate and one to test"
        )
    used = early.copy()
    used[(data.offsets[:-1] + before)[evaluated]] = True             # the first one after T
    offsets = offsets_of(before + evaluated)
    place = "after the moment" if until == 1 else "in the window"
    left_out = {f"have nothing {place}": int(np.sum(later == 0)),
                "have fewer than 2 interactions before it": int(np.sum((later > 0) & ~evaluated))}  # fmt: skip
    used_data = replace(data, flat=data.flat[used], offsets=offsets, times=data.times[used])
    tested = within & ~early & evaluated[data.owner]
    split = _last_two_apart(used_data, evaluated, left_out)
    return replace(split, window=(data.owner[tested], data.flat[tested]))


def _up_to(data: Interactions, at: float | str) -> tuple[float, np.ndarray]:
    """-> a moment, and which interactions take place up to it: a share of all, or those before a date."""
    if data.times is None:
        raise ValueError("a split by time needs times, and these interactions have none; leave-one-out needs none")
    if isinstance(at, str):
        moment = moment_of("split time", at, data.times)
        return moment, data.times < moment
    if not isinstance(at, Real) or not 0 < at < 1:
        raise ValueError(f"split time is at {at}, expected a share between 0 and 1, or a date such as 2023-12-31")
    moment = np.sort(data.times)[max(0, math.ceil(at * len(data)) - 1)]
    return moment, data.times <= moment


def folds(data: Interactions, name: str, count: int) -> list[str]:
    """The names of `count` splits by time, whose windows divide that of split `name`, the oldest first.

    Windows of a split at a share have equal shares of the interactions, those of a split at a date are equally long.
    Each model is trained on all that precedes its window. Raises ValueError for leave-one-out, and for a count below 2
    or above the number of interactions.
    """
    refuse_folds(name, count)
    if count > len(data):
        raise ValueError(f"folds is {count:,}, and there are {len(data):,} interactions: expected at most as many")
    begin, until = _window(name)
    if isinstance(begin, float) and isinstance(until, float):
        edges = [f"{edge:.6g}" for edge in np.linspace(begin, until, count + 1)]
    else:
        first = _up_to(data, begin)[0]
        assert data.times is not None
        last = np.max(data.times) if until == 1 else _up_to(data, until)[0]
        edges = [_shown(edge, data.times) for edge in np.linspace(first, last, count + 1)]
    if until == 1:
        edges[-1] = ""                                   # a date would leave out the last interactions
    return [f"time:{begin}..{end}".removesuffix("..") for begin, end in itertools.pairwise(edges)]


def _shown(moment: float, times: np.ndarray) -> str:
    """A moment as a date where the times are dates, else as a number."""
    unit = unit_of(times)
    return f"{moment:.16g}" if unit is None else f"{datetime.fromtimestamp(moment / unit, UTC):%Y-%m-%dT%H:%M:%S}"


def refuse_folds(name: str, count: int) -> None:
    if count < 2:
        raise ValueError(f"folds is {count}, expected at least 2")
    if not name.startswith("time"):
        raise ValueError(f"folds are windows of time, and {name} holds out the last items of users: use --split time")


def _window(name: str) -> tuple[float | str, float | str]:
    """The moments that the name of a split by time has."""
    begin, _, end = name.removeprefix("time").removeprefix(":").partition("..")
    return _share_or_date(begin or "0.9"), _share_or_date(end or "1")


def _share_or_date(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


class _Splits(dict[str, Callable[[Interactions], Split]]):
    """The splits by name; `time:0.8`, `time:2023-12-31` and `time:0.8..0.9` are `by_time` with these moments."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and len(name) > 5 and name.startswith("time:"))

    def __missing__(self, name: str) -> Callable[[Interactions], Split]:
        if name not in self:
            raise KeyError(name)
        at, until = _window(name)
        return partial(by_time, at=at, until=until)


SPLITS = _Splits({"leave-one-out": leave_one_out, "time": by_time})


def _last_two_apart(data: Interactions, long: np.ndarray, left_out: dict[str, int]) -> Split:
    """For users where `long` (n_users,) is True, the last item is for testing, the one before it for validation."""
    ends = data.offsets[1:]
    keep = np.ones(len(data), dtype=bool)
    keep[ends[long] - 1] = keep[ends[long] - 2] = False
    times = None if data.times is None else data.times[keep]
    train = Interactions(data.flat[keep], offsets_of(data.lengths - 2 * long), data.items, data.users, times=times)
    valid, test = (np.where(long, data.flat[ends - place], 0) for place in (2, 1))
    return Split(data, train, valid, test, left_out)
