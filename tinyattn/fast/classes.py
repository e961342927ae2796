"""Cross-entropy over many classes in tiles (Wijmans et al. 2024): no array has all logits."""

from typing import Any, NamedTuple

from ..backend import Array, get_xp, is_numpy
from ..ops import tiled_cross_entropy, tiled_cross_entropy_backward

# Logits of more bytes than this are made in tiles: benchmarks/results/classes.md has the cost. A device has more room.
MANY, MANY_ON_DEVICE = 16 << 20, 1 << 30


class TiledLoss(NamedTuple):
    L: Array
    targets: Array
    weights: Array
    smoothing: float

    def backward(self, dloss: float, h: Array, E: Array, into: Array | None = None) -> tuple[Array, Array]:
        """-> dh, and dE, which is written into `into`, if given."""
        return tiled_cross_entropy_backward(dloss, h, E, *self, into=into)


def table_loss(h: Array, E: Array, targets: Array, weight: Array, label_smoothing: float) -> Any:
    """`table_loss` of models/cross_entropy.py, where the logits are many."""
    most = MANY if is_numpy(get_xp(h)) else MANY_ON_DEVICE
    if targets.size * len(E) * h.dtype.itemsize <= most:
        return NotImplemented
    loss, L = tiled_cross_entropy(h, E, targets, weight, label_smoothing)
    return loss, TiledLoss(L, targets, weight, label_smoothing)
