"""The classifier of texts: one linear map on the encoder's states, trained with the encoder (Devlin et al. 2019, 4.1).

BERT reads the state of a first token, [CLS], which its next-sentence task has trained. The encoder here has no such
task, so that token would be untrained. The map reads the mean of all states instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ... import backend
from ...backend import Array, get_xp
from ...data import LabelledSampler, LabelledTexts, NumberedTexts, Tokens, Vocabulary, learned_tokens
from ...evaluation import macro_f1
from ...layers import dense, dense_backward
from ...ops import Mask, softmax
from ...options import with_default
from ...terminal import shortened
from ...training import Settings
from ...tree import tree_map
from ..cross_entropy import ClassNetwork, Smoothed
from ..sequence_model import SequenceModel
from .encoder import Encoder, EncoderCache, EncoderNetwork, EncoderOptions
from .pretrained import FineTuned

AT_ONCE = 256            # texts a batch when they are classified


class ClassifierCache(NamedTuple):
    encoder: EncoderCache
    share: Array                     # (B, n, 1): 1 / length at the tokens of a text, 0 at its padding
    head: Any                        # the dense map's


@dataclass(kw_only=True)
class ClassifierNetwork(EncoderNetwork):
    """The pure network. [MASK]'s row of "tokens" is kept, and not read."""

    n_labels: int
    start: Any = None                # parameters of the encoder's network to begin with

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64, or those of `start`. The map is 0, so that the loss is ln V at first."""
        p = super().init(rng) if self.start is None else tree_map(lambda a: a.astype(np.float64), self.start)
        del p["bias"]                                        # of the scores of tokens
        return p | {"head": {"W": np.zeros((self.dim, self.n_labels)), "b": np.zeros(self.n_labels)}}

    def forward(  # type: ignore[override]
        self, p: Any, ids: Array, lengths: Array, rng: Any = None
    ) -> tuple[Array, ClassifierCache]:
        """Scores (B, V) = mean(h) W + b, over each text's tokens; and the cache. Shapes: ids (B, n), lengths (B,)."""
        cache, xp = self.encode(p, ids, rng, Mask(lengths=lengths)), get_xp(ids)
        real = xp.arange(ids.shape[1]) < lengths[:, None]
        share = (real / lengths[:, None]).astype(cache.h.dtype)[..., None]
        scores, head = dense(p["head"], xp.sum(share * cache.h, axis=1))
        return scores, ClassifierCache(cache, share, head)

    def backward(self, p: Any, dscores: Array, cache: ClassifierCache) -> dict[str, Any]:  # type: ignore[override]
        """-> grads shaped like p."""
        dmean, head = dense_backward(p["head"], dscores, cache.head)                 # (B, D)
        dh = cache.share * dmean[:, None]                                            # each token has its share
        return self.encode_backward(p, dh, cache.encoder) | {"head": head}

    def scores_and_targets(self, p: Any, batch: Any, rng: Any = None) -> tuple[Array, Array, Array, Any]:
        scores, cache = self.forward(p, batch.ids, batch.lengths, rng)
        return scores, batch.labels, batch.weight.astype(scores.dtype), cache

    measure = ClassNetwork.measure         # accuracy, too


@dataclass(eq=False, kw_only=True)
class Classifier(EncoderOptions, Smoothed, FineTuned):
    """Learns to classify texts from texts with labels. It may begin with a trained encoder, `start`.

        model = Classifier(epochs=5).fit([("the cat sleeps.", "singular"), ("two cats sleep.", "plural"), ...])
        model.classify(["a dog runs."])                      # array(["singular"])
    """

    epochs: int = with_default(20, Settings, "epochs")
    patience: int = with_default(0, SequenceModel, "patience")           # the rate falls until the last epoch
    batch_size: int = with_default(32, SequenceModel, "batch_size")
    schedule: str = with_default("linear", Settings, "schedule")
    warmup: int = with_default(20, Settings, "warmup")

    name = "classifier"
    table = "labelled texts"
    criterion = "-loss"
    vocabularies = ("tokens", "labels")
    made_by: ClassVar[dict[str, Any]] = {"tokens": Tokens}
    tokens: ClassVar[Tokens]         # set by fit and load
    labels: ClassVar[Vocabulary]
    Network = ClassifierNetwork
    Data = LabelledTexts
    starts_from, shared = Encoder, EncoderOptions

    def vocabularies_of(self, parts: list[LabelledTexts]) -> dict[str, Vocabulary]:
        """The characters of all parts, or those of `start`, and the labels.

        Raises ValueError for a single label, and for a label of another part that the training part lacks.
        """
        labels = sorted(set(parts[0].targets))
        if len(labels) < 2:
            raise ValueError(f"all texts to learn from have the label {labels[0]!r}, expected at least two labels")
        if unknown := set().union(*(part.targets for part in parts)).difference(labels):
            raise ValueError(f"no text to learn from has the label {min(unknown)!r}, which held-out texts have")
        train, *others = ["".join(part.sources) for part in parts]
        tokens = learned_tokens(train, 0, others) if self._start is None else self._start.tokens
        return {"tokens": tokens, "labels": Vocabulary(np.array(labels), "label")}

    def numbered(self, data: LabelledTexts, known: dict[str, Any]) -> NumberedTexts:
        labels = known["labels"].numbers_or_zero(np.array(data.targets))
        if not labels.all():
            at, ids = int(np.argmin(labels)), shortened(", ".join(known["labels"].ids))
            text = f"text {at + 1} (in a file: line {at + 1}), {shortened(data.sources[at])!r}"
            raise ValueError(f"{text}, has the label {data.targets[at]!r}, expected one of {ids}")
        return NumberedTexts(self._numbers(data.sources, known["tokens"]), labels - 1)

    def _numbers(self, texts: Sequence[str], tokens: Tokens) -> list[np.ndarray]:
        numbers = []
        for text in texts:
            if not isinstance(text, str):
                raise ValueError(f"a text is {shortened(repr(text))}, expected a string")
            try:
                numbers.append(tokens.encode(text))
            except ValueError as error:
                raise ValueError(f"{error}, in {shortened(text)!r}") from None
        lengths = [len(ids) for ids in numbers]
        if max(lengths, default=0) > self.context:
            longest = max(lengths)
            message = f"the longest text, {shortened(texts[lengths.index(longest)])!r}, has {longest} tokens, expected"
            raise ValueError(f"{message} {self.context} at most, the context: cut it, or train with a larger context")
        return numbers

    def sampler(self, numbered: NumberedTexts) -> LabelledSampler:
        return LabelledSampler(numbered, self.batch_size, self.seed)

    def evaluate(self, data: Any) -> dict[str, float]:
        """As `SequenceModel.evaluate`, with "macro-f1", the mean of the labels' F1."""
        data = self.Data.of(data)
        return super().evaluate(data) | {"macro-f1": macro_f1(self.classify(data.sources), np.array(data.targets))}

    def probabilities(self, texts: Any) -> np.ndarray:
        """(N, labels): the probability of each label.

        Raises ValueError for no texts, a string in the place of a list, an empty text, one of more tokens than
        `context`, and an unknown character.
        """
        network = self.fitted()
        if isinstance(texts, str):                       # its letters would be texts
            raise ValueError(f"texts is {shortened(texts)!r}, expected a list of texts")
        if not (numbers := self._numbers(list(texts), self.tokens)):
            raise ValueError("there are no texts")
        batches, xp = self.sampler(NumberedTexts(numbers, np.zeros(len(numbers), int))), self._module(self.parameters)
        parts = []
        for i in range(0, len(numbers), AT_ONCE):
            batch = batches.of(np.arange(i, min(i + AT_ONCE, len(numbers)))).to(xp)
            scores, _ = network.forward(self.parameters, batch.ids, batch.lengths)
            parts.append(backend.to_numpy(softmax(scores)))
        return np.concatenate(parts)

    def classify(self, texts: Any) -> np.ndarray:
        """(N,): the likeliest label of each text. Raises ValueError as `probabilities`."""
        likeliest = np.argmax(self.probabilities(texts), axis=1)
        return self.labels.ids[likeliest]
