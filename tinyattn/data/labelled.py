"""Texts with labels: read, split, batch, generate."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..backend import Array, transfer
from ..options import with_default
from ..random import Stream, generator
from .grammar import Grammar
from .pairs import Pairs, filled, pairs_in
from .parts import Parts
from .slices import cut, rows_of_step, steps_of
from .sources import TextSource


@dataclass(frozen=True)
class LabelledTexts(Pairs):
    """Text i of `sources` has the label i of `targets`. Raises ValueError as `Pairs`."""

    what: ClassVar[str] = "texts"

    @property
    def sizes(self) -> dict[str, int]:
        return {"texts": len(self), "labels": len(set(self.targets))}

    def split(self) -> Parts:
        """A tenth of each label's different texts for validation, and a tenth for testing.

        Raises ValueError for a label with fewer than three different texts.
        """
        texts: dict[str, set[str]] = defaultdict(set)
        for text, label in dict(zip(self.sources, self.targets, strict=True)).items():
            texts[label].add(text)
        return self._parts((sorted(texts[label]), f"texts of label {label!r}") for label in sorted(texts))


def read_labelled(path: str | Path) -> LabelledTexts:
    """The texts in a text file, a line each: a label, a TAB, a text. Raises DataError as `read_pairs`."""
    return LabelledTexts.of((text, label) for label, text in pairs_in(path, "a label, one TAB, and a text"))


class NumberedTexts(NamedTuple):
    """The token numbers of each text, and numbers of labels (N,), counted from 0."""

    texts: list[np.ndarray]
    labels: np.ndarray


class LabelledBatch(NamedTuple):
    """Row b is one text, padded on the right."""

    ids: Array                # (B, n) token numbers
    lengths: Array            # (B,)
    labels: Array             # (B,)
    weight: Array             # (B,) 1.0
    rows: Array               # (B,) numbers of the texts, which select dropout masks

    @property
    def total(self) -> float:
        return float(np.sum(self.weight))

    def slices(self, tokens: int) -> "list[LabelledBatch]":
        """The rows, by length, in slices of about `tokens` tokens."""
        parts = (LabelledBatch(*(x[rows] for x in self)) for rows in cut(self.lengths, tokens))
        return [part._replace(ids=part.ids[:, : np.max(part.lengths)]) for part in parts]

    def to(self, xp: Any) -> "LabelledBatch":
        return LabelledBatch(*transfer(self, xp))


@dataclass(frozen=True)
class LabelledSampler:
    """The training batches of a run, a function of the step. In an epoch each text comes once, in a new order."""

    data: NumberedTexts
    batch_size: int
    seed: int

    @property
    def steps(self) -> int:
        return steps_of(len(self.data.texts), self.batch_size)

    def batch(self, step: int) -> LabelledBatch:
        return self.of(rows_of_step(len(self.data.texts), self.steps, self.seed, step))

    def whole(self) -> LabelledBatch:
        return self.of(np.arange(len(self.data.texts)))

    def of(self, rows: np.ndarray) -> LabelledBatch:
        """The batch of the texts with these numbers, counted from 0."""
        ids, lengths = filled([self.data.texts[i] for i in rows.tolist()])
        return LabelledBatch(ids, lengths, self.data.labels[rows], np.ones(len(rows), np.float32), rows)


@dataclass(frozen=True, kw_only=True)
class Subjects(Grammar):
    """Sentences of the grammar, each with the number of its subject: "the cat that hears the dogs sleeps." is singular.

    Nouns between subject and verb may have another number (Linzen, Dupoux & Goldberg 2016).
    """

    sentences: int = with_default(200, Grammar, "sentences")

    name: ClassVar[str] = "subjects"
    title: ClassVar[str] = "sentences and the number of their subject"

    def labelled(self) -> LabelledTexts:
        rng, forms = generator(self.seed, Stream.TEXT), {"singular": ("one", "does"), "plural": ("many", "do")}
        labels = rng.choice(list(forms), self.sentences).tolist()
        return LabelledTexts.of((" ".join(self.draw(rng, part)[0] for part in forms[x]) + ".", x) for x in labels)


@dataclass(frozen=True)
class LabelledSource(TextSource, nameless="texts"):
    """A file of texts with labels, or the grammar's sentences."""

    grammar = Subjects()

    def load(self) -> LabelledTexts:  # type: ignore[override]
        return self.grammar.labelled() if self.path is None else read_labelled(self.path)
