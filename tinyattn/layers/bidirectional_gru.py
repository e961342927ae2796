"""A GRU that reads forward and another that reads backward (Schuster & Paliwal 1997; Bahdanau et al. 2015, 3.2)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..backend import Array, get_xp
from .mixers.gru import GRU, GRUCache


class BidirectionalGRUCache(NamedTuple):
    """What `BidirectionalGRU.backward` needs: the order of the second reading, and the caches of both GRUs."""

    turn: Array                      # (B, m): what `turned` returned
    there: GRUCache                  # of the forward reading
    back: GRUCache                   # of the backward reading


@dataclass(frozen=True)
class BidirectionalGRU:
    """y_j = [f_j, b_j]: the states of one GRU that has read up to token j, and of one that has read back to it.

    Padding is on the right, so the second reading begins at each sequence's last token.
    """

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        """Two GRUs as wide as the tokens."""
        return {"forward": GRU().init(rng, dim), "backward": GRU().init(rng, dim)}

    def forward(self, p: Any, x: Array, lengths: Array) -> tuple[Array, BidirectionalGRUCache]:
        """Reads the first `lengths` tokens of x. Shapes: x (B, m, D), lengths (B,) -> y (B, m, 2 D), cache."""
        turn = turned(x, lengths)
        f, there = GRU().run(p["forward"], x)
        b, back = GRU().run(p["backward"], _rows(x, turn))
        return get_xp(x).concatenate([f, _rows(b, turn)], axis=-1), BidirectionalGRUCache(turn, there, back)

    def backward(self, p: Any, dy: Array, cache: BidirectionalGRUCache) -> tuple[Array, dict[str, Any]]:
        """-> dx, grads. `turned` is its own inverse."""
        D = dy.shape[-1] // 2
        dx, grads = GRU().run_backward(p["forward"], dy[..., :D], cache.there)
        more, others = GRU().run_backward(p["backward"], _rows(dy[..., D:], cache.turn), cache.back)
        return dx + _rows(more, cache.turn), {"forward": grads, "backward": others}


def turned(x: Array, lengths: Array) -> Array:
    """(B, m): indices that reverse each sequence and leave its padding in place.

    With length 3 of 5 they are 2, 1, 0, 3, 4.
    """
    xp = get_xp(x)
    at, last = xp.arange(x.shape[1]), lengths[:, None] - 1
    return xp.where(at <= last, last - at, at)


def _rows(x: Array, at: Array) -> Array:
    """Tokens in another order. Shapes: x (B, m, D), at (B, m) -> (B, m, D)."""
    return get_xp(x, at).take_along_axis(x, at[..., None], axis=1)
