"""SASRec: self-attentive sequential recommendation (Kang & McAuley 2018).

A history of items goes through causal Transformer blocks. The state at each position is compared with every item's
embedding, and the next item should score highest.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...data import Batch
from ...layers import FEED_FORWARDS, MECHANISMS, MIXERS, NORMS, REFINEMENTS, Norm, Past, dropped
from ...layers.block import ABOUT_BLOCK_FORMS, BLOCK_FORMS, Block, BlockCache
from ...layers.mechanisms import refined
from ...layers.positions import ITEM_POSITIONS
from ...layers.rows import table_gradient
from ...ops import Mask, dropout_backward, embedding
from ...options import make_parts, option, part_options
from ..mixing import ChosenBlock, refuse_feed_forward, with_parts
from ..neural import NeuralRecommender
from ..next_item import NextItemNetwork, SequenceOptions, last_position

PARTS: dict[str, Any] = {"mechanism": MECHANISMS, "position": ITEM_POSITIONS, "refine": REFINEMENTS, "mixer": MIXERS}
PADDINGS = ("hidden", "blank", "tokens")
PartOptions: Any = part_options(**PARTS)      # the options of these tables' entries, such as `window`


@dataclass(kw_only=True)
class SASRecOptions(PartOptions, SequenceOptions):
    """The default is the paper's model; `block_form="sasrec"` is that of its released code."""

    blocks: int = option(2, "number of blocks", at_least=0, at_most=1000)
    mixer: str = option("attention", "how an item reads earlier ones: attention, or a recurrence", choices=MIXERS)
    heads: int = option(1, "attention heads per block; must divide dim", at_least=1)
    kv_heads: int | None = option(
        None, "heads of keys and values, which attention heads share: 1 is multi-query attention, a larger divisor of "
        "heads grouped-query attention (default: as many as heads)", at_least=1,
    )  # fmt: skip
    block_form: str = option("pre", ABOUT_BLOCK_FORMS, choices=BLOCK_FORMS)
    mechanism: str = option("full", "what attention computes", choices=MECHANISMS)
    refine: str = option(
        "none", "transforms the scores before their softmax (AWRSR); value-literal, the paper's printed equation, sees "
        "later items in training: only for teaching", choices=REFINEMENTS,
    )  # fmt: skip
    position: str = option("learned", "how positions are encoded", choices=ITEM_POSITIONS)
    norm: str = option("layer", "LayerNorm, or RMSNorm, which does not centre", choices=NORMS)
    feed_forward: str = option("relu", "the feed-forward network: its activation, or SwiGLU", choices=FEED_FORWARDS)
    feed_forward_width: int | None = option(
        None, "its inner width, as a multiple of dim (default: 1; for SwiGLU two thirds)", at_least=1, at_most=1000
    )
    emb_scale: bool | None = option(None, "multiply item embeddings by the root of dim (default: only in form sasrec)")
    qkv_bias: bool | None = option(None, "biases in query, key and value projections (default: only in form sasrec)")
    output_projection: bool = option(False, "a projection after the heads are joined, as in the Transformer")
    last_norm: bool = option(True, "a norm after the last block (the released code; pre-LN needs it)")
    tied: bool = option(True, "one table of item embeddings for input and scores, or one for each")
    user_embedding: bool = option(False, "add an embedding of the user (paper, section III-D)")
    eps: float = option(1e-8, "added under the root of every norm (the released code's)", above=0)
    last_eps: float | None = option(None, "eps of the norm after the last block (default: eps)", above=0)
    padding: str = option(
        "hidden", "padding before a history's first item: hidden from attention, or, as in PyTorch ports, seen by it, "
        "as zeros before every block (blank) or as tokens like others (tokens)", choices=PADDINGS,
    )  # fmt: skip

    def __post_init__(self) -> None:
        released = self.block_form == "sasrec"                        # emb_scale and qkv_bias default to this
        self.emb_scale = released if self.emb_scale is None else self.emb_scale
        if self.qkv_bias is None and self.mixer == "attention":       # other mixers leave it unset
            self.qkv_bias = released
        super().__post_init__()
        make_parts(self, **PARTS)     # sets their options, which config.json keeps


class NetworkCache(NamedTuple):
    """What `forward` saves; `cache.blocks[i].attention.weights` are the attention weights of block i."""

    batch: Batch
    keep: Array | None              # (B, L, D): dropout on the input
    blocks: list[BlockCache]
    norm: Any                       # of the last norm; None without one


@dataclass(kw_only=True)
class SASRecNetwork(SASRecOptions, ChosenBlock, NextItemNetwork):
    """The pure network: init, forward, loss, loss_backward, score. It has no state: parameters are an argument."""

    tables = PARTS
    paddings: ClassVar[tuple[str, ...]] = ("hidden",)           # the values of `padding` that this class computes

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.padding not in self.paddings:
            raise ValueError(f"padding is {self.padding!r}, expected {' or '.join(self.paddings)} in this class")
        if self.padding != "hidden" and self.reads_times:
            raise ValueError(f"padding is {self.padding}, which has no times, and position {self.position} reads times")
        self._parts[0].refuse_length(self.maxlen)
        if not (self.blocks or self._parts[2].identity):
            raise ValueError(f"refine is {self.refine}, which refines attention scores, and blocks 0 has none")
        self.block                   # made here, so that its parts are checked  # noqa: B018

    @property
    def scored(self) -> str:  # type: ignore[override]
        """The name of the table that makes the scores."""
        return "items" if self.tied else "output"

    @cached_property
    def block(self) -> Block:
        """The form of every block; each has its own parameters."""
        refuse_feed_forward(self)
        mechanism, position, refinement, mixer = self._parts
        mixer = with_parts(
            mixer, self, position, mechanism=refined(mechanism, refinement, self.maxlen), bias=self.qkv_bias,
            output=self.output_projection,
        )  # fmt: skip
        hidden = None if self.feed_forward_width is None else self.feed_forward_width * self.dim
        norm, feed_forward = NORMS[self.norm](self.eps), FEED_FORWARDS[self.feed_forward](hidden)
        return Block(mixer, self.block_form, norm, feed_forward, self.dropout)

    @property
    def causal(self) -> bool:  # type: ignore[override]
        """False where a refinement reads all rows of scores."""
        return not self.block.mixer.reads_all

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64: glorot-uniform weights and embeddings, zero biases; items row 0 is 0."""
        p: dict[str, Any] = {"items": self.init_items(rng, self.dim)}
        if (positions := self.scheme.init(rng, self.maxlen, self.dim)) is not None:
            p["positions"] = positions
        if not self.tied:
            p["output"] = self.init_items(rng, self.dim)
        p["blocks"] = self.stack.init(rng, self.dim)
        if self.last_norm:
            p["norm"] = self.block.norm.init(self.dim)
        if self.user_embedding:
            p["users"] = np.zeros((self.n_users + 1, self.dim))     # an unknown user's row stays 0
        return p

    def forward(self, p: Any, batch: Batch, rng: Any = None) -> tuple[Array, NetworkCache]:
        """h (B, L, D), the state of each position, and the cache. The causal mask hides padding, on the right."""
        x = self._read(p, batch)
        x, keep = dropped(x, self.dropout, rng)
        x, caches = self.stack.forward(p["blocks"], x, rng=rng, **self._context(batch))
        h, norm = self._finished(p, x, batch)
        return h, NetworkCache(batch, keep, caches, norm)

    def _finished(self, p: Any, x: Array, batch: Batch) -> tuple[Array, Any]:
        """The blocks' output after the last norm and with the user's embedding, where they exist; the norm's cache."""
        h, norm = self.norm_after.forward(p["norm"], x) if self.last_norm else (x, None)
        return h + embedding(batch.users, p["users"])[:, None, :] if self.user_embedding else h, norm

    def _context(self, batch: Batch) -> dict[str, Any]:
        """The arguments of all blocks: slots, and a causal mask, with lengths if the mixer needs them."""
        lengths = last_position(batch) + 1 if self.block.mixer.needs_lengths else None
        if self.reads_times and batch.times is None:
            raise ValueError(f"position {self.position} reads the times of a history's items, and there are none: pass "
                             "times, or train a model with position t5, which reads places alone")  # fmt: skip
        return {"mask": Mask(causal=True, lengths=lengths), "slots": batch.times if self.reads_times else batch.slots}

    @property
    def reads_times(self) -> bool:  # type: ignore[override]
        return self.scheme.takes_times

    @cached_property
    def norm_after(self) -> Norm:
        """The norm after the last block."""
        return NORMS[self.norm](self.last_eps or self.eps)

    def _last(self, batch: Batch) -> Array:
        """(B,): the place of each history's last item."""
        return last_position(batch)

    def _read(self, p: Any, batch: Batch) -> Array:
        """(B, L, D): items and positions, the input of the first block before dropout."""
        return self.scheme.add(p.get("positions"), self._items(p, batch.ids), batch.slots)

    def _read_backward(self, p: Any, dx: Array, batch: Batch) -> tuple[Array, dict[str, Any]]:
        """-> the gradient of the item embeddings, and that of the positions if they are learned."""
        grads = {"positions": self.scheme.add_backward(p["positions"], dx, batch.slots)} if "positions" in p else {}
        return dx * math.sqrt(self.dim) if self.emb_scale else dx, grads

    def _items(self, p: Any, ids: Array) -> Array:
        """(B, L, D): item embeddings, scaled if the options say so, without positions."""
        x = embedding(ids, p["items"])
        if self.emb_scale:
            x *= math.sqrt(self.dim)
        return x

    def backward(self, p: Any, dh: Array, cache: NetworkCache) -> tuple[Array, dict[str, Any]]:
        """-> dx (B, L, D), the gradient of the item embeddings read, and grads without "items", which the loss adds."""
        grads: dict[str, Any] = {}
        if self.user_embedding:
            grads["users"] = table_gradient(cache.batch.users, get_xp(dh).sum(dh, axis=1), p["users"])
        if self.last_norm:
            dh, grads["norm"] = self.norm_after.backward(p["norm"], dh, cache.norm)
        before = self._context(cache.batch).get("before")
        dh, grads["blocks"] = self.stack.backward(p["blocks"], dh, cache.blocks, before=before)
        dx, placed = self._read_backward(p, dropout_backward(dh, cache.keep, self.dropout), cache.batch)
        return dx, grads | placed

    def rows_read(self, batch: Batch) -> dict[str, Array]:
        return super().rows_read(batch) | ({"users": batch.users} if self.user_embedding else {})

    def last_state(self, p: Any, batch: Batch) -> Array:
        """(B, D): what `forward` gives for the last position of each history, and nothing else."""
        x = self.stack.at(p["blocks"], self._read(p, batch), self._last(batch), **self._context(batch))
        return self._finished(p, x, batch)[0][:, 0]

    @property
    def extends(self) -> bool:
        """False where positions are added to items: they count from the newest (`Batch.slots`), so that a new item
        moves all others and changes their states. Positions that act at the heads are distances, which stay.
        """
        return not self.scheme.at_tokens and self.block.mixer.extends and not self.user_embedding

    def extend(self, p: Any, ids: Array, past: Past | None = None) -> tuple[Array, Past]:
        x, kept = self.stack.extend(p["blocks"], self._items(p, ids), past)
        return self.norm_after.forward(p["norm"], x)[0] if self.last_norm else x, kept

    @property
    def is_plain(self) -> bool:
        return self.last_norm and self.norm_after == self.block.norm and not self.user_embedding

    @property
    def weights_remark(self) -> str:  # type: ignore[override]
        mechanism = getattr(self.block.mixer, "mechanism", None)
        if mechanism is None or mechanism.sums_to_one:
            return ""
        return f"those of mechanism {mechanism.name}, which do not sum to 1"

    @property
    def attends(self) -> bool:  # type: ignore[override]
        """False without blocks, and with a mixer other than attention."""
        return self.blocks > 0 and self.block.mixer.has_weights

    def attention(self, cache: NetworkCache) -> list[Array]:
        """The weights of each block, (B, h, L, L): row i is what position i looks at."""
        return [block.attention.weights for block in cache.blocks]


@dataclass(eq=False, kw_only=True)
class SASRec(SASRecOptions, NeuralRecommender):
    """A causal Transformer over a user's history; the default is the paper's model.

        model = SASRec(epochs=20).fit(sequences)
        ids, scores = model.recommend([12, 55, 3], k=10)

    `block_form="sasrec"` is the model of the released code, with `emb_scale` and `qkv_bias` True unless they are set.
    """

    name = "sasrec"
    takes_vectors = True
    Network = SASRecNetwork

    def make_network(self, n_items: int, n_users: int) -> SASRecNetwork:
        kind = NETWORKS[self.padding]
        return kind(n_items=n_items, n_users=n_users, objective=self.loss, **self.options_for(kind))


NETWORKS: dict[str, type[SASRecNetwork]] = {"hidden": SASRecNetwork}       # by padding; ported.py has the others
