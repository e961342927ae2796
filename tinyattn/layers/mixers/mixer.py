"""The base of mixers: attention, and the layers that replace it. They pass information between tokens."""

from typing import Any, ClassVar

import numpy as np

from ...backend import Array
from ...forms import replaceable
from ...ops import Mask
from ...options import Checked
from ..rows import gather_rows


class Mixer(Checked):
    """A new mixer is one file in this folder, a frozen dataclass of its options, and one line in MIXERS.

    `takes_memory`: may keys and values come from other tokens than queries? `takes_dropout`: does it apply dropout at
    `rate`? The forms of the block refuse a mixer that does not take their arguments. `has_weights`: does its cache have
    attention `weights`? `reads_all`: may a token depend on one that its mask hides? `needs_lengths`: does it need the
    lengths even under a causal mask? `keeps_tokens`: does the cache of `extend` grow with the tokens?
    `takes_heads`: does it have the fields `heads`, `position` and `bias`, as attention does?
    """

    name: ClassVar[str]
    takes_memory: ClassVar[bool] = False
    takes_dropout: bool = False
    has_weights: ClassVar[bool] = False
    is_plain: bool = False           # is it full attention, with as many heads of keys as of queries?
    reads_all: bool = False
    needs_lengths: bool = False
    keeps_tokens: ClassVar[bool] = False
    takes_heads: ClassVar[bool] = False

    @property
    def extends(self) -> bool:
        """Does it have an `extend`, which works with a cache of earlier tokens?"""
        return type(self).extend is not Mixer.extend

    def refuse_dim(self, dim: int) -> None:
        """Raise ValueError for a width of tokens that it cannot take."""

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        """Parameters for tokens of this width."""
        raise NotImplementedError

    def forward(
        self,
        p: Any,
        x: Array,
        memory: Array | None = None,
        *,
        mask: Mask | Array | None = None,
        slots: Array | None = None,
        rate: float = 0.0,
        rng: Any = None,
    ) -> tuple[Array, Any]:
        """-> y, cache. Without `memory`, tokens read one another.

        Shapes: x (B, n, D), memory (B, m, D), slots (B, n), the tokens' places -> y (B, n, D).
        """
        raise NotImplementedError

    def backward(self, p: Any, dy: Array, cache: Any) -> tuple[Array, Array | None, dict[str, Any]]:
        """-> dx, dmemory (None without memory), grads shaped like p."""
        raise NotImplementedError

    @replaceable
    def at(
        self, p: Any, x: Array, memory: Array | None, at: Array, *, mask: Mask | Array | None = None,
        slots: Array | None = None,
    ) -> Array:  # fmt: skip
        """Row `at` of each sequence of `forward`'s y, for inference. Shapes: at (B,) -> (B, 1, D).

        This default computes all of y.
        """
        y, _ = self.forward(p, x, memory, mask=mask, slots=slots)
        return gather_rows(y, at)

    def extend(self, p: Any, x: Array, memory: Array | None, past: Any) -> tuple[Array, Any]:
        """Causal `forward` of tokens that follow those of the cache `past`, for inference: -> y, the new cache.

        `past` is None at the beginning, and is not changed. To rounding, y is the last n rows of `forward`'s for all
        tokens. Shapes: x, memory (B, n, D), the same tokens -> y (B, n, D). Raises ValueError if there is no cache.
        """
        raise ValueError(f"mixer {self.name} cannot continue from past tokens: it has no cache")

    def mix(
        self, p: Any, x: Array, memory: Array | None = None, *, at: Array | None = None, rate: float = 0.0,
        rng: Any = None, **context: Any,
    ) -> tuple[Array, Any]:  # fmt: skip
        """`forward`; with `at`, for inference, `self.at` and None as the cache. `context` has mask and slots."""
        if at is None:
            return self.forward(p, x, memory, rate=rate, rng=rng, **context)
        return self.at(p, x, memory, at, **context), None
