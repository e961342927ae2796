"""The Transformer: reads a string, writes another (Vaswani et al. 2017).

The encoder's tokens look at each other. The decoder writes a character at a time: its tokens look at those before them,
and, in cross-attention, at what the encoder made of the source. In training all characters of the target are given, and
each is predicted from those before it (teacher forcing), so a causal mask makes n problems of one pass.

Where this differs from the paper: two layers in place of six, and 64 in place of 512, which is enough for short
strings; norms stand before what they normalise, so that no warm-up is needed (`block_form="post"` is the paper's form);
and what is written is characters. Dropout is on the output of each sublayer and on the sums of embeddings and
positions, as there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ... import backend
from ...backend import Array, get_xp
from ...data import NumberedPairs, PairBatch, Pairs, PairSampler, Vocabulary, characters, numbers_of, pair_batch
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
    dropout_mask,
)
from ...ops import (
    Mask,
    cross_entropy,
    cross_entropy_backward,
    dropout,
    dropout_backward,
    embedding,
    embedding_backward,
    linear,
    linear_backward,
)
from ...options import check_options, make_parts, option, part_options, with_default
from ...training import Settings
from ..sequence_model import SequenceModel
from .search import beam_search


class Tables(NamedTuple):
    """The names of the tables of embeddings: one that is named twice is one table, read in both places."""

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
class TransformerOptions(PartOptions):
    maxlen: int = option(64, "characters of the longest string, and the end of what is written", at_least=2)
    dim: int = option(64, "width of embeddings and states (the paper: 512)", at_least=1)
    layers: int = option(2, "blocks of encoder and decoder each (the paper: 6)", at_least=1, at_most=1000)
    heads: int = option(4, "attention heads a block; must divide dim (the paper: 8)", at_least=1)
    block_form: str = option(
        "pre", "norms before each sublayer, or, as in the paper, after each residual (post)", choices=DECODER_FORMS
    )
    position: str = option("sinusoidal", "how tokens know their place", choices=POSITIONS)
    norm: str = option("layer", "LayerNorm, or RMSNorm, which does not centre", choices=NORMS)
    feed_forward: str = option("relu", "the feed-forward network: its activation, or SwiGLU", choices=FEED_FORWARDS)
    feed_forward_width: int = option(4, "its inner width, as a multiple of dim", at_least=1)
    embeddings: str = option(
        "separate", "one table for what is read, what is written, and the scores (shared); one for the source and one "
        "for the other two (target); or three", choices=EMBEDDINGS,
    )  # fmt: skip
    last_norm: bool | None = option(
        None, "a norm after the last block of encoder and decoder (default: in the pre form, which needs it)"
    )
    eps: float = option(1e-5, "added to what every norm divides by, before the root", above=0)
    dropout: float = option(0.1, "dropout rate", at_least=0, below=1)

    def __post_init__(self) -> None:
        check_options(self)
        if self.last_norm is None:
            self.last_norm = not DECODER_FORMS[self.block_form].gives_normed
        make_parts(self, **PARTS)     # what their options come to be stands in config.json


class StackCache(NamedTuple):
    """What one half of the network remembers; `blocks[i].cross.weights` of the decoder is the alignment."""

    ids: Array
    slots: Array
    keep: Array | None               # (B, n, D): dropout on the input
    blocks: list[BlockCache] | list[DecoderBlockCache]
    norm: Any                        # the norm's, or None without a last norm


class TransformerCache(NamedTuple):
    encoder: StackCache
    decoder: StackCache
    h: Array                         # (B, n, D): what the scores are made of


@dataclass(kw_only=True)
class TransformerNetwork(TransformerOptions):
    """The pure network: init, forward, loss, loss_backward. Symbol 0 begins and ends what is written."""

    n_sources: int                   # characters that are read, 1 to n_sources
    n_targets: int                   # characters that are written

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} is not divisible by heads {self.heads}")
        if self.tables.source == self.tables.target and self.n_sources != self.n_targets:
            raise ValueError(
                f"embeddings {self.embeddings} is for one vocabulary, and {self.n_sources} characters are read, "
                f"{self.n_targets} written"
            )
        self.encoder_block, self.decoder_block          # making the parts checks them  # noqa: B018

    @property
    def tables(self) -> Tables:
        """The names of the tables of embeddings."""
        return EMBEDDINGS[self.embeddings]

    @cached_property
    def encoder_block(self) -> Block:
        """Self-attention both ways. Every block has the same parts, and parameters of its own."""
        heads = replace(self.decoder_block.mixer, position=self._position.both_ways())  # type: ignore[type-var]
        return Block(heads, self.block_form, self.decoder_block.norm, self.decoder_block.feed_forward, self.dropout)

    @cached_property
    def decoder_block(self) -> DecoderBlock:
        """Causal self-attention, and cross-attention, in which nobody's place counts."""
        norm = NORMS[self.norm](self.eps)
        feed_forward = FEED_FORWARDS[self.feed_forward](self.feed_forward_width * self.dim)
        heads = MultiHead(self.heads, position=self._position)
        return DecoderBlock(heads, MultiHead(self.heads), self.block_form, norm, feed_forward, self.dropout)

    @cached_property
    def _position(self) -> Any:
        return make_parts(self, **PARTS)[0]

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64. Embeddings have variance 1 / D, so that √D times them has variance 1.

        A table that only makes scores has variance 1 / D²: scores are near 0 at first, and the loss is near ln V.
        """
        sizes = {name: 1 + n for name, n in zip(self.tables[:2], (self.n_sources, self.n_targets), strict=True)}
        p: dict[str, Any] = {n: rng.standard_normal((V, self.dim)) / math.sqrt(self.dim) for n, V in sizes.items()}
        if self.tables.output not in p:
            p[self.tables.output] = rng.standard_normal((1 + self.n_targets, self.dim)) / self.dim
        for half, block in (("encoder", self.encoder_block), ("decoder", self.decoder_block)):
            p[half] = {"blocks": [block.init(rng, self.dim) for _ in range(self.layers)]}
            positions = self._position.init(rng, self.maxlen, self.dim)
            if positions is not None:
                p[half]["positions"] = positions
            if self.last_norm:
                p[half]["norm"] = block.norm.init(self.dim)
        return p

    def forward(self, p: Any, batch: PairBatch, rng: Any = None) -> tuple[Array, TransformerCache]:
        """Scores (B, n, V) of what follows each written character: 0 ends, others are characters; and the cache."""
        memory, encoder = self.encode(p, batch.source, batch.lengths, rng)
        h, decoder = self.decode(p, batch.written, memory, batch.lengths, rng)
        return self.scores(p, h), TransformerCache(encoder, decoder, h)

    def backward(self, p: Any, dscores: Array, cache: TransformerCache) -> dict[str, Any]:
        """The mirror of `forward`: -> grads shaped like p. A table that was read in several places has their sum."""
        dh, dW, _ = linear_backward(dscores, cache.h, p[self.tables.output].T)
        dtarget, dmemory, decoder = self.decode_backward(p, dh, cache.decoder)
        dsource, encoder = self.encode_backward(p, dmemory, cache.encoder)
        grads: dict[str, Any] = {"encoder": encoder, "decoder": decoder}
        for name, dE in zip(self.tables, (dsource, dtarget, dW.T), strict=True):
            grads[name] = grads[name] + dE if name in grads else dE
        return grads

    def encode(self, p: Any, source: Array, lengths: Array, rng: Any = None) -> tuple[Array, StackCache]:
        """The memory (B, m, D): tokens of the source that have looked at each other, but at no padding."""
        half, block, mask = p["encoder"], self.encoder_block, Mask(lengths=lengths)
        x, slots, keep = self._read(half, p[self.tables.source], source, rng)
        caches = []
        for weights in half["blocks"]:
            x, cache = block.forward(weights, x, mask=mask, slots=slots, rng=rng)
            caches.append(cache)
        x, norm = block.norm.forward(half["norm"], x) if self.last_norm else (x, None)
        return x, StackCache(source, slots, keep, caches, norm)

    def encode_backward(self, p: Any, dmemory: Array, cache: StackCache) -> tuple[Array, dict[str, Any]]:
        """-> the gradient of the source's table, and of all else in the encoder."""
        half, block, dx = p["encoder"], self.encoder_block, dmemory
        grads: dict[str, Any] = {"blocks": []}
        if self.last_norm:
            dx, grads["norm"] = block.norm.backward(half["norm"], dx, cache.norm)
        for weights, remembered in zip(reversed(half["blocks"]), reversed(cache.blocks), strict=True):
            dx, g = block.backward(weights, dx, remembered)
            grads["blocks"].insert(0, g)
        return self._read_backward(half, p[self.tables.source], dx, cache, grads), grads

    def decode(
        self, p: Any, written: Array, memory: Array, lengths: Array, rng: Any = None
    ) -> tuple[Array, StackCache]:
        """h (B, n, D): what each position knows of the next character, from those before it and the memory."""
        half, block = p["decoder"], self.decoder_block
        masks = {"mask": Mask(causal=True), "memory_mask": Mask(lengths=lengths)}
        x, slots, keep = self._read(half, p[self.tables.target], written, rng)
        caches = []
        for weights in half["blocks"]:
            x, cache = block.forward(weights, x, memory, **masks, slots=slots, rng=rng)
            caches.append(cache)
        x, norm = block.norm.forward(half["norm"], x) if self.last_norm else (x, None)
        return x, StackCache(written, slots, keep, caches, norm)

    def decode_backward(self, p: Any, dh: Array, cache: StackCache) -> tuple[Array, Array, dict[str, Any]]:
        """-> the gradient of the target's table, of the memory, summed over the blocks that read it, and all else's."""
        half, block, dx, dmemory = p["decoder"], self.decoder_block, dh, None
        grads: dict[str, Any] = {"blocks": []}
        if self.last_norm:
            dx, grads["norm"] = block.norm.backward(half["norm"], dx, cache.norm)
        for weights, remembered in zip(reversed(half["blocks"]), reversed(cache.blocks), strict=True):
            dx, dm, g = block.backward(weights, dx, remembered)
            dmemory = dm if dmemory is None else dmemory + dm
            grads["blocks"].insert(0, g)
        return self._read_backward(half, p[self.tables.target], dx, cache, grads), dmemory, grads

    def _read(self, half: Any, E: Array, ids: Array, rng: Any) -> tuple[Array, Array, Array | None]:
        """x (B, n, D): √D times the embeddings, and positions, after dropout; the slots; what was kept."""
        xp = get_xp(E)
        slots = xp.broadcast_to(xp.arange(ids.shape[1]), ids.shape)
        x = self._position.add(half.get("positions"), embedding(ids, E) * math.sqrt(self.dim), slots)
        keep = dropout_mask(x, x.shape, self.dropout, rng)
        return dropout(x, keep, self.dropout), slots, keep

    def _read_backward(self, half: Any, E: Array, dx: Array, cache: StackCache, grads: dict[str, Any]) -> Array:
        """-> the gradient of E; that of the positions is put into `grads`."""
        dx = dropout_backward(dx, cache.keep, self.dropout)
        if "positions" in half:
            grads["positions"] = self._position.add_backward(half["positions"], dx, cache.slots)
        return embedding_backward(dx * math.sqrt(self.dim), cache.ids, E)

    def scores(self, p: Any, h: Array) -> Array:
        """(B, n, V): a score for every symbol, the product of a state with the symbol's row. Shapes: h (B, n, D)."""
        return linear(h, p[self.tables.output].T)

    def loss(self, p: Any, batch: PairBatch, rng: Any = None) -> tuple[Any, Any]:
        """The mean cross-entropy of the characters that follow, in nats, and what `loss_backward` needs."""
        scores, cache = self.forward(p, batch, rng)
        weight = batch.weight.astype(scores.dtype)
        return cross_entropy(scores, batch.targets, weight), (scores, batch.targets, weight, cache)

    def loss_backward(self, p: Any, dloss: float, cache: Any) -> dict[str, Any]:
        """Gradients shaped like p."""
        scores, targets, weight, remembered = cache
        return self.backward(p, cross_entropy_backward(dloss, scores, targets, weight), remembered)

    def measure(self, p: Any, batch: PairBatch) -> dict[str, tuple[float, float]]:
        """(sum, how many) of `exact`, strings that are right as a whole, of `characters`, and of the loss.

        Greedy decoding writes the target if and only if the likeliest character is right after each of the target's
        beginnings: as long as it is right it has written such a beginning. So one teacher-forced pass says it.
        """
        xp = get_xp(batch.source)
        scores, _ = self.forward(p, batch)
        weight = batch.weight.astype(scores.dtype)
        wrong = (xp.argmax(scores, axis=-1) != batch.targets) * weight
        total, n = float(xp.sum(weight)), len(batch.source)
        return {
            "exact": (n - float(xp.sum(xp.max(wrong, axis=1))), n),
            "characters": (total - float(xp.sum(wrong)), total),
            "loss": (float(cross_entropy(scores, batch.targets, weight)) * total, total),
        }


@dataclass(eq=False, kw_only=True)
class Transformer(TransformerOptions, SequenceModel):
    """Learns from pairs of strings to write the second when it reads the first.

        model = Transformer(epochs=20).fit(TASKS["dates"]().generate().split())
        model.translate("3rd of May 1999")                  # "1999-05-03"

    Every option is checked when the object is made: ValueError names the value and what was expected.
    """

    epochs: int = with_default(15, Settings, "epochs")
    patience: int = with_default(10, SequenceModel, "patience")
    batch_size: int = with_default(64, SequenceModel, "batch_size")
    lr: float = with_default(2e-3, Settings, "lr")
    schedule: str = with_default("cosine", Settings, "schedule")
    warmup: int = with_default(100, Settings, "warmup")

    name = "transformer"
    table = "pairs"
    criterion = "exact"
    vocabularies = ("sources", "targets")
    sources: ClassVar[Vocabulary]    # set by fit and load
    targets: ClassVar[Vocabulary]
    Network = TransformerNetwork
    Data = Pairs

    def __post_init__(self) -> None:
        TransformerOptions.__post_init__(self)
        SequenceModel.__post_init__(self)

    def vocabularies_of(self, parts: list[Pairs]) -> dict[str, Vocabulary]:
        """Of each side its own, or of both the same where they share a table."""
        sources, targets = ([text for part in parts for text in getattr(part, side)] for side in self.vocabularies)
        tables = EMBEDDINGS[self.embeddings]
        if tables.source == tables.target:
            sources = targets = sources + targets
        return {"sources": characters(sources), "targets": characters(targets)}

    def make_network(self, known: dict[str, Vocabulary]) -> TransformerNetwork:
        sizes: dict[str, Any] = {f"n_{what}": len(vocabulary) for what, vocabulary in known.items()}
        return TransformerNetwork(**sizes, **self.options_for(TransformerNetwork))

    def numbered(self, data: Pairs, known: dict[str, Vocabulary]) -> NumberedPairs:
        """Raises ValueError for a string that is longer than `maxlen` or has an unknown character."""
        return NumberedPairs(
            [self._numbers(text, known["sources"], self.maxlen) for text in data.sources],
            [self._numbers(text, known["targets"], self.maxlen - 1) for text in data.targets],
        )

    def _numbers(self, text: str, vocabulary: Vocabulary, longest: int) -> np.ndarray:
        if len(text) > longest:
            said = f"{text!r} has {len(text)} characters, expected {longest} at most: maxlen is {self.maxlen}"
            raise ValueError(said)
        return numbers_of(text, vocabulary)

    def sampler(self, numbered: NumberedPairs) -> PairSampler:
        return PairSampler(numbered, self.batch_size, self.seed)

    def translate(self, text: str, beam: int = 1) -> str:
        """What is written where `text` is read: greedily, or the likeliest string that a beam of this width finds.

        Raises ValueError for an empty text, one that is too long, an unknown character (named), and a beam below 1.
        """
        return self.translations(text, beam)[0][0]

    def translations(self, text: str, beam: int = 1) -> list[tuple[str, float]]:
        """All whole strings that a beam finds, with their log-probabilities, the likeliest first; see `beam_search`."""
        network, p = self._fitted(), self.parameters
        source = self._numbers(text, self.sources, self.maxlen)
        xp = self._module(p)
        memory, _ = network.encode(p, xp.asarray(source[None]), xp.asarray([len(source)]))

        def log_probabilities(beginnings: np.ndarray) -> np.ndarray:
            k = len(beginnings)
            memories = xp.broadcast_to(memory, (k, *memory.shape[1:]))
            h, _ = network.decode(p, xp.asarray(beginnings), memories, xp.full(k, len(source)))
            scores = backend.to_numpy(network.scores(p, h[:, -1:]))[:, 0].astype(np.float64)
            scores -= np.max(scores, axis=1, keepdims=True)
            return scores - np.log(np.sum(np.exp(scores), axis=1, keepdims=True))

        found = beam_search(log_probabilities, beam, self.maxlen)
        return [("".join(self.targets.decode(np.array(h.symbols[:-1], dtype=np.int64))), h.score) for h in found]

    def alignment(self, source: str, target: str) -> np.ndarray:
        """(layers, heads, n + 1, m): how much each character of the target, and its end, looks at each of the source.

        Row i is cross-attention where character i is written; a target may be empty. Raises ValueError as `translate`.
        """
        network, p = self._fitted(), self.parameters
        read = self._numbers(source, self.sources, self.maxlen)
        written = self._numbers(target, self.targets, self.maxlen - 1) if target else np.zeros(0, dtype=np.int64)
        batch = pair_batch([read], [written], np.zeros(1, dtype=np.int64))
        _, cache = network.forward(p, batch.to(self._module(p)))
        return np.array([backend.to_numpy(block.cross.weights)[0] for block in cache.decoder.blocks])
