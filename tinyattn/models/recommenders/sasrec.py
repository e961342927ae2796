"""SASRec: self-attentive sequential recommendation (Kang & McAuley 2018).

A history of items goes through causal Transformer blocks; at each position the result is compared with every
item's embedding, and the next item should score highest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...data import Batch
from ...forms import replaceable
from ...layers import (
    BLOCK_FORMS,
    FEED_FORWARDS,
    MECHANISMS,
    MIXERS,
    NORMS,
    POSITIONS,
    REFINEMENTS,
    Block,
    BlockCache,
    Norm,
    Past,
    Position,
    Stack,
    dropout_mask,
)
from ...layers.block import ABOUT_BLOCK_FORMS
from ...layers.mechanisms import refined
from ...layers.rows import table_gradient
from ...ops import Mask, dropout, dropout_backward, embedding
from ...options import make_parts, option, part_options
from ..mixing import with_parts
from ..neural import NeuralRecommender
from ..next_item import SEES_TARGETS, NextItemNetwork, SequenceOptions, last_position

PARTS: dict[str, Any] = {
    "mechanism": MECHANISMS, "position": POSITIONS, "refine": REFINEMENTS, "mixer": MIXERS,
}  # fmt: skip
PADDINGS = ("hidden", "blank", "tokens")
PartOptions: Any = part_options(**PARTS)      # what an entry of these tables declares, `window` say


@dataclass(kw_only=True)
class SASRecOptions(PartOptions, SequenceOptions):
    """The paper's form is the default. Where its released code differs, an option says so."""

    blocks: int = option(2, "number of blocks", at_least=0, at_most=1000)
    mixer: str = option(
        "attention", "what lets an item take from those before it: attention, or a network with a state", choices=MIXERS
    )  # fmt: skip
    heads: int = option(1, "attention heads a block; must divide dim", at_least=1)
    kv_heads: int | None = option(
        None, "heads of keys and values, which the attention heads share: 1 is multi-query, another divisor of heads "
        "grouped-query attention (default: as many as heads)", at_least=1,
    )  # fmt: skip
    block_form: str = option("pre", ABOUT_BLOCK_FORMS, choices=BLOCK_FORMS)
    mechanism: str = option("full", "what attention computes", choices=MECHANISMS)
    refine: str = option(
        "none", "transforms the scores before their softmax (AWRSR); value-literal, as the paper prints it, sees "
        "the items to come while it trains: to teach, and not to use", choices=REFINEMENTS,
    )  # fmt: skip
    position: str = option("learned", "how tokens know their place", choices=POSITIONS)
    norm: str = option("layer", "LayerNorm, or RMSNorm, which does not centre", choices=NORMS)
    feed_forward: str = option("relu", "the feed-forward network: its activation, or SwiGLU", choices=FEED_FORWARDS)
    feed_forward_width: int | None = option(
        None, "its inner width, as a multiple of dim (default: 1, the paper's; of SwiGLU, two thirds)",
        at_least=1, at_most=1000,
    )  # fmt: skip
    emb_scale: bool | None = option(
        None, "multiply item embeddings by the root of dim (default: in the original code's form)"
    )
    qkv_bias: bool | None = option(
        None, "biases in query, key and value projections (default: in the original code's form)"
    )
    output_projection: bool = option(False, "a projection after the heads are joined, as in the Transformer")
    last_norm: bool = option(True, "a norm after the last block (the original code; pre-LN needs it)")
    tied: bool = option(True, "one table of item embeddings, for input and for scores; or one for each")
    user_embedding: bool = option(False, "add an embedding of the user; paper, section III-D")
    eps: float = option(1e-8, "added to what every norm divides by, before the root (the original code's)", above=0)
    last_eps: float | None = option(None, "that of the norm after the last block (default: eps)", above=0)
    padding: str = option(
        "hidden", "how a short history is filled up to maxlen, before its first item: hidden from attention; or, as in "
        "ports of the code to PyTorch, seen by it: as zeros before every block (blank), or as tokens like others",
        choices=PADDINGS,
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Unless they are set, these options are those of the released code in its form."""
        released = self.block_form == "sasrec"
        self.emb_scale = released if self.emb_scale is None else self.emb_scale
        if self.qkv_bias is None and self.mixer == "attention":       # of another mixer it stays unset
            self.qkv_bias = released
        super().__post_init__()
        make_parts(self, **PARTS)     # what their options come to be stands in config.json


class NetworkCache(NamedTuple):
    """What one forward remembers; `cache.blocks[i].attention.weights` shows who looks at whom."""

    batch: Batch
    keep: Array | None              # (B, L, D): dropout on the input
    blocks: list[BlockCache]
    norm: Any                       # the norm's, or None without a last norm


@dataclass(kw_only=True)
class SASRecNetwork(SASRecOptions, NextItemNetwork):
    """The pure network: init, forward, loss, loss_backward, score. No state; parameters come and go as trees."""

    paddings: ClassVar[tuple[str, ...]] = ("hidden",)           # those that it computes

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.padding not in self.paddings:
            raise ValueError(f"padding is {self.padding!r}, expected {' or '.join(self.paddings)} in this class")
        self._parts[0].refuse_length(self.maxlen)
        if not (self.blocks or self._parts[2].identity):
            raise ValueError(f"refine is {self.refine}, of scores of attention, and with blocks 0 there are none")
        self.block                   # making the parts checks them  # noqa: B018

    @property
    def scored(self) -> str:  # type: ignore[override]
        """The name of the table that makes the scores."""
        return "items" if self.tied else "output"

    @cached_property
    def _parts(self) -> list[Any]:
        return make_parts(self, **PARTS)

    @cached_property
    def block(self) -> Block:
        """Every block has the same parts, and parameters of its own."""
        mechanism, position, refinement, mixer = self._parts
        mixer = with_parts(
            mixer, self, position, mechanism=refined(mechanism, refinement, self.maxlen), bias=self.qkv_bias,
            output=self.output_projection,
        )  # fmt: skip
        hidden = None if self.feed_forward_width is None else self.feed_forward_width * self.dim
        norm, feed_forward = NORMS[self.norm](self.eps), FEED_FORWARDS[self.feed_forward](hidden)
        return Block(mixer, self.block_form, norm, feed_forward, self.dropout)

    @property
    def stack(self) -> Stack:
        return Stack([self.block] * self.blocks)

    @property
    def causal(self) -> bool:  # type: ignore[override]
        """No, where a refinement reads all rows of scores."""
        return not self.block.mixer.reads_all

    @property
    def sees_targets(self) -> str:  # type: ignore[override]
        return "" if self.causal else SEES_TARGETS.format(refine=self.refine)

    @property
    def scheme(self) -> Position:
        """The position scheme."""
        scheme: Position = self._parts[1]
        return scheme

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64: glorot-uniform weights and embeddings, zero biases; items row 0 is 0."""
        p: dict[str, Any] = {"items": self.init_items(rng, self.dim)}
        positions = self.scheme.init(rng, self.maxlen, self.dim)
        if positions is not None:
            p["positions"] = positions
        if not self.tied:
            p["output"] = self.init_items(rng, self.dim)
        p["blocks"] = self.stack.init(rng, self.dim)
        if self.last_norm:
            p["norm"] = self.block.norm.init(self.dim)
        if self.user_embedding:
            p["users"] = np.zeros((self.n_users + 1, self.dim))     # 0: a user of whom nothing has been learned
        return p

    def forward(self, p: Any, batch: Batch, rng: Any = None) -> tuple[Array, NetworkCache]:
        """h (B, L, D): what each position knows of the future from its past; and the cache.

        Padding stands on the right, where the causal mask keeps every real position from seeing it.
        """
        x = self._read(p, batch)
        keep = dropout_mask(x, x.shape, self.dropout, rng)
        x = dropout(x, keep, self.dropout)
        x, caches = self.stack.forward(p["blocks"], x, rng=rng, **self._context(batch))
        last = None
        if self.last_norm:
            x, last = self.norm_after.forward(p["norm"], x)
        if self.user_embedding:
            x = x + embedding(batch.users, p["users"])[:, None, :]
        return x, NetworkCache(batch, keep, caches, last)

    def _context(self, batch: Batch) -> dict[str, Any]:
        """The arguments of all blocks."""
        return {"mask": self._mask(batch), "slots": batch.slots, "before": self.before(batch)}

    def before(self, batch: Batch) -> Callable[[Array], Array] | None:
        """A map of the tokens before each block, or None."""
        return None

    @cached_property
    def norm_after(self) -> Norm:
        """The norm after the last block."""
        return NORMS[self.norm](self.last_eps or self.eps)

    def _mask(self, batch: Batch) -> Mask:
        """Causal, which hides the padding after a history, too; with its lengths where the mixer needs them."""
        return Mask(causal=True, lengths=last_position(batch) + 1 if self.block.mixer.needs_lengths else None)

    def _last(self, batch: Batch) -> Array:
        """(B,): the place of each history's last item."""
        return last_position(batch)

    def _read(self, p: Any, batch: Batch) -> Array:
        """(B, L, D): items and positions, the input of the first block before dropout."""
        return self.scheme.add(p.get("positions"), self._items(p, batch.ids), batch.slots)

    def _read_backward(self, p: Any, dx: Array, batch: Batch) -> tuple[Array, dict[str, Any]]:
        """-> the gradient of the items as read, and that of the positions, if they learn."""
        grads = {"positions": self.scheme.add_backward(p["positions"], dx, batch.slots)} if "positions" in p else {}
        return dx * math.sqrt(self.dim) if self.emb_scale else dx, grads

    def _items(self, p: Any, ids: Array) -> Array:
        """(B, L, D): items as they are read, wherever they stand."""
        x = embedding(ids, p["items"])
        if self.emb_scale:
            x *= math.sqrt(self.dim)
        return x

    def backward(self, p: Any, dh: Array, cache: NetworkCache) -> tuple[Array, dict[str, Any]]:
        """The mirror of `forward`: -> dx (B, L, D), the gradient of the item embeddings as read, and grads.

        `grads` lacks "items": the loss reads the same table again, and sums both readings once.
        """
        grads: dict[str, Any] = {}
        if self.user_embedding:
            grads["users"] = table_gradient(cache.batch.users, get_xp(dh).sum(dh, axis=1), p["users"])
        if self.last_norm:
            dh, grads["norm"] = self.norm_after.backward(p["norm"], dh, cache.norm)
        before = self.before(cache.batch)
        dh, grads["blocks"] = self.stack.backward(p["blocks"], dh, cache.blocks, before=before)
        dx, placed = self._read_backward(p, dropout_backward(dh, cache.keep, self.dropout), cache.batch)
        return dx, grads | placed

    def rows_read(self, batch: Batch) -> dict[str, Array]:
        """The rows of large tables that `loss` reads, and so all that have a gradient: dotted name -> ids."""
        return super().rows_read(batch) | ({"users": batch.users} if self.user_embedding else {})

    def last_state(self, p: Any, batch: Batch) -> Array:
        """(B, D): what `forward` gives for the last position of each history, and nothing else."""
        h = self.stack.at(p["blocks"], self._read(p, batch), self._last(batch), **self._context(batch))
        if self.last_norm:
            h, _ = self.norm_after.forward(p["norm"], h)
        if self.user_embedding:
            h = h + embedding(batch.users, p["users"])[:, None, :]
        return h[:, 0]

    @property
    def extends(self) -> bool:
        """Where positions act at the heads, or are none: then distances, or the order, matter, and stay.

        Learned positions and sinusoids are added to the items and count from the newest (`Batch.slots`): with every new
        item all others stand somewhere else, and no state of theirs is what it was.
        """
        return not self.scheme.at_tokens and self.block.mixer.extends and not self.user_embedding

    def extend(self, p: Any, ids: Array, past: Past | None = None) -> tuple[Array, Past]:
        x, kept = self.stack.extend(p["blocks"], self._items(p, ids), past)
        return self.norm_after.forward(p["norm"], x)[0] if self.last_norm else x, kept

    @replaceable
    def extending(self, p: Any) -> Callable[..., tuple[Array, Past]]:
        return partial(self.extend, p)

    @property
    def is_plain(self) -> bool:
        return self.last_norm and self.norm_after == self.block.norm and not self.user_embedding

    @property
    def weights_are(self) -> str:  # type: ignore[override]
        """A remark on weights that are no shares."""
        mechanism = getattr(self.block.mixer, "mechanism", None)
        if mechanism is None or mechanism.sums_to_one:
            return ""
        return f"those of mechanism {mechanism.name}, which do not sum to 1"

    @property
    def attends(self) -> bool:  # type: ignore[override]
        """Not without blocks, nor with another mixer."""
        return self.blocks > 0 and self.block.mixer.has_weights

    def attention(self, cache: NetworkCache) -> list[Array]:
        """Who looked at whom in each block, (B, h, L, L) each."""
        return [block.attention.weights for block in cache.blocks]


@dataclass(eq=False, kw_only=True)
class SASRec(SASRecOptions, NeuralRecommender):
    """A causal Transformer over a user's history, as the paper has it unless an option says otherwise.

        model = SASRec(epochs=20).fit(sequences)
        ids, scores = model.recommend([12, 55, 3], k=10)

    `block_form="sasrec"` is the released code's model: its block, and unless they are set, its scaled embeddings
    and its biases too. Every option is checked when the object is made: ValueError names the value and what
    was expected.
    """

    name = "sasrec"
    Network = SASRecNetwork

    def make_network(self, n_items: int, n_users: int) -> SASRecNetwork:
        kind = NETWORKS[self.padding]
        return kind(n_items=n_items, n_users=n_users, objective=self.loss, **self.options_for(kind))


NETWORKS: dict[str, type[SASRecNetwork]] = {"hidden": SASRecNetwork}       # by padding; ported.py has the others
