"""FISM: a user is the sum of the items of the history (Kabbur, Ning & Karypis 2013). It knows no order."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backend import Array, get_xp
from ...data import Batch
from ...ops import embedding
from ...options import option
from ..next_item import SequenceOptions
from .factors import FactorNetwork, FactorRecommender


@dataclass(kw_only=True)
class SimilarityOptions(SequenceOptions):
    alpha: float = option(
        0.5, "the sum over n items is divided by n to the power of alpha: 0 leaves the sum, 1 is the mean", at_least=0,
        at_most=1,
    )  # fmt: skip


@dataclass(kw_only=True)
class FISMNetwork(SimilarityOptions, FactorNetwork):
    """score(i) = <n^-α Σⱼ yⱼ, q_i> + b_i, with the sum over the n items of the history so far."""

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        return {"items": self.init_items(rng, self.dim), "output": self.init_output(rng, self.dim)}

    def read(self, p: Any, batch: Batch) -> Array:
        return prefix_sums(embedding(batch.ids, p["items"]), self.alpha)

    def read_backward(self, p: Any, dx: Array, batch: Batch) -> tuple[Array, dict[str, Any]]:
        return prefix_sums_backward(dx, self.alpha), {}


def prefix_sums(y: Array, alpha: float) -> Array:
    """x[t] = n^-α Σⱼ y[j] over the n = t + 1 positions j <= t. Shapes: y (B, L, d) -> (B, L, d)."""
    return get_xp(y).cumsum(y, axis=1) * _shares(y, alpha)


def prefix_sums_backward(dx: Array, alpha: float) -> Array:
    """dy[j] = Σₜ n^-α dx[t] over the positions t >= j, whose sums have y[j]. Shapes: dx (B, L, d) -> (B, L, d)."""
    shared = dx * _shares(dx, alpha)
    return get_xp(dx).cumsum(shared[:, ::-1], axis=1)[:, ::-1]


def _shares(like: Array, alpha: float) -> Array:
    """n^-α for n = 1 .. L: (L, 1)."""
    return get_xp(like).arange(1, like.shape[1] + 1, dtype=like.dtype)[:, None] ** -alpha


@dataclass(eq=False, kw_only=True)
class FISM(SimilarityOptions, FactorRecommender):
    """Learned item similarity of low rank, summed over the items of the history.

        model = FISM(alpha=0.5).fit(sequences)
        ids, scores = model.recommend([12, 55, 3], k=10)

    The paper sums over all of a user's other items; here, to predict the next item, over the items so far. The paper's
    user biases, which change no ranking, are left out.
    """

    name = "fism"
    Network = FISMNetwork
