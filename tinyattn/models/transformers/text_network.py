"""What the networks of text share: they are asked for tokens, and their loss is the cross-entropy."""

from __future__ import annotations

from typing import Any

from ...backend import get_xp
from ...data import TextBatch
from ...ops import cross_entropy, cross_entropy_backward


class TextNetwork:
    """A subclass has `forward(p, ids, rng) -> scores, cache` and `backward(p, dscores, cache) -> grads`."""

    forward: Any
    backward: Any

    def loss(self, p: Any, batch: TextBatch, rng: Any = None) -> tuple[Any, Any]:
        """The mean cross-entropy of the tokens that are asked for, in nats, and what `loss_backward` needs."""
        scores, cache = self.forward(p, batch.ids, rng)
        weight = batch.weight.astype(scores.dtype)
        return cross_entropy(scores, batch.targets, weight), (scores, batch.targets, weight, cache)

    def loss_backward(self, p: Any, dloss: float, cache: Any) -> dict[str, Any]:
        """Gradients shaped like p."""
        scores, targets, weight, remembered = cache
        return self.backward(p, cross_entropy_backward(dloss, scores, targets, weight), remembered)

    def measure(self, p: Any, batch: TextBatch) -> dict[str, tuple[float, float]]:
        """(sum, how many) of the loss."""
        total = float(get_xp(batch.weight).sum(batch.weight))
        return {"loss": (float(self.loss(p, batch)[0]) * total, total)}
