"""Matrix factorisation with Bayesian personalised ranking, BPR-MF (Rendle et al. 2009). It knows no order."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backend import Array
from ...data import Batch
from ..next_item import SequenceOptions
from .factors import FactorNetwork, FactorRecommender, UserTable


@dataclass(kw_only=True)
class MFNetwork(UserTable, FactorNetwork):
    """score(i) = <p_u, q_i> + b_i. The history is not read."""

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        return {"output": self.init_output(rng, self.dim), "users": self.init_users(self.dim)}

    def read(self, p: Any, batch: Batch) -> Array:
        """x = p_u (B, L, d), the same at every position."""
        return self.user_rows(p, batch, batch.ids.shape[1])

    def read_backward(self, p: Any, dx: Array, batch: Batch) -> tuple[None, dict[str, Any]]:
        """The mirror of `read`: dp_u is the sum over positions."""
        return None, {"users": self.user_rows_backward(p, dx, batch)}


@dataclass(eq=False, kw_only=True)
class MF(SequenceOptions, FactorRecommender):
    """Users and items as vectors: an item's score is the dot product of both, plus the item's bias.

        model = MF(dim=32).fit(sequences)
        ids, scores = model.recommend([12, 55, 3], k=10, users=["anna"])

    It recommends by the user alone: without `users`, or for an unknown user, by the items' biases. `dropout` acts on
    the user's vector, instead of the paper's L2 penalty.
    """

    name = "mf"
    by_user = True
    Network = MFNetwork
