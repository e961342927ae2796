"""Cross-entropy, the loss of models that choose among classes: items, tokens, characters or labels."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..backend import Array, get_xp
from ..forms import replaceable
from ..ops import cross_entropy, cross_entropy_backward, smoothed_cross_entropy, smoothed_cross_entropy_backward
from ..ops.shapes import rows
from ..options import Checked, option


@dataclass(kw_only=True)
class Smoothed:
    """The option of the loss. Losses that `measure` reports are never smoothed."""

    label_smoothing: float = option(
        0.0, "the share of the target's probability that is spread over all classes (Vaswani et al. 2017: 0.1)",
        at_least=0, below=1, group="training",
    )  # fmt: skip


@replaceable
def smoothed_loss(logits: Array, targets: Array, weights: Array, label_smoothing: float) -> tuple[Array, Any]:
    """The weighted mean in nats, and the cache. Shapes: logits (..., V), targets and weights (...)."""
    inputs = logits, targets, weights
    if not label_smoothing:                  # the plain op reads the logits fewer times
        return cross_entropy(*inputs), (cross_entropy_backward, inputs)
    smoothed = *inputs, label_smoothing
    return smoothed_cross_entropy(*smoothed), (smoothed_cross_entropy_backward, smoothed)


def smoothed_loss_backward(dloss: float, saved: Any) -> Array:
    """-> dlogits (..., V)."""
    backward, inputs = saved
    return backward(dloss, *inputs)


@replaceable
def table_loss(h: Array, E: Array, targets: Array, weight: Array, label_smoothing: float) -> tuple[Array, Any]:
    """`smoothed_loss` of the logits h Eᵀ, and the cache. Shapes: h (..., D), E (V, D), targets and weight (...)."""
    logits = rows(h) @ E.T                                               # (N, D) @ (D, V) -> (N, V)
    targets, weight = targets.reshape(-1), weight.reshape(-1)
    return smoothed_loss(logits, targets, weight, label_smoothing)


def table_loss_backward(
    dloss: float, h: Array, E: Array, saved: Any, into: Array | None = None
) -> tuple[Array, Array]:
    """logits = h Eᵀ is a linear map: -> dh = dlogits E and dE = dlogitsᵀ h, which is written into `into`, if given."""
    if hasattr(saved, "backward"):                       # of the faster form
        return saved.backward(dloss, h, E, into)
    dlogits = smoothed_loss_backward(dloss, saved)                       # (N, V)
    return (dlogits @ E).reshape(h.shape), get_xp(h).matmul(dlogits.T, rows(h), out=into)


@dataclass(kw_only=True)
class ClassNetwork(Smoothed, Checked):
    """Base of networks that score classes. A subclass has `forward`, `backward` and perhaps `scores_and_targets`."""

    forward: ClassVar[Callable[..., Any]]    # (p, what it reads, rng=None) -> scores, cache

    def scores_and_targets(self, p: Any, batch: Any, rng: Any = None) -> tuple[Array, Array, Array, Any]:
        """Scores (..., V), the targets and their weights (...), in the scores' dtype, and the cache of `forward`.

        This is for batches of text; others override it.
        """
        scores, cache = self.forward(p, batch.ids, rng)
        return scores, batch.targets, batch.weight.astype(scores.dtype), cache

    def backward(self, p: Any, dscores: Array, cache: Any) -> Any:
        """The mirror of `forward`: -> grads shaped like p."""
        raise NotImplementedError

    def measure(self, p: Any, batch: Any) -> dict[str, tuple[float, float]]:
        """(sum, count) of `accuracy`, 1 where the target scores highest, and of the loss without smoothing."""
        scores, targets, weight, _ = self.scores_and_targets(p, batch)
        xp = get_xp(scores)
        total = float(xp.sum(weight))
        right = float(xp.sum(weight * (xp.argmax(scores, axis=-1) == targets)))
        return {"accuracy": (right, total), "loss": (float(cross_entropy(scores, targets, weight)) * total, total)}

    def loss(self, p: Any, batch: Any, rng: Any = None) -> tuple[Any, Any]:
        """The mean cross-entropy of the targets, in nats, smoothed by `label_smoothing`; and the cache."""
        scores, targets, weight, cache = self.scores_and_targets(p, batch, rng)
        loss, saved = smoothed_loss(scores, targets, weight, self.label_smoothing)
        return loss, (saved, cache)

    def loss_backward(self, p: Any, dloss: float, cache: Any) -> Any:
        """Gradients shaped like p."""
        saved, remembered = cache
        return self.backward(p, smoothed_loss_backward(dloss, saved), remembered)
