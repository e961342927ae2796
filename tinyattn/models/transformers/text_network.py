"""Base of the networks of text, whose classes are tokens."""

from dataclasses import dataclass
from typing import Any

from ...backend import Array
from ...data import TextBatch
from ..cross_entropy import ClassNetwork


@dataclass(kw_only=True)
class TextNetwork(ClassNetwork):
    """A subclass has `forward(p, ids, rng) -> scores, cache` and `backward(p, dscores, cache) -> grads`."""

    def forward(self, p: Any, ids: Array, rng: Any = None) -> tuple[Array, Any]:
        """Scores (B, n, V) and the cache. Shapes: ids (B, n)."""
        raise NotImplementedError

    def scores_and_targets(self, p: Any, batch: TextBatch, rng: Any = None) -> tuple[Array, Array, Array, Any]:
        scores, cache = self.forward(p, batch.ids, rng)
        return scores, batch.targets, batch.weight.astype(scores.dtype), cache

    def measure(self, p: Any, batch: TextBatch) -> dict[str, tuple[float, float]]:
        """(sum, how many) of the loss."""
        return {"loss": super().measure(p, batch)["loss"]}
