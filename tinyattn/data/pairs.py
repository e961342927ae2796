"""Pairs of strings, one to read and one to write: read, split, encode, batch."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ..backend import Array, transfer
from ..terminal import shortened
from .fields import DataError
from .parts import Parts, tenths
from .read import read_text
from .slices import cut, rows_of_step, steps_of
from .vocabulary import Vocabulary, refuse_no_text, refuse_nul


@dataclass(frozen=True)
class Pairs:
    """String i of `sources` becomes string i of `targets`. Raises ValueError for an empty string, and for no pairs."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]

    what: ClassVar[str] = "pairs"

    def __post_init__(self) -> None:
        if len(self.sources) != len(self.targets):
            raise ValueError(f"{len(self.sources)} sources and {len(self.targets)} targets, expected as many of each")
        if not self.sources:
            raise ValueError("there are no pairs")
        for number, (source, target) in enumerate(zip(self.sources, self.targets, strict=True), start=1):
            if not all(isinstance(part, str) and part for part in (source, target)):
                pair = ", ".join(shortened(repr(part), 62) for part in (source, target))
                raise ValueError(f"pair {number} is {pair}: expected two strings that are not empty")
        refuse_nul((*self.sources, *self.targets), "the string")

    @classmethod
    def of(cls, data: Any) -> Self:
        """Pairs from (source, target) tuples; `Pairs` are returned unchanged. ValueError for anything else."""
        if isinstance(data, cls):
            return data
        try:
            pairs = list(data)
        except TypeError:                                # not iterable
            raise ValueError(f"{shortened(repr(data))} is no list of pairs of strings") from None
        for number, pair in enumerate(pairs, start=1):
            if not isinstance(pair, tuple | list | np.ndarray) or len(pair) != 2:        # "ab" would be a pair, too
                raise ValueError(f"pair {number} is {shortened(repr(pair))}, expected two strings")
        return cls(tuple(source for source, _ in pairs), tuple(target for _, target in pairs))

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def sizes(self) -> dict[str, int]:
        return {"pairs": len(self)}

    def fingerprint(self) -> str:
        """A digest of all strings, in order."""
        digest = hashlib.sha256()
        for text in (*self.sources, *self.targets):
            digest.update(text.encode() + b"\0")
        return digest.hexdigest()[:16]

    def split(self) -> Parts:
        """Parts by source, a tenth each for validation and testing. Raises ValueError for fewer than three sources."""
        return self._parts([(sorted(set(self.sources)), "sources")])

    def _parts(self, groups: Iterable[tuple[list[str], str]]) -> Parts:
        """A tenth of each group of sources for validation and one for testing; groups have a name for `tenths`."""
        part_of = {
            group[i]: part
            for group, what in groups for part, rows in enumerate(tenths(len(group), what)) for i in rows.tolist()
        }  # fmt: skip
        parts: list[list[tuple[str, str]]] = [[], [], []]
        for source, target in zip(self.sources, self.targets, strict=True):
            parts[part_of[source]].append((source, target))
        return Parts(*map(self.of, parts))


def read_pairs(path: str | Path) -> Pairs:
    """The pairs in a text file, a line each: a string, a TAB, what it becomes.

    Raises DataError, naming the file and the line, for a file that cannot be read or is empty, a line without a TAB or
    with several, and an empty string.
    """
    return Pairs.of(pairs_in(path, "a string, one TAB, and what it becomes"))


def pairs_in(path: str | Path, expected: str) -> Iterator[list[str]]:
    """The two fields of each line. Raises DataError as `read_pairs`; `expected` describes a line, for the message."""
    for number, line in enumerate(read_text(path).removesuffix("\n").split("\n"), start=1):
        fields = line.removesuffix("\r").split("\t")
        if len(fields) != 2 or not all(fields):
            raise DataError(f"{path}: line {number} is {shortened(line)!r}, expected {expected}")
        yield fields


def characters(texts: Iterable[str]) -> Vocabulary:
    """The characters of all these texts."""
    return Vocabulary(np.array(sorted(set().union(*texts))), "character")


def numbers_of(text: str, vocabulary: Vocabulary) -> np.ndarray:
    """(n,): the numbers of a text's characters. Raises ValueError for an empty text and an unknown character."""
    refuse_no_text(text)
    try:
        return vocabulary.numbers(text)
    except ValueError:
        unknown = next(c for c in text if not vocabulary.numbers_or_zero(np.array([c]))[0])
        known = shortened("".join(vocabulary.ids), 200)
        text = shortened(text)
        raise ValueError(f"character {unknown!r} of {text!r} is unknown: the known ones are {known!r}") from None


class NumberedPairs(NamedTuple):
    """Encoded pairs: for each string an array of character numbers, 1, 2, 3, ..."""

    sources: list[np.ndarray]
    targets: list[np.ndarray]


class PairBatch(NamedTuple):
    """Row b is one pair, padded with 0 on the right. Where `written` has 0, a, b, c, `targets` have a, b, c, 0."""

    source: Array             # (B, m) character numbers, 0 for none
    lengths: Array            # (B,) of the sources
    written: Array            # (B, n) 0, then the target
    targets: Array            # (B, n) the target, then 0
    weight: Array             # (B, n) 1.0 at the target and the 0 that ends it, 0.0 after that
    rows: Array               # (B,) numbers of the pairs, which select dropout masks

    @property
    def total(self) -> float:
        return float(np.sum(self.weight))

    def slices(self, tokens: int) -> "list[PairBatch]":
        """The rows, by length, in slices of about `tokens` characters, read and written."""
        written = np.sum(self.weight, axis=1).astype(np.int64)
        return [self._take(rows, written) for rows in cut(self.lengths + written, tokens)]

    def _take(self, rows: np.ndarray, written: np.ndarray) -> "PairBatch":
        m, n = int(np.max(self.lengths[rows])), int(np.max(written[rows]))
        return PairBatch(
            self.source[rows, :m], self.lengths[rows],
            self.written[rows, :n], self.targets[rows, :n], self.weight[rows, :n], self.rows[rows],
        )  # fmt: skip

    def to(self, xp: Any) -> "PairBatch":
        return PairBatch(*transfer(self, xp))


def pair_batch(sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], rows: np.ndarray) -> PairBatch:
    """A batch of encoded pairs. Shapes: sources and targets B of (length,), rows (B,)."""
    source, lengths = filled(sources)
    target, written = filled([np.append(target, 0) for target in targets])
    weight = (np.arange(target.shape[1]) < written[:, None]).astype(np.float32)
    before = np.concatenate([np.zeros_like(target[:, :1]), target[:, :-1]], axis=1)
    return PairBatch(source, lengths, before, target, weight, rows)


def filled(strings: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Encoded strings as one array, padded with 0 on the right. -> (B, longest), lengths (B,)."""
    lengths = np.array([len(string) for string in strings])
    ids = np.zeros((len(strings), int(lengths.max())), dtype=np.int64)
    ids[np.arange(ids.shape[1]) < lengths[:, None]] = np.concatenate(strings)
    return ids, lengths


@dataclass(frozen=True)
class PairSampler:
    """The training batches of a run, a function of the step. In an epoch each pair comes once, in a new order."""

    pairs: NumberedPairs
    batch_size: int
    seed: int

    @property
    def steps(self) -> int:
        return steps_of(len(self.pairs.sources), self.batch_size)

    def batch(self, step: int) -> PairBatch:
        return self.of(rows_of_step(len(self.pairs.sources), self.steps, self.seed, step))

    def whole(self) -> PairBatch:
        return self.of(np.arange(len(self.pairs.sources)))

    def of(self, rows: np.ndarray) -> PairBatch:
        """The batch of the pairs with these numbers, counted from 0."""
        sources, targets = ([strings[i] for i in rows.tolist()] for strings in self.pairs)
        return pair_batch(sources, targets, rows)
