"""Base of the factorised recommenders: an item's score is the dot product of two vectors.

One is the item's row of the table "output". User and history give the other for each position: x (B, L, D), which is
linear in each table.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...data import Batch
from ...layers import dropped
from ...layers.rows import table_gradient
from ...ops import dropout_backward, embedding
from ...ops.shapes import with_ones
from ...options import with_default
from ...training import Settings
from ..neural import NeuralRecommender
from ..next_item import NextItemNetwork, SequenceOptions


class FactorCache(NamedTuple):
    batch: Batch
    keep: Array | None              # (B, L, D): dropout on x


@dataclass(kw_only=True)
class FactorNetwork(SequenceOptions, NextItemNetwork):
    """score(i) = <x, q_i> + b_i = <[x; 1], [q_i; b_i]>: an item's bias is the last number of its row.

    Without `biased`, score(i) = <x, q_i>. A subclass has `init`, `read` and `read_backward`.
    """

    scored, biased = "output", True

    def init_output(self, rng: np.random.Generator, dim: int) -> np.ndarray:
        """The table of the [q_i; b_i], biases 0."""
        return np.pad(self.init_items(rng, dim), ((0, 0), (0, int(self.biased))))

    def read(self, p: Any, batch: Batch) -> Array:
        """x (B, L, D)."""
        raise NotImplementedError

    def read_backward(self, p: Any, dx: Array, batch: Batch) -> tuple[Array | None, dict[str, Any]]:
        """The mirror of `read`: what `backward` returns."""
        raise NotImplementedError

    def forward(self, p: Any, batch: Batch, rng: Any = None) -> tuple[Array, FactorCache]:
        """h (B, L, D), or (B, L, D + 1): x after dropout, and a 1 for the bias; and the cache."""
        x, keep = dropped(self.read(p, batch), self.dropout, rng)
        return with_ones(x) if self.biased else x, FactorCache(batch, keep)

    def backward(self, p: Any, dh: Array, cache: FactorCache) -> tuple[Array | None, dict[str, Any]]:
        """The mirror of `forward`: -> the gradient of p["items"] as read, or None, and the other grads."""
        dx = dh[..., :-1] if self.biased else dh                     # the 1 is a constant
        return self.read_backward(p, dropout_backward(dx, cache.keep, self.dropout), cache.batch)


@dataclass(kw_only=True)
class UserTable(NextItemNetwork):
    """Base of networks with a row for every user in p["users"]. Row 0, the unknown user, stays 0."""

    def init_users(self, dim: int) -> np.ndarray:
        """(n_users + 1, dim) zeros."""
        return np.zeros((self.n_users + 1, dim))

    def user_rows(self, p: Any, batch: Batch, length: int) -> Array:
        """(B, length, d): the user's row at every position, read-only."""
        rows = embedding(batch.users, p["users"])
        return get_xp(rows).broadcast_to(rows[:, None, :], (len(rows), length, rows.shape[1]))

    def user_rows_backward(self, p: Any, dy: Array, batch: Batch) -> Any:
        """The gradient of p["users"], summed over positions. -> Rows, or on a device the table."""
        return table_gradient(batch.users, get_xp(dy).sum(dy, axis=1), p["users"])

    def rows_read(self, batch: Batch) -> dict[str, Array]:
        return super().rows_read(batch) | {"users": batch.users}


@dataclass(eq=False, kw_only=True)
class FactorRecommender(NeuralRecommender):
    """Base of the estimators: trained with BPR by default, at a rate that suits linear models."""

    loss: str = with_default("bpr", NeuralRecommender, "loss")
    lr: float = with_default(5e-3, Settings, "lr")
