"""The encoder: reads a text with hidden tokens and predicts them (BERT; Devlin et al. 2019).

Every token looks at all others, before and after it, so only hidden tokens can be predicted. Blocks are BERT's, with a
norm after each residual and the exact GELU; the sum of embeddings and positions is normed before the first block.

Differences from BERT: tokens are characters, so a blank is one character; windows of the text are read in order,
without the task on pairs of sentences; scores are products of states and embeddings, plus a bias, without BERT's
additional dense layer, GELU and norm; attention weights are not dropped.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ... import backend
from ...backend import Array, get_xp
from ...data import MaskedTextSampler, Masking, Text, TextBatch, Tokens, Vocabulary, learned_tokens
from ...data.vocabulary import refuse_no_text
from ...layers import BLOCK_FORMS, FEED_FORWARDS, NORMS, POSITIONS, Block, BlockCache, MultiHead, dropped
from ...layers.block import ABOUT_BLOCK_FORMS
from ...ops import Mask, dropout_backward, embedding, embedding_backward, linear, linear_backward, softmax
from ...options import check_options, make_parts, option, part_options, with_default
from ...training import Settings
from ..cross_entropy import ClassNetwork, Smoothed
from ..mixing import OneBlock, refuse_feed_forward
from ..sequence_model import SequenceModel

PARTS: dict[str, Any] = {"position": POSITIONS}
PartOptions: Any = part_options(**PARTS)
SMALL = 0.02             # the standard deviation of fresh embeddings, as in BERT
BEAM = 32                # the smallest beam of `fill`
MOST = 1000              # most fillings of `fill`: each is read again for every blank


@dataclass(kw_only=True)
class EncoderOptions(PartOptions):
    context: int = option(64, "tokens that are looked at together (BERT: 512)", at_least=1, at_most=1_000_000)
    dim: int = option(64, "width of embeddings and states (BERT: 768)", at_least=1, at_most=100_000)
    layers: int = option(2, "blocks (BERT: 12)", at_least=1, at_most=1000)
    heads: int = option(4, "attention heads per block; must divide dim (BERT: 12)", at_least=1)
    block_form: str = option("post", ABOUT_BLOCK_FORMS, choices=BLOCK_FORMS)
    position: str = option("learned", "how positions are encoded", choices=POSITIONS)
    norm: str = option("layer", "LayerNorm, or RMSNorm, which does not centre", choices=NORMS)
    feed_forward: str = option("gelu", "the feed-forward network: an activation, or SwiGLU", choices=FEED_FORWARDS)
    feed_forward_width: int = option(4, "its inner width, as a multiple of dim", at_least=1, at_most=1000)
    last_norm: bool | None = option(None, "a norm after the last block (default: in all forms but post)")
    eps: float = option(1e-5, "added under the root of every norm (BERT: 1e-12)", above=0)
    dropout: float = option(0.0, "dropout rate (BERT: 0.1)", at_least=0, below=1)

    def __post_init__(self) -> None:
        check_options(self)
        if self.last_norm is None:
            self.last_norm = not BLOCK_FORMS[self.block_form].gives_normed
        make_parts(self, **PARTS)     # sets their options, which config.json keeps


class EncoderCache(NamedTuple):
    """What one forward saves; `blocks[i].attention.weights` are the attention weights of block i."""

    ids: Array
    slots: Array
    norm: Any                        # of the input
    keep: Array | None               # (B, n, D): dropout on the input
    blocks: list[BlockCache]
    states: list[Array]              # (B, n, D): the input of the first block, then the output of each
    last_norm: Any                   # the norm's, or None without one
    h: Array                         # (B, n, D): the input of the scores


@dataclass(kw_only=True)
class EncoderNetwork(EncoderOptions, OneBlock, ClassNetwork):
    """The pure network. The last row of "tokens" is [MASK]'s, which has no score."""

    n_tokens: int                    # they are 0 to n_tokens - 1; n_tokens itself is [MASK]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.block.mixer.refuse_dim(self.dim)                # making the parts checks them, too

    @cached_property
    def _position(self) -> Any:
        return make_parts(self, **PARTS)[0].both_ways()

    @cached_property
    def block(self) -> Block:
        refuse_feed_forward(self)
        feed_forward = FEED_FORWARDS[self.feed_forward](self.feed_forward_width * self.dim)
        heads = MultiHead(self.heads, position=self._position)
        return Block(heads, self.block_form, NORMS[self.norm](self.eps), feed_forward, self.dropout)

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64. Embeddings and learned positions are small: the first loss is near ln V."""
        p: dict[str, Any] = {"tokens": SMALL * rng.standard_normal((self.n_tokens + 1, self.dim))}
        if (positions := self._position.init(rng, self.context, self.dim)) is not None:
            p["positions"] = SMALL * rng.standard_normal(positions.shape)
        p["norm"] = self.block.norm.init(self.dim)
        p["blocks"] = self.stack.init(rng, self.dim)
        if self.last_norm:
            p["last_norm"] = self.block.norm.init(self.dim)
        p["bias"] = np.zeros(self.n_tokens)
        return p

    def forward(self, p: Any, ids: Array, rng: Any = None) -> tuple[Array, EncoderCache]:
        """Scores (B, n, V) of the token at each place, from all tokens; and the cache. Shapes: ids (B, n)."""
        cache = self.encode(p, ids, rng)
        return linear(cache.h, p["tokens"][:-1].T, p["bias"]), cache

    def encode(self, p: Any, ids: Array, rng: Any = None, mask: Mask | None = None) -> EncoderCache:
        """The states `h` (B, n, D) after the last block and norm, and what `encode_backward` takes."""
        xp, norm = get_xp(ids), self.block.norm
        slots = xp.broadcast_to(xp.arange(ids.shape[1]), ids.shape)
        x = self._position.add(p.get("positions"), embedding(ids, p["tokens"]), slots)
        x, first = norm.forward(p["norm"], x)
        x, keep = dropped(x, self.dropout, rng)
        caches, states = [], [x]
        for weights in p["blocks"]:
            x, cache = self.block.forward(weights, x, mask=mask, slots=slots, rng=rng)
            caches.append(cache)
            states.append(x)
        h, last = norm.forward(p["last_norm"], x) if self.last_norm else (x, None)
        return EncoderCache(ids, slots, first, keep, caches, states, last, h)

    def backward(self, p: Any, dscores: Array, cache: EncoderCache) -> dict[str, Any]:
        """-> grads shaped like p. The table "tokens" is read twice and gets the sum of both gradients."""
        dh, dW, dbias = linear_backward(dscores, cache.h, p["tokens"][:-1].T)
        grads = self.encode_backward(p, dh, cache)
        grads["tokens"][:-1] += dW.T                             # in place: the array was made below
        return grads | {"bias": dbias}

    def encode_backward(self, p: Any, dx: Array, cache: EncoderCache) -> dict[str, Any]:
        """-> the gradients of the parameters that `encode` reads. Shapes: dx (B, n, D), the gradient of `h`."""
        grads: dict[str, Any] = {}
        norm = self.block.norm
        if self.last_norm:
            dx, grads["last_norm"] = norm.backward(p["last_norm"], dx, cache.last_norm)
        dx, grads["blocks"] = self.stack.backward(p["blocks"], dx, cache.blocks)
        dx = dropout_backward(dx, cache.keep, self.dropout)
        dx, grads["norm"] = norm.backward(p["norm"], dx, cache.norm)
        if "positions" in p:
            grads["positions"] = self._position.add_backward(p["positions"], dx, cache.slots)
        grads["tokens"] = embedding_backward(dx, cache.ids, p["tokens"])
        return grads

    def measure(self, p: Any, batch: TextBatch) -> dict[str, tuple[float, float]]:
        """(sum, count) of the loss without smoothing, alone."""
        return {"loss": super().measure(p, batch)["loss"]}


@dataclass(eq=False, kw_only=True)
class Encoder(EncoderOptions, Masking, Smoothed, SequenceModel):
    """Learns from a text to predict hidden characters, and fills blanks.

        model = Encoder(epochs=5).fit(Grammar().generate().split())
        model.fill("the ___ sleeps.")                        # [("the cat sleeps.", 0.35), ...]
    """

    epochs: int = with_default(40, Settings, "epochs")
    patience: int = with_default(0, SequenceModel, "patience")           # the rate falls until the last epoch
    batch_size: int = with_default(32, SequenceModel, "batch_size")
    lr: float = with_default(3e-3, Settings, "lr")
    schedule: str = with_default("linear", Settings, "schedule")
    warmup: int = with_default(100, Settings, "warmup")

    name = "encoder"
    table = "masked text"
    criterion = "-loss"
    vocabularies = ("tokens",)
    made_by: ClassVar[dict[str, Any]] = {"tokens": Tokens}
    tokens: ClassVar[Tokens]         # set by fit and load
    Network = EncoderNetwork
    Data = Text

    def __post_init__(self) -> None:
        EncoderOptions.__post_init__(self)
        Masking.__post_init__(self)
        SequenceModel.__post_init__(self)

    @property
    def masking(self) -> Masking:
        return Masking(**self.options_for(Masking))

    def vocabularies_of(self, parts: list[Text]) -> dict[str, Vocabulary]:
        train, *others = [part.text for part in parts]
        return {"tokens": learned_tokens(train, 0, others)}

    def numbered(self, data: Text, known: dict[str, Any]) -> tuple[np.ndarray, int]:
        """(numbers of the text's tokens, size of the vocabulary)."""
        return known["tokens"].encode(data.text), len(known["tokens"])

    def sampler(self, numbered: tuple[np.ndarray, int]) -> MaskedTextSampler:
        ids, n = numbered
        return MaskedTextSampler(ids, self.context, self.batch_size, self.seed, n_tokens=n, masking=self.masking)

    def states(self, text: str) -> list[np.ndarray]:
        """The input of the first block, then the output of each: a list of (characters, D).

        No character is hidden; adjacent windows of `context` characters are read. Raises ValueError for an empty text
        and an unknown character (named).
        """
        network, ids = self.fitted(), self.tokens.encode(text)
        xp, windows = self._module(self.parameters), []
        for i in range(0, len(ids), self.context):
            _, cache = network.forward(self.parameters, xp.asarray(ids[None, i : i + self.context]))
            windows.append([backend.to_numpy(x[0]) for x in cache.states])
        return [np.concatenate(layer) for layer in zip(*windows, strict=True)]

    def fill(self, text: str, k: int = 5, blank: str = "_") -> list[tuple[str, float]]:
        """The `k` likeliest ways to fill all blanks of a text, and the probability of each.

        Every `blank` stands for one character. Blanks are filled from left to right, and later ones stay hidden, so
        p(filling) = Π p(character | the text with earlier blanks filled). A beam of max(k, BEAM) is kept. Raises
        ValueError for a text without a blank or of more tokens than `context`, an unknown character (named), a `blank`
        that is not one character, and k below 1 or above MOST.
        """
        network = self.fitted()
        if not 1 <= k <= MOST:
            raise ValueError(f"k is {k}, expected 1 to {MOST}")
        ids, places = self.blanks(text, blank)
        xp, V = self._module(self.parameters), len(self.tokens)
        rows, scores = ids[None], np.zeros(1)
        for place in places.tolist():
            logits, _ = network.forward(self.parameters, xp.asarray(rows))
            p = backend.to_numpy(softmax(logits[:, place])).astype(np.float64)
            total = scores[:, None] + np.log(p + np.finfo(np.float64).tiny)
            best = np.argsort(-total, axis=None, kind="stable")[: max(k, BEAM)]
            rows, scores = rows[best // V], total.flat[best]
            rows[:, place] = best % V
        texts = [self.tokens.text(row) for row in rows[:k]]
        return list(zip(texts, np.exp(scores[:k]).tolist(), strict=True))

    def blanks(self, text: str, blank: str = "_") -> tuple[np.ndarray, np.ndarray]:
        """-> ids (n,) of a text's tokens, [MASK] at blanks; and the blanks' places. Raises ValueError as `fill`."""
        if len(blank) != 1:
            raise ValueError(f"blank is {blank!r}, expected one character")
        refuse_no_text(text)
        places = np.flatnonzero(np.array(list(text)) == blank)
        ids = self.tokens.encode(text.replace(blank, str(self.tokens.ids[0])))
        if not len(places):
            raise ValueError(f"the text has no blank: expected {blank!r} for each character that is missing")
        if len(ids) > self.context:
            raise ValueError(f"the text has {len(ids)} tokens, expected {self.context} at most: that is the context")
        ids[places] = len(self.tokens)
        return ids, places
