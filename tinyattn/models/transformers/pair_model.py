"""Bases of the models of pairs of strings: the loss, the measures, search; the estimator.

An encoder turns the source into a memory. A decoder writes the target a character at a time, from the memory and the
characters written so far; in training these are the target's own (teacher forcing).
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ... import backend
from ...backend import Array, get_xp
from ...data import NumberedPairs, PairBatch, Pairs, PairSampler, Vocabulary, characters, numbers_of, pair_batch
from ...data.vocabulary import refuse_no_text
from ...ops import cross_entropy
from ...options import option, with_default
from ...terminal import shortened
from ...training import Settings
from ..cross_entropy import ClassNetwork, Smoothed
from ..sequence_model import SequenceModel
from .search import beam_search


@dataclass(kw_only=True)
class PairOptions:
    maxlen: int = option(64, "characters of the longest string, with its end", at_least=2, at_most=1_000_000)


class PairCache(NamedTuple):
    encoder: Any
    decoder: Any
    h: Array                         # (B, n, D): the input of `scores`


@dataclass(kw_only=True)
class PairNetwork(ClassNetwork):
    """Base of the networks. Symbol 0 begins and ends a target.

    A subclass has `init`, `backward`, and the methods that raise NotImplementedError here.
    """

    n_sources: int                   # characters that are read, 1 to n_sources
    n_targets: int                   # characters that are written

    def forward(self, p: Any, batch: PairBatch, rng: Any = None) -> tuple[Array, PairCache]:
        """Scores (B, n, V) of the symbol after each written character, where 0 is the end; and the cache."""
        memory, encoder = self.encode(p, batch.source, batch.lengths, rng)
        h, decoder = self.decode(p, batch.written, memory, batch.lengths, rng)
        return self.scores(p, h), PairCache(encoder, decoder, h)

    def encode(self, p: Any, source: Array, lengths: Array, rng: Any = None) -> tuple[Array, Any]:
        """The memory (B, m, M), and the cache. Shapes: source (B, m), lengths (B,)."""
        raise NotImplementedError

    def decode(self, p: Any, written: Array, memory: Array, lengths: Array, rng: Any = None) -> tuple[Array, Any]:
        """h (B, n, D), which predicts the character after each written one; and the cache. Shapes: written (B, n)."""
        raise NotImplementedError

    def scores(self, p: Any, h: Array) -> Array:
        """(B, n, V): a score for every symbol. Shapes: h (B, n, D)."""
        raise NotImplementedError

    def alignment(self, cache: Any) -> list[Array]:
        """The weights of cross-attention in each layer of the decoder, (B, heads, n, m)."""
        raise NotImplementedError

    def scores_and_targets(self, p: Any, batch: PairBatch, rng: Any = None) -> tuple[Array, Array, Array, Any]:
        scores, cache = self.forward(p, batch, rng)
        return scores, batch.targets, batch.weight.astype(scores.dtype), cache

    def measure(self, p: Any, batch: PairBatch) -> dict[str, tuple[float, float]]:
        """(sum, how many) of `exact`, strings that are right as a whole, of `characters`, and of the loss.

        Greedy decoding writes the target if and only if the likeliest character is right after each prefix of the
        target, so one teacher-forced pass decides it.
        """
        xp = get_xp(batch.source)
        scores, targets, weight, _ = self.scores_and_targets(p, batch)
        wrong = (xp.argmax(scores, axis=-1) != targets) * weight
        total, n = float(xp.sum(weight)), len(batch.source)
        return {
            "exact": (n - float(xp.sum(xp.max(wrong, axis=1))), n),
            "characters": (total - float(xp.sum(wrong)), total),
            "loss": (float(cross_entropy(scores, targets, weight)) * total, total),
        }


@dataclass(eq=False, kw_only=True)
class PairModel(PairOptions, Smoothed, SequenceModel):
    """Base of the estimators. A subclass adds options and its `Network`."""

    patience: int = with_default(10, SequenceModel, "patience")
    batch_size: int = with_default(64, SequenceModel, "batch_size")
    schedule: str = with_default("cosine", Settings, "schedule")
    warmup: int = with_default(100, Settings, "warmup")

    table = "pairs"
    criterion = "exact"
    vocabularies = ("sources", "targets")
    sources: ClassVar[Vocabulary]    # set by fit and load
    targets: ClassVar[Vocabulary]
    Data = Pairs

    def vocabularies_of(self, parts: list[Pairs]) -> dict[str, Vocabulary]:
        return {side: characters(text for part in parts for text in getattr(part, side)) for side in self.vocabularies}

    def numbered(self, data: Pairs, known: dict[str, Vocabulary]) -> NumberedPairs:
        return NumberedPairs(
            [self._numbers(text, known["sources"], self.maxlen) for text in data.sources],
            [self._numbers(text, known["targets"], self.maxlen - 1) for text in data.targets],
        )

    def _numbers(self, text: str, vocabulary: Vocabulary, longest: int) -> np.ndarray:
        refuse_no_text(text)
        if len(text) > longest:
            message = f"{shortened(text)!r} has {len(text)} characters"
            raise ValueError(f"{message}, expected {longest} at most: maxlen is {self.maxlen}")
        return numbers_of(text, vocabulary)

    def sampler(self, numbered: NumberedPairs) -> PairSampler:
        return PairSampler(numbered, self.batch_size, self.seed)

    def translate(self, text: str, beam: int = 1) -> str:
        """The string for `text`: greedily decoded, or the likeliest that a beam of this width finds.

        Raises ValueError for an empty or too long text, an unknown character (named), and a beam not in 1 to 1,000.
        """
        return self.translations(text, beam)[0][0]

    def translations(self, text: str, beam: int = 1) -> list[tuple[str, float]]:
        """All whole strings that a beam finds, with their log-probabilities, the likeliest first; see `beam_search`."""
        network, p = self.fitted(), self.parameters
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

        hypotheses = beam_search(log_probabilities, beam, self.maxlen)
        return [("".join(self.targets.decode(np.array(h.symbols[:-1], dtype=np.int64))), h.score) for h in hypotheses]

    def alignment(self, source: str, target: str) -> np.ndarray:
        """(layers, heads, n + 1, m): cross-attention from each character of the target, and its end, to the source.

        A target may be empty. Raises ValueError as `translate`.
        """
        network, p = self.fitted(), self.parameters
        read = self._numbers(source, self.sources, self.maxlen)
        written = self._numbers(target, self.targets, self.maxlen - 1) if target else np.zeros(0, dtype=np.int64)
        batch = pair_batch([read], [written], np.zeros(1, dtype=np.int64))
        _, cache = network.forward(p, batch.to(self._module(p)))
        return np.array([backend.to_numpy(weights)[0] for weights in network.alignment(cache)])
