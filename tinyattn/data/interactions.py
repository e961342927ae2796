"""Who used what, in which order: one flat array and where each user's part of it begins."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .vocabulary import Vocabulary, integers_if_all


@dataclass(frozen=True)
class Interactions:
    """All users' sequences, oldest item first. Items are numbers 1..n_items; `items.ids` has the file's ids."""

    flat: np.ndarray          # (N,) item numbers, user after user
    offsets: np.ndarray       # (n_users + 1,): user u (from 0) owns flat[offsets[u]:offsets[u + 1]]
    items: Vocabulary
    users: Vocabulary

    @property
    def n_items(self) -> int:
        return len(self.items)

    @property
    def n_users(self) -> int:
        return len(self.offsets) - 1

    def __len__(self) -> int:
        return len(self.flat)

    def sequence(self, u: int) -> np.ndarray:
        """The item numbers of user u, counted from 0, oldest first. A view."""
        return self.flat[self.offsets[u] : self.offsets[u + 1]]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def fingerprint(self) -> str:
        """A digest of everything: the same data, however it was stored, has the same one."""
        digest = hashlib.sha256()
        for part in (self.flat.astype(np.int64), self.offsets.astype(np.int64), self.items.ids, self.users.ids):
            digest.update(str(part.dtype.kind).encode())
            digest.update("\n".join(map(str, part.tolist())).encode() if part.dtype.kind == "U" else part.tobytes())
        return digest.hexdigest()[:16]

    @classmethod
    def from_columns(cls, users: np.ndarray, items: np.ndarray, times: np.ndarray | None = None) -> Interactions:
        """From one row an interaction. Each user's rows keep their order, or are sorted (stably) by `times`."""
        user_ids, user = np.unique(integers_if_all(users), return_inverse=True)
        item_ids, item = np.unique(integers_if_all(items), return_inverse=True)
        order = np.argsort(user, kind="stable") if times is None else np.lexsort((times, user))
        offsets = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=len(user_ids)))])
        flat = (item[order] + 1).astype(np.int32)
        return cls(flat, offsets, Vocabulary(item_ids, "item"), Vocabulary(user_ids, "user"))

    @classmethod
    def from_sequences(cls, sequences: Iterable[Sequence[Any]]) -> Interactions:
        """From one sequence of item ids a user, oldest first. Users are numbered 1, 2, 3, ...

        Raises ValueError where there is no item at all, or ids are neither integers nor strings.
        """
        arrays = [np.asarray(s).reshape(-1) for s in sequences]
        arrays = [a if a.size else a.astype(np.int64) for a in arrays]
        if not sum(a.size for a in arrays):
            raise ValueError("no interactions: expected at least one non-empty sequence of item ids")
        kinds = {a.dtype.kind for a in arrays if a.size}
        if not (kinds <= {"i", "u"} or kinds == {"U"}):
            raise ValueError("item ids must be all integers or all strings")
        joined = np.concatenate([a for a in arrays if a.size])
        item_ids, item = np.unique(joined, return_inverse=True)
        offsets = np.concatenate([[0], np.cumsum([a.size for a in arrays])])
        users = Vocabulary(np.arange(1, len(arrays) + 1), "user")
        return cls((item + 1).astype(np.int32), offsets, Vocabulary(item_ids, "item"), users)
