"""The base of position schemes, by which attention depends on the places of tokens."""

from typing import Any, ClassVar

import numpy as np

from ...backend import Array
from ...options import Checked


class Position(Checked):
    """A new scheme is one file in this folder, a frozen dataclass of its options, and one line in POSITIONS.

    It may act in two places, with parameters for each. `slots` (B, n) are the tokens' places, 0 to maxlen - 1.

        at the tokens    once, before the first block, if a scheme overrides `add` (`at_tokens` is then True): learned
                         embeddings, sinusoids
        at the heads     in every block, if it overrides `enter` (`at_heads` is then True): it turns queries and keys
                         (rotary embeddings), or passes terms to the mechanism by the names in `gives`: "bias",
                         (h, n, n) or (B, h, n, n), is added to scores, "relative_values" to values. A mechanism that
                         does not take them refuses the scheme. Schemes that act only here depend only on distances.

    A scheme that `takes_times` gets the times of the tokens, (B, n) in seconds, in the place of `slots`.
    """

    name: ClassVar[str]
    at_tokens: ClassVar[bool] = False
    at_heads: ClassVar[bool] = False
    gives: ClassVar[frozenset[str]] = frozenset()
    takes_times: ClassVar[bool] = False
    extends: ClassVar[bool] = True           # does it work with a cache of earlier tokens?

    def __init_subclass__(cls) -> None:
        cls.at_tokens = cls.add is not Position.add
        cls.at_heads = cls.enter is not Position.enter
        cls.extends = not cls.at_heads or cls.turn is not Position.turn or cls.terms is not Position.terms

    def both_ways(self) -> "Position":
        """The scheme for tokens that look at later ones as well; by default the same."""
        return self

    def init(self, rng: np.random.Generator, maxlen: int, dim: int) -> Any:
        """Parameters for `add`: an array, a tree, or None for none."""
        return None

    def add(self, p: Any, x: Array, slots: Array) -> Array:
        """Tokens with their positions added. Shapes: x (B, n, D) -> y (B, n, D)."""
        return x

    def add_backward(self, p: Any, dy: Array, slots: Array) -> Any:
        """-> grads shaped like p. The gradient of x is dy, as y - x does not depend on x."""
        return None

    def refuse_width(self, width: int) -> None:
        """Raise ValueError for heads of a width that does not suit the scheme."""

    def init_heads(self, rng: np.random.Generator, heads: int, width: int) -> dict[str, Any]:
        """Parameters for `enter`, of one block."""
        return {}

    def enter(self, p: Any, q: Array, k: Array, slots: Array) -> tuple[Array, Array, dict[str, Array], Any]:
        """-> q, k, the mechanism's terms by name, cache. Shapes: q, k (B, h, n, d)."""
        return q, k, {}, None

    def turn(self, p: Any, x: Array, first: int) -> Array:
        """The queries or keys of `enter`, for tokens after `first` others. Shapes: x (B, h or g, n, d).

        A scheme at the heads that overrides neither this nor `terms` has no cache.
        """
        return x

    def terms(self, p: Any, q: Array, k: Array) -> dict[str, Array]:
        """The terms of `enter`, for queries of the last n of m tokens. Shapes: q (B, h, n, d), k (B, g, m, d)."""
        return {}

    def enter_backward(
        self, p: Any, dq: Array, dk: Array, dterms: dict[str, Array], cache: Any
    ) -> tuple[Array, Array, dict[str, Any]]:
        """-> dq, dk, grads shaped like p."""
        return dq, dk, {}
