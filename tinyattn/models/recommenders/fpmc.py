"""FPMC: matrix factorisation and a factorised Markov chain, added (Rendle, Freudenthaler & Schmidt-Thieme 2010)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backend import Array, get_xp
from ...data import Batch
from ...ops import embedding
from ..next_item import SequenceOptions
from .factors import FactorNetwork, FactorRecommender, UserTable


@dataclass(kw_only=True)
class FPMCNetwork(UserTable, FactorNetwork):
    """score(i) = <UI_u, IU_i> + <LI_last, IL_i> = <[UI_u; LI_last], [IU_i; IL_i]>: tables users, items and output."""

    biased = False

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        return {
            "items": self.init_items(rng, self.dim),
            "output": self.init_output(rng, 2 * self.dim),
            "users": self.init_users(self.dim),
        }

    def read(self, p: Any, batch: Batch) -> Array:
        """x (B, L, 2 d)."""
        user, last = self.user_rows(p, batch, batch.ids.shape[1]), embedding(batch.ids, p["items"])
        return get_xp(last).concatenate([user, last], axis=-1)

    def read_backward(self, p: Any, dx: Array, batch: Batch) -> tuple[Array, dict[str, Any]]:
        return dx[..., self.dim :], {"users": self.user_rows_backward(p, dx[..., : self.dim], batch)}


@dataclass(eq=False, kw_only=True)
class FPMC(SequenceOptions, FactorRecommender):
    """Matrix factorisation of users and items, plus a factorised Markov chain from the last item.

        model = FPMC(dim=32).fit(sequences)
        ids, scores = model.recommend([12, 55, 3], k=10, users=["anna"])

    Without `users`, or for an unknown user, it is the factorised Markov chain alone. `dim` is the width of each of the
    two parts. The paper trains on baskets; here a basket is one item.
    """

    name = "fpmc"
    Network = FPMCNetwork
