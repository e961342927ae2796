"""Fossil: item similarity and a Markov chain of several orders, with weights for each user (He & McAuley 2016)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backend import Array, get_xp
from ...data import Batch
from ...ops import embedding
from ...options import option
from .factors import FactorNetwork, FactorRecommender, UserTable
from .fism import SimilarityOptions, prefix_sums, prefix_sums_backward


@dataclass(kw_only=True)
class FossilOptions(SimilarityOptions):
    order: int = option(3, "last items with a separate weight", at_least=1, at_most=100_000)


@dataclass(kw_only=True)
class FossilNetwork(FossilOptions, UserTable, FactorNetwork):
    """score(i) = <n^-α Σⱼ yⱼ + Σₖ (ηₖ + ηᵘₖ) y₋ₖ, q_i> + b_i, with y₋ₖ the k-th item from the end, k = 1 .. order.

    p["users"] has the ηᵘ (n_users + 1, order), p["weights"] the η (order,).
    """

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64: both tables of items glorot-uniform, the rest 0."""
        return {
            "items": self.init_items(rng, self.dim),
            "output": self.init_output(rng, self.dim),
            "users": self.init_users(self.order),
            "weights": np.zeros(self.order),
        }

    def read(self, p: Any, batch: Batch) -> Array:
        y = embedding(batch.ids, p["items"])
        weights = p["weights"] + embedding(batch.users, p["users"])                       # (B, order)
        x = prefix_sums(y, self.alpha)
        for k in range(min(self.order, y.shape[1])):
            x[:, k:] += weights[:, k, None, None] * y[:, : y.shape[1] - k]                 # k positions earlier
        return x

    def read_backward(self, p: Any, dx: Array, batch: Batch) -> tuple[Array, dict[str, Any]]:
        """The mirror of `read`: each product gives a gradient to the weight and to the item."""
        xp, y = get_xp(dx), embedding(batch.ids, p["items"])
        weights = p["weights"] + embedding(batch.users, p["users"])
        dy, dweights = prefix_sums_backward(dx, self.alpha), xp.zeros_like(weights)
        for k in range(min(self.order, y.shape[1])):
            earlier = slice(0, y.shape[1] - k)
            dy[:, earlier] += weights[:, k, None, None] * dx[:, k:]
            dweights[:, k] = xp.sum(dx[:, k:] * y[:, earlier], axis=(1, 2))
        users = self.user_rows_backward(p, dweights[:, None, :], batch)
        return dy, {"users": users, "weights": xp.sum(dweights, axis=0)}


@dataclass(eq=False, kw_only=True)
class Fossil(FossilOptions, FactorRecommender):
    """Item similarity to the history, and to the last items with weights for each user.

        model = Fossil(order=3).fit(sequences)
        ids, scores = model.recommend([12, 55, 3], k=10, users=["anna"])

    Without `users`, or for an unknown user, only the common weights are used. As in FISM here, the first sum is over
    the items so far, not over all of a user's other items.
    """

    name = "fossil"
    Network = FossilNetwork
