"""The decoder: after each token of a text it predicts the next (Radford et al. 2019; Touvron et al. 2023).

It is a stack of causal blocks, with one table of embeddings for input and scores. The default is GPT's form: norms
before each sublayer and after the last, the tanh form of GELU, learned positions, biases. Preset `llama` is LLaMA's:
RMSNorm, rotary positions, SwiGLU, shared keys and values, no biases in attention, a separate table for scores.
Unlike GPT-2's, attention weights are not dropped (in block form `sasrec` they are).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ... import backend
from ...backend import Array, get_xp
from ...data import TOKENIZERS, Text, TextBatch, TextSampler, Tokenizer, Tokens, Vocabulary, learned_tokens
from ...files import Arrays
from ...forms import replaceable
from ...layers import (
    BLOCK_FORMS,
    FEED_FORWARDS,
    MECHANISMS,
    MIXERS,
    NORMS,
    POSITIONS,
    Block,
    BlockCache,
    Past,
    dropped,
)
from ...layers.block import ABOUT_BLOCK_FORMS
from ...ops import Mask, dropout_backward, embedding, embedding_backward, linear, linear_backward
from ...options import check_options, make_parts, option, part_options, with_default
from ...random import Stream, generator
from ...training import Settings
from ..cross_entropy import ClassNetwork, Smoothed, table_loss, table_loss_backward
from ..mixing import ChosenBlock, refuse_feed_forward, with_parts
from ..sequence_model import SequenceModel
from .sampling import Sampling

PARTS: dict[str, Any] = {"mechanism": MECHANISMS, "position": POSITIONS, "mixer": MIXERS}
PartOptions: Any = part_options(**PARTS)
SMALL = 0.02             # the standard deviation of fresh embeddings, as in GPT-2
LONGEST = 10**6          # most tokens of one `generate`: some minutes of work


@dataclass(kw_only=True)
class DecoderOptions(PartOptions):
    context: int = option(64, "tokens that a prediction can read, the newest included", at_least=1, at_most=1_000_000)
    dim: int = option(64, "width of embeddings and states (GPT-2: 768)", at_least=1, at_most=100_000)
    layers: int = option(2, "blocks (GPT-2: 12)", at_least=1, at_most=1000)
    mixer: str = option("attention", "how a token reads earlier ones: attention, or a recurrence", choices=MIXERS)
    heads: int = option(4, "attention heads per block; must divide dim (GPT-2: 12)", at_least=1)
    kv_heads: int | None = option(
        None, "heads of keys and values, which attention heads share: 1 is multi-query attention, a larger divisor of "
        "heads grouped-query attention (default: as many as heads)", at_least=1,
    )  # fmt: skip
    block_form: str = option("pre", ABOUT_BLOCK_FORMS, choices=BLOCK_FORMS)
    mechanism: str = option("full", "what attention computes", choices=MECHANISMS)
    position: str = option("learned", "how positions are encoded", choices=POSITIONS)
    norm: str = option("layer", "LayerNorm, or RMSNorm, which does not centre", choices=NORMS)
    feed_forward: str = option("gelu-tanh", "the feed-forward network: an activation, or SwiGLU", choices=FEED_FORWARDS)
    feed_forward_width: float = option(4.0, "inner width, a multiple of dim (LLaMA: 2.6875)", at_least=1, at_most=1000)
    bias: bool = option(True, "biases in the projections of attention")
    tied: bool = option(True, "one table of embeddings for input and scores, or one for each")
    eps: float = option(1e-5, "added under the root of every norm", above=0)
    dropout: float = option(0.0, "dropout rate (GPT-2: 0.1)", at_least=0, below=1)

    def __post_init__(self) -> None:
        check_options(self)
        make_parts(self, **PARTS)     # sets their options, which config.json keeps
        super().__post_init__()


class DecoderCache(NamedTuple):
    """What one forward saves; `blocks[i].attention.weights` are the attention weights of block i."""

    ids: Array
    slots: Array
    keep: Array | None               # (B, n, D): dropout on the input
    blocks: list[BlockCache]
    norm: Any
    h: Array                         # (B, n, D): the input of the scores


@dataclass(kw_only=True)
class DecoderNetwork(DecoderOptions, ChosenBlock, ClassNetwork):
    """The pure network: init, forward, loss, loss_backward."""

    tables = PARTS
    n_tokens: int                    # they are 0 to n_tokens - 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._parts[0].refuse_length(self.context)
        self.block                   # made here, so that its parts are checked  # noqa: B018

    @property
    def inner(self) -> int:
        return round(self.feed_forward_width * self.dim)

    @property
    def scored(self) -> str:
        return "tokens" if self.tied else "output"

    @cached_property
    def block(self) -> Block:
        refuse_feed_forward(self)
        mechanism, position, mixer = self._parts
        mixer = with_parts(mixer, self, position, mechanism=mechanism, bias=self.bias)
        norm, feed_forward = NORMS[self.norm](self.eps), FEED_FORWARDS[self.feed_forward](self.inner)
        return Block(mixer, self.block_form, norm, feed_forward, self.dropout)

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64. Embeddings are small, so that the first loss is near ln V."""
        p: dict[str, Any] = {"tokens": SMALL * rng.standard_normal((self.n_tokens, self.dim))}
        if not self.tied:
            p["output"] = SMALL * rng.standard_normal((self.n_tokens, self.dim))
        if (positions := self.scheme.init(rng, self.context, self.dim)) is not None:
            p["positions"] = positions
        p["blocks"] = self.stack.init(rng, self.dim)
        p["norm"] = self.block.norm.init(self.dim)
        return p

    def forward(self, p: Any, ids: Array, rng: Any = None) -> tuple[Array, DecoderCache]:
        """Scores (B, n, V) of the token after each, and the cache. Shapes: ids (B, n)."""
        cache = self._states(p, ids, rng)
        return linear(cache.h, p[self.scored].T), cache

    def _states(self, p: Any, ids: Array, rng: Any) -> DecoderCache:
        """All but the scores, which are computed from `h` of the cache."""
        xp, x = get_xp(ids), self._read(p, ids, 0)
        slots = xp.broadcast_to(xp.arange(ids.shape[1]), ids.shape)
        x, keep = dropped(x, self.dropout, rng)
        x, caches = self.stack.forward(p["blocks"], x, mask=Mask(causal=True), slots=slots, rng=rng)
        h, norm = self.block.norm.forward(p["norm"], x)
        return DecoderCache(ids, slots, keep, caches, norm, h)

    def backward(self, p: Any, dscores: Array, cache: DecoderCache) -> dict[str, Any]:
        """-> grads shaped like p."""
        dh, dW, _ = linear_backward(dscores, cache.h, p[self.scored].T)
        return self._states_backward(p, dh, dW.T, cache)

    def loss(self, p: Any, batch: TextBatch, rng: Any = None) -> tuple[Any, Any]:
        """As `forward` and `smoothed_loss`; for a large vocabulary, all scores never exist at once."""
        return self._loss(p, batch, rng, self.label_smoothing)

    def _loss(self, p: Any, batch: TextBatch, rng: Any, smoothing: float) -> tuple[Any, Any]:
        cache = self._states(p, batch.ids, rng)
        weight = batch.weight.astype(cache.h.dtype)
        loss, saved = table_loss(cache.h, p[self.scored], batch.targets, weight, smoothing)
        return loss, (saved, cache)

    def loss_backward(self, p: Any, dloss: float, cache: Any) -> dict[str, Any]:
        saved, states = cache
        return self._states_backward(p, *table_loss_backward(dloss, states.h, p[self.scored], saved), states)

    def measure(self, p: Any, batch: TextBatch) -> dict[str, tuple[float, float]]:
        total = float(get_xp(batch.weight).sum(batch.weight))
        return {"loss": (float(self._loss(p, batch, None, 0.0)[0]) * total, total)}

    def _states_backward(self, p: Any, dh: Array, dtable: Array, cache: DecoderCache) -> dict[str, Any]:
        """-> grads shaped like p. A table that is read twice gets the sum of both gradients."""
        grads: dict[str, Any] = {}
        dx, grads["norm"] = self.block.norm.backward(p["norm"], dh, cache.norm)
        dx, grads["blocks"] = self.stack.backward(p["blocks"], dx, cache.blocks)
        dx = dropout_backward(dx, cache.keep, self.dropout)
        if "positions" in p:
            grads["positions"] = self.scheme.add_backward(p["positions"], dx, cache.slots)
        grads["tokens"] = embedding_backward(dx, cache.ids, p["tokens"])
        grads[self.scored] = grads[self.scored] + dtable if self.tied else dtable
        return grads

    def extend(self, p: Any, ids: Array, past: Past | None = None) -> tuple[Array, Past]:
        """Scores (B, n, V) of the token after each of `ids`, which follow the tokens of `past`; and the new cache.

        `past` is the cache of the tokens before, None at the beginning, and is not changed. To rounding, the scores are
        the last rows of `forward`'s for all tokens. Shapes: ids (B, n); with earlier tokens at most `context`.
        Raises ValueError for a mixer, mechanism or position scheme that cannot extend a cache.
        """
        x = self._read(p, ids, 0 if past is None else past.length)
        x, kept = self.stack.extend(p["blocks"], x, past)
        h, _ = self.block.norm.forward(p["norm"], x)
        return linear(h, p[self.scored].T), kept

    @replaceable
    def extending(self, p: Any) -> Callable[..., tuple[Array, Past]]:
        """`extend` with these parameters, which must not change meanwhile."""
        return partial(self.extend, p)

    def _read(self, p: Any, ids: Array, first: int) -> Array:
        """(B, n, D): the first block's input, before dropout, of tokens that follow `first` others."""
        slots = get_xp(ids).arange(first, first + ids.shape[1])
        x = embedding(ids, p["tokens"])
        return self.scheme.add(p.get("positions"), x, get_xp(ids).broadcast_to(slots, ids.shape))


@dataclass(eq=False, kw_only=True)
class Decoder(DecoderOptions, Smoothed, SequenceModel):
    """Learns from a text to predict the next token, and generates text.

        model = Decoder(epochs=5).fit(Grammar().generate().split())
    """

    epochs: int = with_default(12, Settings, "epochs")
    patience: int = with_default(2, SequenceModel, "patience")
    batch_size: int = with_default(16, SequenceModel, "batch_size")
    lr: float = with_default(3e-3, Settings, "lr")
    merges: int = option(
        0, "number of merges that byte-pair encoding learns; 0: every token is a character", at_least=0,
        at_most=100_000,
    )  # fmt: skip

    name = "decoder"
    table = "text"
    criterion = "-loss"
    vocabularies = ("tokens",)
    tokens: ClassVar[Tokenizer]      # set by fit and load
    Network = DecoderNetwork
    Data = Text

    def vocabularies_of(self, parts: list[Text]) -> dict[str, Vocabulary]:
        """Characters of all parts; merges are learned from the first."""
        train, *others = [part.text for part in parts]
        return {"tokens": learned_tokens(train, self.merges, others)}

    def numbered(self, data: Text, known: dict[str, Any]) -> np.ndarray:
        return known["tokens"].encode(data.text)

    def sampler(self, numbered: np.ndarray) -> TextSampler:
        return TextSampler(numbered, self.context, self.batch_size, self.seed)

    def generate(self, prompt: str, length: int = 200, seed: int = 0, **sampling: Any) -> str:
        """`length` tokens after the prompt, each drawn from the model's distribution; fewer after one of `tokens.ends`.

        `sampling` is `temperature`, `top_k`, `top_p` of `Sampling`. Tokens are cached; when `context` is full, its
        later half is read again from position 0. Raises ValueError for an empty prompt, one of more than `context`
        tokens, an unknown character (named), a length not in 1 to LONGEST, and values that `Sampling` refuses.
        """
        network, how = self.fitted(), Sampling(**sampling)
        if not 1 <= length <= LONGEST:
            raise ValueError(f"length is {length}, expected 1 to {LONGEST}")
        ids = self.tokens.encode(prompt).tolist()
        if len(ids) > self.context:
            raise ValueError(f"the prompt has {len(ids)} tokens, expected {self.context} at most: that is the context")
        xp, rng = self._module(self.parameters), generator(seed, Stream.GENERATION)
        first, past, unread = len(ids), None, ids
        extend = network.extending(self.parameters)
        while len(ids) < first + length:
            with np.errstate(over="ignore", invalid="ignore"):       # `draw` refuses what is not finite
                scores, past = extend(xp.asarray(np.array([unread])), past)
            ids.append(how.draw(backend.to_numpy(scores)[0, -1], rng))
            if ids[-1] in self.tokens.ends:
                break
            unread = ids[-1:]
            if past.length == self.context:
                past, unread = None, ids[-(self.context + 1) // 2 :]
        return self.tokens.after(ids, first)

    def evaluate(self, data: Any) -> dict[str, float]:
        """`loss`, in nats a token, and `per_character`, which compares models with different tokens."""
        metrics, text = super().evaluate(data), Text.of(data).text
        numbers = self.tokens.encode(text)
        characters = len(text) - len(self.tokens.text(numbers[:1]))           # all but the first token's
        return metrics | {"per_character": metrics["loss"] * (len(numbers) - 1) / characters}

    def learned_elsewhere(self, tokens: Tokenizer, arrays: Arrays | Iterable[tuple[str, np.ndarray]]) -> Self:
        """This model with a tokenizer and parameters by name. Raises ValueError for one missing or misshapen."""
        setattr(self, "tokens", tokens)  # noqa: B010
        self._take(arrays)
        return self

    def arrays(self) -> dict[str, np.ndarray]:
        return super().arrays() | {"tokenizer": np.array(self.tokens.name)} | self.tokens.arrays()

    def _restore(self, arrays: Arrays) -> None:
        kind = TOKENIZERS[str(arrays.pop("tokenizer", Tokens.name))]
        self.learned_elsewhere(kind.restored(self.tokens.ids, arrays), arrays)
