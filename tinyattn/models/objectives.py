"""What a sequence model is trained for: scores are dot products of hidden states with the (tied) item table.

An objective is `forward(h, E, batch) -> loss, saved` and `backward(dloss, h, E, batch, saved) -> dh, scored`. The table
may also be read as input, and its gradient is only complete with that reading: `scored.with_reading(ids, dx)` adds it,
and `scored.alone()` is the gradient of a table that is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..backend import Array, get_xp
from ..data import Batch
from ..ops import (
    bce_with_logits,
    bce_with_logits_backward,
    cross_entropy,
    cross_entropy_backward,
    embedding,
    sum_rows,
)
from ..ops.shapes import row_sum, rows
from ..tree import add_to


class ScoredRows(NamedTuple):
    """The gradient of the item table where few items were scored: `values[..., :]` belongs to item `ids[...]`."""

    ids: Array      # (N,)
    values: Array   # (N, D)
    E: Array          # (items + 1, D)

    def alone(self) -> Any:
        """-> Rows, or on a device the table."""
        return sum_rows(self.ids, self.values, self.E)

    def with_reading(self, ids: Array, dx: Array) -> Any:
        """One concatenation of both uses of the table, summed once. -> Rows, or on a device the table."""
        xp = get_xp(self.values, dx)
        both = xp.concatenate([self.ids, ids.reshape(-1)])
        return sum_rows(both, xp.concatenate([self.values, rows(dx)]), self.E)


class ScoredTable(NamedTuple):
    """The gradient of the item table where every item was scored."""

    dE: Array         # (items + 1, D), our own

    def alone(self) -> Array:
        """-> (items + 1, D)."""
        return self.dE

    def with_reading(self, ids: Array, dx: Array) -> Any:
        """-> (items + 1, D), both uses of the table added."""
        add_to(self.dE, sum_rows(ids, dx, self.dE))
        return self.dE


def bce(h: Array, E: Array, batch: Batch) -> tuple[Any, Any]:
    """-log σ(h·E[target]) - log(1 - σ(h·E[negative])), mean over real positions (Kang & McAuley 2018, III-E)."""
    xp = get_xp(h)
    ids = xp.stack([batch.targets, batch.negatives])                     # (2, B, L)
    e = embedding(ids, E)                                                # (2, B, L, D)
    z = row_sum(h * e)[..., 0]
    targets = xp.zeros_like(z)
    targets[0] = 1
    weight = xp.broadcast_to(batch.weight, z.shape).astype(z.dtype)
    loss = 2 * bce_with_logits(z, targets, weight)                       # the sum of two means, over the same weights
    return loss, (ids, e, z, targets, weight)


def bce_backward(dloss: float, h: Array, E: Array, batch: Batch, saved: Any) -> tuple[Array, ScoredRows]:
    """z = h · e gives dh = dz e and de = dz h; h met the target and the negative, so its two gradients are added."""
    ids, e, *given = saved
    dz = bce_with_logits_backward(2 * dloss, *given)[..., None]          # (2, B, L, 1)
    dh = dz[0] * e[0]
    dh += dz[1] * e[1]
    return dh, ScoredRows(ids.reshape(-1), rows(dz * h), E)


def bpr(h: Array, E: Array, batch: Batch) -> tuple[Any, Any]:
    """-log σ(h·E[target] - h·E[negative]), mean over real positions (Rendle et al. 2009, BPR-Opt)."""
    ids = get_xp(h).stack([batch.targets, batch.negatives])              # (2, B, L)
    e = embedding(ids, E)                                                # (2, B, L, D)
    difference = e[0] - e[1]
    z = row_sum(h * difference)[..., 0]
    weight = batch.weight.astype(z.dtype)
    saved = z, get_xp(h).ones_like(z), weight                            # that the target wins is the event
    return bce_with_logits(*saved), (ids, difference, *saved)


def bpr_backward(dloss: float, h: Array, E: Array, batch: Batch, saved: Any) -> tuple[Array, ScoredRows]:
    """z = h · (e⁺ - e⁻) gives dh = dz (e⁺ - e⁻), de⁺ = dz h and de⁻ = -dz h."""
    ids, difference, *given = saved
    dz = bce_with_logits_backward(dloss, *given)[..., None]              # (B, L, 1)
    de = rows(dz * h)
    return dz * difference, ScoredRows(ids.reshape(-1), get_xp(h).concatenate([de, -de]), E)


def ce(h: Array, E: Array, batch: Batch) -> tuple[Any, Any]:
    """-log softmax(h Eᵀ)[target] over the items 1.., mean over real positions (Klenitskiy & Vasilev 2023)."""
    logits = rows(h) @ E[1:].T                                           # (N, D) @ (D, items) -> (N, items)
    targets = get_xp(h).maximum(batch.targets.reshape(-1) - 1, 0)        # padding has weight 0: any id will do
    weight = batch.weight.reshape(-1).astype(h.dtype)
    return cross_entropy(logits, targets, weight), (logits, targets, weight)


def ce_backward(dloss: float, h: Array, E: Array, batch: Batch, saved: Any) -> tuple[Array, ScoredTable]:
    """logits = h Eᵀ is a linear map: dh = dlogits E and dE = dlogitsᵀ h. Padding, row 0, was no candidate."""
    dlogits = cross_entropy_backward(dloss, *saved)                      # (N, items)
    dE = get_xp(h).zeros_like(E)
    dE[1:] = dlogits.T @ rows(h)                                         # (items, N) @ (N, D)
    return (dlogits @ E[1:]).reshape(h.shape), ScoredTable(dE)


class Objective(NamedTuple):
    """A way to train on next items: a new one is two functions and one line in OBJECTIVES."""

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    negatives: bool      # does it need sampled negatives?


OBJECTIVES = {
    "bce": Objective(bce, bce_backward, negatives=True),
    "bpr": Objective(bpr, bpr_backward, negatives=True),
    "ce": Objective(ce, ce_backward, negatives=False),
}
