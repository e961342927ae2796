"""A sliding window: only the pairs within it are computed, in time and memory of n · window."""

from typing import Any, NamedTuple

from ..backend import Array
from ..layers import dropout_mask
from ..ops import Mask, window_attention, window_attention_backward, window_weights
from ..ops.attention.window_attention import distance_slots


class WindowCache(NamedTuple):
    q: Array
    k: Array
    v: Array
    banded: Array               # (..., h, chunks, c, width), as `window_attention` gives them
    causal: bool
    keep: Array | None          # (..., h, n, S): dropout of the weights, by query and distance
    rate: float
    window: int

    @property
    def weights(self) -> Array:
        """(..., h, n, n), before dropout: 0 outside of the window."""
        return window_weights(self.banded, self.q.shape[-2])

    def backward(self, dout: Array) -> tuple[Array, Array, Array]:
        """-> dq, dk, dv."""
        q, k, v, banded, causal, keep, rate, window = self
        return window_attention_backward(dout, q, k, v, banded, window, causal, keep, rate)


def window(
    mechanism: Any, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
) -> tuple[Array, WindowCache]:
    """`Window.forward`."""
    n, width = q.shape[-2], mechanism.window
    keep = dropout_mask(q, (*q.shape[:-1], distance_slots(n, width, mask.causal)), rate, rng)
    out, banded = window_attention(q, k, v, width, mask.causal, mask.keys(n, like=k), keep, rate)
    return out, WindowCache(q, k, v, banded, mask.causal, keep, rate, width)
