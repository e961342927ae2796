"""The base of mechanisms, from the heads' queries, keys and values to their outputs."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from ...backend import Array, get_xp
from ...ops import Mask, attention, relative_values
from ...options import Checked
from ..growing import GrowingRows
from ..heads import for_each_head, in_groups


class Attended(Protocol):
    """The cache of a mechanism, which gives the attention weights."""

    @property
    def weights(self) -> Array:
        """(..., h, n, m): rows sum to 1 (but see `sums_to_one`), or to 0 where nothing is allowed."""


class KeysValues(NamedTuple):
    """The cache of past tokens that later ones may look at. Shapes: (..., g, m, d), g heads of keys and values."""

    k: GrowingRows
    v: GrowingRows

    @classmethod
    def with_new(cls, past: "KeysValues | None", k: Array, v: Array) -> "KeysValues":
        """`past` (None at the beginning) with the new keys and values appended."""
        kept = cls(GrowingRows.none(k), GrowingRows.none(v)) if past is None else past
        return cls(kept.k.append(k), kept.v.append(v))


class Mechanism(Checked):
    """A new mechanism is one file in this folder, a frozen dataclass of its options, and one line in MECHANISMS.

    `takes` names its optional inputs, beside q, k and v:

        "causal", "window", "lengths", "allowed"    these fields of a `Mask`
        "dropout"                                   dropout of its weights
        "bias"                                      a bias of the scores, (h, n, m) or (..., h, n, m)
        "relative_values"                           a value added for every distance, (2 K + 1, d); and other terms
                                                    of position schemes (`Position.gives`)

    `has_scores`: are its weights those of full attention under the mask `as_full`, softmax(q kᵀ / √d + bias)? Then a
    refinement may work on these scores (refined.py). `reads_all`: may a token depend on one that its mask hides?
    `needs_lengths`: does it need the lengths even under a causal mask? `linear_memory`: does the memory of a
    training step grow linearly with n? `sums_to_one`: do the weights of each query with allowed keys sum to 1?
    `looks_at_kept`: does the newest token look at all past tokens that `extend` keeps?

    Other inputs are refused by name. Shapes: q (..., h, n, d), k, v (..., h, m, d) -> out (..., h, n, d).
    """

    name: ClassVar[str]
    takes: ClassVar[frozenset[str]]
    has_scores: ClassVar[bool] = False
    reads_all: ClassVar[bool] = False
    needs_lengths: ClassVar[bool] = False
    linear_memory: ClassVar[bool] = True
    sums_to_one: ClassVar[bool] = True
    looks_at_kept: ClassVar[bool] = False

    def init(self, rng: np.random.Generator, heads: int, width: int) -> dict[str, Any]:
        """Its parameters, for heads of this width."""
        return {}

    def forward(
        self, p: Any, q: Array, k: Array, v: Array, mask: Mask, terms: dict[str, Array], rate: float, rng: Any
    ) -> tuple[Array, Attended]:
        """-> out, cache. `terms` come from the position scheme, `rate` and `rng` are for dropout of the weights."""
        raise NotImplementedError

    def backward(self, p: Any, dout: Array, cache: Any) -> tuple[Array, Array, Array, dict[str, Array], dict[str, Any]]:
        """-> dq, dk, dv, the gradients of `terms`, grads shaped like p."""
        raise NotImplementedError

    def as_full(self, mask: Mask, heads: int, queries: Array, m: int) -> Mask | None:
        """The mask under which full attention of these queries gives the same output; None if there is none.

        Shapes: queries, their positions: (1, n, 1) for all, (B, 1, 1, 1) for one per sequence; m keys.
        """
        return None

    @property
    def extends(self) -> bool:
        """Does it work with a cache of earlier tokens? By default, if it overrides `as_full`."""
        return type(self).as_full is not Mechanism.as_full

    keeps: int | None = None         # how many newest past tokens `extend` keeps; None: all

    def extend(
        self, q: Array, k: Array, v: Array, past: Any, terms: Callable[[Array, Array], dict[str, Array]]
    ) -> tuple[Array, Any]:
        """Causal attention of tokens that follow those of the cache `past`, for inference: -> out, the new cache.

        `terms(q, k)` are the position scheme's terms for the last n of m tokens. This default is for mechanisms whose
        mask `as_full` depends only on places. Shapes: q (B, h, n, d), k, v (B, g, n, d) -> out (B, h, n, d).
        Raises ValueError for a mechanism without cache.
        """
        if not self.extends:
            raise ValueError(f"mechanism {self.name} cannot continue from past tokens: it has no cache")
        kept, heads = KeysValues.with_new(past, k, v), q.shape[-3]
        placed = terms(q, kept.k.rows)
        if past is None:
            every = for_each_head(k, heads), for_each_head(v, heads)
            out, _ = self.forward(None, q, *every, Mask(causal=True), placed, 0.0, None)
        else:
            out = self._looked_up(q, kept.k.rows, kept.v.rows, placed)
        return out, KeysValues(self.kept(kept.k), self.kept(kept.v))

    def kept(self, rows: GrowingRows) -> GrowingRows:
        """The past tokens' rows that later tokens may look at."""
        return rows.newest(self.keeps)

    def _looked_up(self, q: Array, k: Array, v: Array, terms: dict[str, Array]) -> Array:
        """Attention of the last n of m tokens. Shapes: q (B, h, n, d), k, v (B, g, m, d) -> out (B, h, n, d)."""
        xp, (_, heads, n, _), (_, g, m, _) = get_xp(q), q.shape, k.shape
        queries = xp.arange(m - n, m)[None, :, None]
        mask = self.as_full(Mask(causal=True), heads, queries, m)
        assert mask is not None                                 # as it `extends`
        allowed = None if n == 1 and mask.only_causal else mask.rows(queries, m, q)      # the last token looks at all
        grouped = (in_groups(x, heads, g) for x in (q, allowed, terms.get("bias")))
        out, weights = attention_in_groups(k, v, *grouped)
        out, weights = out.reshape(q.shape), weights.reshape(*q.shape[:-1], m)
        if "relative_values" in terms:                          # read backwards, as in `Shaw.terms`
            backwards = weights[..., ::-1, ::-1], terms["relative_values"][..., ::-1, :]
            out += relative_values(*backwards)[..., ::-1, :]
        return out

    def init_projections(self, rng: np.random.Generator, dim: int, kv_dim: int, bias: bool) -> dict[str, Any]:
        """Parameters of additional projections, beside queries, keys and values, by name."""
        return {}

    def project(
        self, p: Any, x: Array, memory: Array, mask: Mask, heads: int, kv_heads: int, position: Any,
        slots: Array | None,
    ) -> tuple[dict[str, Array], Any]:  # fmt: skip
        """-> the heads of these projections by name, which `forward` gets among its terms; and a cache."""
        return {}, None

    def project_backward(self, p: Any, dterms: dict[str, Array], cache: Any, dx: Array, dmemory: Array) -> Any:
        """-> grads of the projections; the gradients of the tokens are added to dx and dmemory."""
        return {}

    def refuse_length(self, longest: int) -> None:
        """Raise ValueError for options that make no sense for sequences of at most `longest` tokens."""

    def refuse(self, mask: Mask, terms: dict[str, Array], dropout: bool) -> None:
        """Raise ValueError for what this mechanism does not take."""
        fields = {name for name, value in vars(mask).items() if value is not None and value is not False}
        for name in sorted((fields | set(terms) | ({"dropout"} if dropout else set())) - self.takes):
            raise ValueError(f"mechanism {self.name} does not take {IN_WORDS.get(name, name)}")


def attention_in_groups(k: Array, v: Array, q: Array, allowed: Array | None, bias: Array | None) -> tuple[Array, Array]:
    """`attention` of heads in groups that share keys and values, without copies of these.

    Shapes: k, v (B, g, m, d), q (B, g, r, n, d) -> out (B, g, r, n, d), weights (B, g, r, n, m).
    """
    keys, values = (get_xp(x).broadcast_to(x[:, :, None], (*q.shape[:3], *x.shape[2:])) for x in (k, v))
    return attention(q, keys, values, allowed, bias)


IN_WORDS = {
    "causal": "a causal mask",
    "window": "a mask with a window",
    "lengths": "a mask with lengths",
    "allowed": "an array as its mask",
    "dropout": "dropout of its weights",
    "bias": "a bias of its scores",
    "relative_values": "values that depend on the distance",
}
