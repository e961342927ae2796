"""The Transformer: reads a string, writes another (Vaswani et al. 2017).

The encoder's tokens look at each other. The decoder writes a character at a time: its tokens look at those before them
and, in cross-attention, at the encoder's output. In training each character of the target is predicted from those
before it (teacher forcing), all in one pass, thanks to the causal mask.

Differences from the paper: two layers, not six, and width 64, not 512, which are enough for short strings; norms before
the sublayers, so that no warm-up is needed (`block_form="post"` is the paper's form); tokens are characters.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...data import Pairs, Vocabulary, characters
from ...layers import (
    DECODER_FORMS,
    FEED_FORWARDS,
    NORMS,
    POSITIONS,
    Block,
    BlockCache,
    DecoderBlock,
    DecoderBlockCache,
    MultiHead,
    Stack,
    dropped,
)
from ...ops import Mask, dropout_backward, embedding, embedding_backward, linear, linear_backward
from ...options import check_options, make_parts, option, part_options, with_default
from ...training import Settings
from .pair_model import PairCache, PairModel, PairNetwork, PairOptions


class Tables(NamedTuple):
    """The names of the tables of embeddings; equal names mean a shared table."""

    source: str
    target: str
    output: str


EMBEDDINGS = {
    "shared": Tables("symbols", "symbols", "symbols"),       # the paper's, section 3.4
    "target": Tables("source", "target", "target"),
    "separate": Tables("source", "target", "output"),
}
PARTS: dict[str, Any] = {"position": POSITIONS}
PartOptions: Any = part_options(**PARTS)


@dataclass(kw_only=True)
class TransformerOptions(PartOptions, PairOptions):
    dim: int = option(64, "width of embeddings and states (the paper: 512)", at_least=1, at_most=100_000)
    layers: int = option(2, "blocks of encoder and decoder each (the paper: 6)", at_least=1, at_most=1000)
    heads: int = option(4, "attention heads per block; must divide dim (the paper: 8)", at_least=1)
    block_form: str = option("pre", "norms before sublayers (pre) or after residuals (post)", choices=DECODER_FORMS)
    position: str = option("sinusoidal", "how positions are encoded", choices=POSITIONS)
    norm: str = option("layer", "LayerNorm, or RMSNorm, which does not centre", choices=NORMS)
    feed_forward: str = option("relu", "the feed-forward network: its activation, or SwiGLU", choices=FEED_FORWARDS)
    feed_forward_width: int = option(4, "its inner width, as a multiple of dim", at_least=1, at_most=1000)
    embeddings: str = option(
        "separate", "one table for source, target and scores (shared); one for the source and one "
        "for the other two (target); or three", choices=EMBEDDINGS,
    )  # fmt: skip
    last_norm: bool | None = option(None, "norms after encoder and decoder (default: in the pre form)")
    eps: float = option(1e-5, "added under the root of every norm", above=0)
    dropout: float = option(0.1, "dropout rate", at_least=0, below=1)

    def __post_init__(self) -> None:
        check_options(self)
        if self.last_norm is None:
            self.last_norm = not DECODER_FORMS[self.block_form].gives_normed
        make_parts(self, **PARTS)     # sets their options, which config.json keeps
        super().__post_init__()


class StackCache(NamedTuple):
    """The cache of encoder or decoder; `blocks[i].cross.weights` of the decoder is the alignment."""

    ids: Array
    slots: Array
    keep: Array | None               # (B, n, D): dropout on the input
    blocks: list[BlockCache] | list[DecoderBlockCache]
    norm: Any                        # the norm's, or None without a last norm


@dataclass(kw_only=True)
class TransformerNetwork(TransformerOptions, PairNetwork):
    """The pure network; the loss is `PairNetwork`'s."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tables.source == self.tables.target and self.n_sources != self.n_targets:
            raise ValueError(
                f"embeddings {self.embeddings} is for one vocabulary, and {self.n_sources} characters are read, "
                f"{self.n_targets} written"
            )
        for block in (self.encoder_block, self.decoder_block):          # making the parts checks them, too
            block.mixer.refuse_dim(self.dim)

    @property
    def tables(self) -> Tables:
        return EMBEDDINGS[self.embeddings]

    @cached_property
    def encoder_block(self) -> Block:
        """Self-attention both ways."""
        heads = replace(self.decoder_block.mixer, position=self._position.both_ways())  # type: ignore[type-var]
        return Block(heads, self.block_form, self.decoder_block.norm, self.decoder_block.feed_forward, self.dropout)

    @cached_property
    def decoder_block(self) -> DecoderBlock:
        """Causal self-attention, and cross-attention without positions."""
        norm = NORMS[self.norm](self.eps)
        feed_forward = FEED_FORWARDS[self.feed_forward](self.feed_forward_width * self.dim)
        heads = MultiHead(self.heads, position=self._position)
        return DecoderBlock(heads, MultiHead(self.heads), self.block_form, norm, feed_forward, self.dropout)

    @property
    def encoder(self) -> Stack:
        return Stack([self.encoder_block] * self.layers)

    @property
    def decoder(self) -> Stack:
        return Stack([self.decoder_block] * self.layers)

    @cached_property
    def _position(self) -> Any:
        return make_parts(self, **PARTS)[0]

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64. Embeddings have variance 1 / D, and are multiplied by √D when read.

        A table for scores alone has variance 1 / D²: the first loss is near ln V.
        """
        sizes = {name: 1 + n for name, n in zip(self.tables[:2], (self.n_sources, self.n_targets), strict=True)}
        p: dict[str, Any] = {n: rng.standard_normal((V, self.dim)) / math.sqrt(self.dim) for n, V in sizes.items()}
        if self.tables.output not in p:
            p[self.tables.output] = rng.standard_normal((1 + self.n_targets, self.dim)) / self.dim
        for half, stack in (("encoder", self.encoder), ("decoder", self.decoder)):
            p[half] = {"blocks": stack.init(rng, self.dim)}
            if (positions := self._position.init(rng, self.maxlen, self.dim)) is not None:
                p[half]["positions"] = positions
            if self.last_norm:
                p[half]["norm"] = self.decoder_block.norm.init(self.dim)
        return p

    def backward(self, p: Any, dscores: Array, cache: PairCache) -> dict[str, Any]:
        """-> grads shaped like p. A shared table gets the sum of its gradients."""
        dh, dW, _ = linear_backward(dscores, cache.h, p[self.tables.output].T)
        dtarget, dmemory, decoder = self.decode_backward(p, dh, cache.decoder)
        dsource, encoder = self.encode_backward(p, dmemory, cache.encoder)
        grads: dict[str, Any] = {"encoder": encoder, "decoder": decoder}
        for name, dE in zip(self.tables, (dsource, dtarget, dW.T), strict=True):
            grads[name] = grads[name] + dE if name in grads else dE
        return grads

    def encode(self, p: Any, source: Array, lengths: Array, rng: Any = None) -> tuple[Array, StackCache]:
        """The memory (B, m, D): the states of the source's tokens; padding is masked."""
        E, mask = p[self.tables.source], Mask(lengths=lengths)
        return self._forward(p["encoder"], self.encoder, E, source, rng, mask=mask)

    def encode_backward(self, p: Any, dmemory: Array, cache: StackCache) -> tuple[Array, dict[str, Any]]:
        """-> the gradient of the source's table, and those of the rest of the encoder."""
        half, block, dx = p["encoder"], self.encoder_block, dmemory
        grads: dict[str, Any] = {}
        if self.last_norm:
            dx, grads["norm"] = block.norm.backward(half["norm"], dx, cache.norm)
        dx, grads["blocks"] = self.encoder.backward(half["blocks"], dx, cache.blocks)
        return self._read_backward(half, p[self.tables.source], dx, cache, grads), grads

    def decode(
        self, p: Any, written: Array, memory: Array, lengths: Array, rng: Any = None
    ) -> tuple[Array, StackCache]:
        """h (B, n, D): the state that predicts the character after each written one."""
        E, masks = p[self.tables.target], {"mask": Mask(causal=True), "memory_mask": Mask(lengths=lengths)}
        return self._forward(p["decoder"], self.decoder, E, written, rng, memory=memory, **masks)

    def decode_backward(self, p: Any, dh: Array, cache: StackCache) -> tuple[Array, Array, dict[str, Any]]:
        """-> the gradients of the target's table, the memory (summed over blocks), and the rest of the decoder."""
        half, block, dx, dmemory = p["decoder"], self.decoder_block, dh, None
        grads: dict[str, Any] = {"blocks": []}
        if self.last_norm:
            dx, grads["norm"] = block.norm.backward(half["norm"], dx, cache.norm)
        for weights, remembered in zip(reversed(half["blocks"]), reversed(cache.blocks), strict=True):
            dx, dm, g = block.backward(weights, dx, remembered)
            dmemory = dm if dmemory is None else dmemory + dm
            grads["blocks"].insert(0, g)
        return self._read_backward(half, p[self.tables.target], dx, cache, grads), dmemory, grads

    def _forward(
        self, half: Any, stack: Stack, E: Array, ids: Array, rng: Any, **context: Any
    ) -> tuple[Array, StackCache]:
        """√D times the embeddings, plus positions, after dropout, blocks and last norm: (B, n, D); and the cache."""
        xp = get_xp(E)
        slots = xp.broadcast_to(xp.arange(ids.shape[1]), ids.shape)
        x = self._position.add(half.get("positions"), embedding(ids, E) * math.sqrt(self.dim), slots)
        x, keep = dropped(x, self.dropout, rng)
        x, caches = stack.forward(half["blocks"], x, slots=slots, rng=rng, **context)
        x, norm = self.decoder_block.norm.forward(half["norm"], x) if self.last_norm else (x, None)
        return x, StackCache(ids, slots, keep, caches, norm)

    def _read_backward(self, half: Any, E: Array, dx: Array, cache: StackCache, grads: dict[str, Any]) -> Array:
        """-> the gradient of E; that of the positions is put into `grads`."""
        dx = dropout_backward(dx, cache.keep, self.dropout)
        if "positions" in half:
            grads["positions"] = self._position.add_backward(half["positions"], dx, cache.slots)
        return embedding_backward(dx * math.sqrt(self.dim), cache.ids, E)

    def scores(self, p: Any, h: Array) -> Array:
        return linear(h, p[self.tables.output].T)

    def alignment(self, cache: Any) -> list[Array]:
        return [block.cross.weights for block in cache.decoder.blocks]


@dataclass(eq=False, kw_only=True)
class Transformer(TransformerOptions, PairModel):
    """Learns from pairs of strings to write the second from the first.

        model = Transformer(epochs=20).fit(TASKS["dates"]().generate().split())
        model.translate("3rd of May 1999")                  # "1999-05-03"
    """

    epochs: int = with_default(15, Settings, "epochs")
    lr: float = with_default(2e-3, Settings, "lr")

    name = "transformer"
    Network = TransformerNetwork

    def vocabularies_of(self, parts: list[Pairs]) -> dict[str, Vocabulary]:
        """One vocabulary for each side, or for both where they share a table."""
        known, tables = super().vocabularies_of(parts), EMBEDDINGS[self.embeddings]
        if tables.source != tables.target:
            return known
        return dict.fromkeys(known, characters(text for side in known.values() for text in side.ids.tolist()))
