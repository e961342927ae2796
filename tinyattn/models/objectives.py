"""What a sequence model is trained for: scores are dot products of hidden states with the (tied) item table.

An objective is `forward(h, E, batch) -> loss, saved` and `backward(dloss, h, E, batch, saved) -> dh, scored`. The table
was also read as input, so its gradient is only complete with that reading: `scored.with_reading(ids, dx)` adds it.
"""

from typing import Any, NamedTuple

from ..backend import get_xp
from ..layers import add_to
from ..ops import (
    bce_with_logits,
    bce_with_logits_backward,
    cross_entropy,
    cross_entropy_backward,
    embedding,
    sum_rows,
)
from ..ops.shapes import rows


class ScoredRows(NamedTuple):
    """The gradient of the item table where few items were scored: `values[..., :]` belongs to item `ids[...]`."""

    ids: Any        # (N,)
    values: Any     # (N, D)
    E: Any          # (items + 1, D)

    def with_reading(self, ids, dx):
        """One concatenation of both uses of the table, summed once. -> Rows, or on a device the table."""
        xp = get_xp(self.values, dx)
        both = xp.concatenate([self.ids, ids.reshape(-1)])
        return sum_rows(both, xp.concatenate([self.values, rows(dx)]), self.E)


class ScoredTable(NamedTuple):
    """The gradient of the item table where every item was scored."""

    dE: Any         # (items + 1, D), our own

    def with_reading(self, ids, dx):
        """-> (items + 1, D), both uses of the table added."""
        add_to(self.dE, sum_rows(ids, dx, self.dE))
        return self.dE


def bce(h, E, batch):
    """-log σ(h·E[target]) - log(1 - σ(h·E[negative])), mean over real positions (Kang & McAuley 2018, III-E)."""
    positive, negative = _dot(h, embedding(batch.targets, E)), _dot(h, embedding(batch.negatives, E))      # (B, L)
    weight = batch.weight.astype(h.dtype)
    ones, zeros = get_xp(h).ones_like(positive), get_xp(h).zeros_like(negative)
    loss = bce_with_logits(positive, ones, weight) + bce_with_logits(negative, zeros, weight)
    return loss, (positive, ones, negative, zeros, weight)


def bce_backward(dloss, h, E, batch, saved):
    """z = h · e gives dh = dz e and de = dz h; h met the target and the negative, so its two gradients are added."""
    positive, ones, negative, zeros, weight = saved
    dpositive = bce_with_logits_backward(dloss, positive, ones, weight)[..., None]                           # (B, L, 1)
    dnegative = bce_with_logits_backward(dloss, negative, zeros, weight)[..., None]
    dh = dpositive * embedding(batch.targets, E) + dnegative * embedding(batch.negatives, E)
    xp = get_xp(h)
    ids = xp.concatenate([batch.targets.reshape(-1), batch.negatives.reshape(-1)])
    return dh, ScoredRows(ids, xp.concatenate([rows(h * dpositive), rows(h * dnegative)]), E)


def _dot(a, b):
    return get_xp(a, b).sum(a * b, axis=-1)


def ce(h, E, batch):
    """-log softmax(h Eᵀ)[target] over the items 1.., mean over real positions (Klenitskiy & Vasilev 2023)."""
    logits = rows(h) @ E[1:].T                                           # (N, D) @ (D, items) -> (N, items)
    targets = get_xp(h).maximum(batch.targets.reshape(-1) - 1, 0)        # padding has weight 0: any id will do
    weight = batch.weight.reshape(-1).astype(h.dtype)
    return cross_entropy(logits, targets, weight), (logits, targets, weight)


def ce_backward(dloss, h, E, batch, saved):
    """logits = h Eᵀ is a linear map: dh = dlogits E and dE = dlogitsᵀ h. Padding, row 0, was no candidate."""
    dlogits = cross_entropy_backward(dloss, *saved)                      # (N, items)
    dE = get_xp(h).zeros_like(E)
    dE[1:] = dlogits.T @ rows(h)                                         # (items, N) @ (N, D)
    return (dlogits @ E[1:]).reshape(h.shape), ScoredTable(dE)


class Objective(NamedTuple):
    """A way to train on next items: a new one is two functions and one line in OBJECTIVES."""

    forward: Any
    backward: Any
    negatives: bool      # does it need sampled negatives?


OBJECTIVES = {
    "bce": Objective(bce, bce_backward, negatives=True),
    "ce": Objective(ce, ce_backward, negatives=False),
}
