"""Leave-one-out: each user's last item is for testing, the one before for validation, the rest for training."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..random import Stream, generator
from .interactions import Interactions


@dataclass(frozen=True)
class Split:
    """Users with fewer than three interactions are only trained on; their targets are 0."""

    data: Interactions        # everything
    train: Interactions       # all but the last two of each evaluated user
    valid: np.ndarray         # (n_users,) item numbers, 0 = none
    test: np.ndarray          # (n_users,) item numbers, 0 = none

    @property
    def evaluated(self) -> np.ndarray:
        """The users, counted from 0, that have targets."""
        return np.flatnonzero(self.test)

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
    """Split by position, as Kang & McAuley (2018) do. Raises ValueError where nobody has three interactions."""
    long = data.lengths >= 3
    if not np.any(long):
        raise ValueError(
            f"none of the {data.n_users:,} users has 3 interactions: leave-one-out needs one to train on, "
            "one to validate and one to test"
        )
    ends = data.offsets[1:]
    keep = np.ones(len(data), dtype=bool)
    keep[ends[long] - 1] = keep[ends[long] - 2] = False
    offsets = np.concatenate([[0], np.cumsum(data.lengths - 2 * long)])
    train = Interactions(data.flat[keep], offsets, data.items, data.users)
    valid = np.where(long, data.flat[ends - 2], 0)
    test = np.where(long, data.flat[ends - 1], 0)
    return Split(data, train, valid, test)
