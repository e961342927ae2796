"""What a mechanism is: all that happens between the heads' queries, keys and values and what they return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from ...backend import Array, get_xp
from ...ops import Mask, attention, relative_values
from ...options import check_options
from ..heads import for_each_head


class Attended(Protocol):
    """The cache of a mechanism: who looks at whom."""

    @property
    def weights(self) -> Array:
        """(..., h, n, m): rows sum to 1, or to 0 where nothing is allowed."""


class KeysValues(NamedTuple):
    """Of past tokens that later ones may still look at. Shapes: (..., g, m, d), g heads of keys and values."""

    k: Array
    v: Array


class Mechanism:
    """A new mechanism is one file in this folder, a frozen dataclass of its options, and one line in MECHANISMS.

    `takes` names what it can work with, beside q, k and v:

        "causal", "window", "lengths", "allowed"    these fields of a `Mask`
        "dropout"                                   dropout of its weights
        "bias"                                      a bias of the scores, (h, n, m) or (..., h, n, m)
        "relative_values"                           for every distance a value more, (2 K + 1, d); and whatever else a
                                                    position scheme may give (`Position.gives`)

    `has_scores`: are its weights those of full attention under the mask `as_full`, softmax(q kᵀ / √d + bias)? Then a
    refinement may work on these scores (refined.py). `reads_all`: may a token be moved by one that its mask hides, so
    that padding has to be told by its lengths?

    What it does not take is refused by name. Shapes: q (..., h, n, d), k, v (..., h, m, d) -> out (..., h, n, d).
    """

    name: ClassVar[str]
    takes: ClassVar[frozenset[str]]
    has_scores: ClassVar[bool] = False
    reads_all: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_options(self)

    def init(self, rng: np.random.Generator, heads: int, width: int) -> dict[str, Any]:
        """Parameters of its own, for heads of this width."""
        return {}

    def forward(
        self, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
    ) -> tuple[Array, Attended]:
        """-> out, cache. `terms` come from the position scheme, `rate` and `rng` are for dropout of the weights."""
        raise NotImplementedError

    def backward(
        self, p: Any, dout: Array, cache: Any
    ) -> tuple[Array, Array, Array, dict[str, Array], dict[str, Any]]:
        """-> dq, dk, dv, the gradients of `terms`, grads shaped like p."""
        raise NotImplementedError

    def as_full(self, mask: Mask, heads: int, queries: Array, m: int) -> Mask | None:
        """The mask under which full attention gives the same, for these queries; None where there is none.

        Shapes: queries, their positions: (1, n, 1) for all, (B, 1, 1, 1) for one a sequence; m keys.
        """
        return None

    keeps: int | None = None         # past tokens that `extend` keeps, the newest; None: all

    def extend(
        self, q: Array, k: Array, v: Array, past: Any, terms: Callable[[Array, Array], dict[str, Array]]
    ) -> tuple[Array, Any]:
        """Causal attention of tokens that follow others, for inference: -> out, what is kept of all of them.

        `past` is what was kept of those before, or None; `terms(q, k)` is what the position scheme gives for the
        queries of the last n of m tokens. This is right for every mechanism that is full attention under a mask
        (`as_full`) that depends on places alone. Shapes: q (B, h, n, d), k, v (B, g, n, d) -> out (B, h, n, d).
        Raises ValueError for a mechanism that cannot.
        """
        xp, (_, heads, n, _) = get_xp(q), q.shape
        if past is not None:
            k, v = (xp.concatenate([old, new], axis=-2) for old, new in zip(past, (k, v), strict=True))
        m = k.shape[-2]
        queries = xp.arange(m - n, m)[None, :, None]
        mask = self.as_full(Mask(causal=True), heads, queries, m)
        if mask is None:
            raise ValueError(f"mechanism {self.name} cannot go on from past tokens: it has no cache")
        keys = for_each_head(k, heads)
        given = terms(q, keys)
        out, weights = attention(q, keys, for_each_head(v, heads), mask.rows(queries, m, q), given.get("bias"))
        if "relative_values" in given:                          # read backwards, as in `Shaw.terms`
            backwards = weights[..., ::-1, ::-1], given["relative_values"][..., ::-1, :]
            out += relative_values(*backwards)[..., ::-1, :]
        first = 0 if self.keeps is None else max(0, m - self.keeps)
        return out, KeysValues(k[..., first:, :], v[..., first:, :])

    @property
    def further(self) -> tuple[str, ...]:
        """Names of a second set of projections, of queries, keys and values, made from the same tokens; or ().

        They are initialised as the first ones are. Their heads come with the terms, under these names, and their
        gradients go back with the gradients of terms. A position scheme turns them as it turns the first ones.
        """
        return ()

    def further_rows(self, n: int, mask: Mask) -> int:
        """How many tokens, the first of n, the further projections are asked for."""
        return n

    def refuse_length(self, longest: int) -> None:
        """Raise ValueError where the options make no sense for sequences of at most so many tokens."""

    def refuse(self, mask: Mask, terms: dict[str, Array], dropout: bool) -> None:
        """Raise ValueError for what this mechanism does not take."""
        given = {name for name, value in vars(mask).items() if value is not None and value is not False}
        for name in sorted((given | set(terms) | ({"dropout"} if dropout else set())) - self.takes):
            raise ValueError(f"mechanism {self.name} does not take {SAID.get(name, name)}")


SAID = {
    "causal": "a causal mask",
    "window": "a mask with a window",
    "lengths": "a mask with lengths",
    "allowed": "an array as its mask",
    "dropout": "dropout of its weights",
    "bias": "a bias of its scores",
    "relative_values": "values that depend on the distance",
}
